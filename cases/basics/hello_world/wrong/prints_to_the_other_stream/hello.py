import sys

print("Hello, World!", file=sys.stderr)
