"""What is written on disk or by hand, as validated models: records, cases, agents, suites, plans, run folders.

Its modules are its face, one a format. Nothing here runs anything.
Fields have the names that stored files have; a change of one is a change of a format.
"""
