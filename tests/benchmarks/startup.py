"""How long the command line takes to answer, as a user sees it: a new process each time.

    python tests/benchmarks/startup.py

Prints the median and best of several rounds beside the floor, an interpreter that does nothing.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "--help": [sys.executable, "-m", "bench", "--help"],
    "cases list": [sys.executable, "-m", "bench", "cases", "list"],
    "agents list": [sys.executable, "-m", "bench", "agents", "list"],
}


def main(rounds: int = 11) -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append((time.perf_counter() - began) * 1000)
    print(
        json.dumps(
            {
                name: {"median_ms": round(statistics.median(found), 1), "best_ms": round(min(found), 1)}
                for name, found in times.items()
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
