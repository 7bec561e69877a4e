"""What every room stands on: errors, files, text, models, times, child processes.

Its modules are its face: import `bench.base.files` and the like. Nothing here knows what a case, a cell or a record is.
errors, text, files, child, faces and times are standard library only.
"""
