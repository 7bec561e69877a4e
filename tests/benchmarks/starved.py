"""Machines that starve a cell while it is judged; prints how each of these cells ended.

    python -m tests.benchmarks.starved --cells 20 --side-by-side 4

Each cell's answer computes for ever when the judge calls it. As soon as it has begun, its control group gets the least
share that there is, beside four busy processes of a stranger for each processor: the cell must end as `infra`. As a
check of the check, one cell more is left alone, which must be graded. Needs control groups that it may write.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.cell.run import run_cell
from bench.formats.record import Record
from bench.sandbox.cgroup_files import write_file
from bench.sandbox.cgroup_location import counted_jobs
from bench.sandbox.choose import choose_sandbox
from tests.helpers.cells import make_agent, make_case, make_cell, make_context

_SOLVE = "open('answer.py', 'w').write('while True: pass\\n')\n"
_BUSY = "while True: pass"
_LIMITS = {"call_s": 3, "grade_s": 6}
_BEGUN_S = 0.3
_LOOK_S = 0.1


def _used_s(group: Path) -> float:
    """CPU time of a job's group so far; 0 where it is gone."""
    with contextlib.suppress(OSError, ValueError):
        if (one := group / "cpuacct.usage").exists():
            return int(one.read_text()) / 1e9
        words = (group / "cpu.stat").read_text().split()
        return int(words[words.index("usage_usec") + 1]) / 1e6
    return 0.0


def _give_least(group: Path) -> None:
    with contextlib.suppress(OSError):
        if (group / "cpu.weight").exists():
            write_file(group / "cpu.weight", "1")
        else:
            # Version 1 may count in one hierarchy and share in another.
            place = group if (group / "cpu.shares").exists() else Path("/sys/fs/cgroup/cpu") / group.name
            write_file(place / "cpu.shares", "2")


@contextlib.contextmanager
def starving() -> Iterator[None]:
    """While the block runs, each job that has begun to compute is starved."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_S):
            for group in counted_jobs():
                if _used_s(group) > _BEGUN_S:
                    _give_least(group)

    hogs = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(4 * (os.cpu_count() or 1))]
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        for hog in hogs:
            hog.kill()
            hog.wait()


def run_one(folder: Path) -> Record:
    """A cell whose answer never ends."""
    case = make_case(folder / "cases", limits=_LIMITS)
    cell = make_cell(make_agent(folder / "agents", _SOLVE), case)
    return run_cell(cell, make_context(folder, choose_sandbox("bubblewrap")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=20)
    parser.add_argument("--side-by-side", type=int, default=4)
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="starved-") as place:
        folders = [Path(place) / str(number) for number in range(arguments.cells + 1)]
        for folder in folders:
            folder.mkdir()
        with starving(), ThreadPoolExecutor(arguments.side_by_side) as pool:
            starved = list(pool.map(run_one, folders[1:]))
        alone = run_one(folders[0])
    ended = Counter(f"{record.outcome} {record.cause}".strip() for record in starved)
    print(
        json.dumps({"starved": ended, "alone": alone.outcome, "seconds": round(time.monotonic() - began, 1)}, indent=1)
    )
    sys.exit(any(record.outcome != "infra" for record in starved) or alone.outcome != "graded")


if __name__ == "__main__":
    main()
