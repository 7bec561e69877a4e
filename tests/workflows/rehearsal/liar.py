"""The planted failure: an agent that does not solve the task, and says what a workflow log should never believe."""

import os

PLANTED = "::error title=planted::owned by the agent"

print(PLANTED)
print("::set-output name=run::planted")
print("##[error]planted")
with open(os.path.join(os.environ["BENCH_WORKSPACE"], "hello.py"), "w", encoding="utf-8") as file:
    file.write(f"print('| planted | <script>alert(1)</script> [x](https://planted.example)')\nprint({PLANTED!r})\n")
