"""A stranger's agent: reads the task and writes the script that it asks for."""

import os
import re

with open(os.environ["BENCH_TASK_FILE"], encoding="utf-8") as file:
    task = file.read()
line = re.search(r"^    (\S.*)$", task, re.MULTILINE)
assert line, "the task shows no line to print"
with open(os.path.join(os.environ["BENCH_WORKSPACE"], "hello.py"), "w", encoding="utf-8") as file:
    file.write(f"print({line.group(1)!r})\n")
