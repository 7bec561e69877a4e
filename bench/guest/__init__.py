"""What runs inside a sandbox, beside untrusted code: mounted there file by file.

Standard library only, and no import of another room: nothing else of bench can be seen from inside.
"""
