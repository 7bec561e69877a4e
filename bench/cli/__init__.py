"""The command line: one module a command, each of which imports what it needs when it is called.

`main` is the only way in; what several commands share is in options, console and stored.
"""
