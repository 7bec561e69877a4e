"""Put the records back into the order of time, keep one run, and read how it went."""

import json
import math
import re
from pathlib import Path

STAMP = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) +(\w+) +\[run (\w+) worker \d\] ", re.M)
EPOCH = re.compile(r"^epoch \d+ finished \[train\] loss=(\S+) accuracy=(\S+)$")


def records(text: str) -> list[tuple[str, str, str]]:
    """(time, run, message) in order of time; lines without a time stamp belong to the record above."""
    marks = list(STAMP.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    found = [(mark[1], mark[3], text[mark.end() : end].rstrip("\n")) for mark, end in zip(marks, ends, strict=True)]
    return sorted(found, key=lambda record: record[0])


def main() -> None:
    everything = records(Path("training/training_logs.txt").read_text())
    run = [name for _, name, message in everything if message == f"run {name} starts"][-1]
    status, error, last_error = "", "", ""
    metrics: dict[str, float | None] = {"accuracy": None, "loss": None}
    for message in (message for _, name, message in everything if name == run):
        epoch = EPOCH.match(message)
        if epoch and math.isfinite(float(epoch[1])) and math.isfinite(float(epoch[2])):
            metrics = {"accuracy": float(epoch[2]), "loss": float(epoch[1])}
        elif "\nTraceback" in message:
            last_error = message.splitlines()[-1]
        elif message.startswith(f"run {run} completed"):
            status, error = "success", last_error
        elif message.startswith(f"run {run} aborted"):
            status, error = "failed", last_error
    answer = {"status": status, "final_metrics": metrics, "error_message": error}
    Path("training/training_analysis.json").write_text(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
