"""The agent that does nothing: a case that gives it more than 0 rewards what was there before."""

import os

with open(os.environ["BENCH_TASK_FILE"], "rb") as task:
    task.read()
