"""Does the script say the one line, by itself?"""

from bench.judge import Workspace, check

GREETING = "Hello, World!"


@check(weight=4, required=True)
def prints_the_greeting(ws: Workspace) -> None:
    """Run alone in an empty folder, the script prints the line, nothing else, and ends with status 0."""
    neighbours = [name for name in ws.files() if name != "hello.py"]
    ran = ws.run(["python", "hello.py"], timeout=10, remove=neighbours).ok()
    # A Windows line break or a missing one at the end is not what this case is about; blank lines and spaces are.
    line = ran.stdout.removesuffix("\n").removesuffix("\r")
    assert line == GREETING, f"printed {ran.stdout[:200]!r}, expected {GREETING!r}"
