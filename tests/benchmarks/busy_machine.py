"""Whether verdicts and the stopwatch hold on a busy machine.

    python -m tests.benchmarks.busy_machine --load 4 --times 5 [--case ID ...] [--sandbox bubblewrap]

Grades each case's solution and its first wrong answer on the machine as it is, then again beside `--load` busy
processes for each processor, and prints every outcome. Ends with status 1 where a verdict differs (a cell that is lost
as `infra` does not) or a ratio of the stopwatch is off by more than a fifth.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.authoring.answering import Answering, open_answering
from bench.authoring.proof_seeds import ProofSeed
from bench.base.errors import InfraError
from bench.base.files import temporary_folder
from bench.base.install import find_data_folders
from bench.cell import Overlay
from bench.formats.case import Case, load_cases
from bench.formats.wrong_answers import materialise
from bench.judge import Grading
from bench.sandbox.choose import choose_sandbox

_TOLERANCE = 0.2
_BUSY = "while True: pass"


@dataclass(frozen=True)
class Outcome:
    """What one grading said."""

    verdict: str
    ratio: float | None
    """Of the stopwatch, by the medians."""


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many busy processes beside the block."""
    started = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def grade(answering: Answering, case: Case, overlay: Overlay) -> Outcome:
    """The outcome of an answer, as `cases verify` prepares and judges it: the same data, and fresh inputs."""
    try:
        grading: Grading = answering.answer(case, overlay, ProofSeed("1"), 1, secrets.token_hex(4)).grading
    except InfraError as error:
        return Outcome(f"infra: {error.cause}", None)
    found = {metric["name"]: metric["value"] for metric in grading.metrics}
    # Scores with partial credit may move with a measurement; what a check decides may not.
    return Outcome(f"success {grading.success}, fails {sorted(grading.failed)}", found.get("speedup_median"))


def differs(idle: Outcome, now: Outcome) -> str:
    """What is wrong with `now`; empty when nothing is."""
    if now.verdict.startswith("infra"):
        return ""
    if now.verdict.split(",")[0] != idle.verdict.split(",")[0]:
        return "ANOTHER VERDICT"
    if idle.ratio and now.ratio and abs(now.ratio / idle.ratio - 1) > _TOLERANCE:
        return "ANOTHER RATIO"
    return ""


def answers_of(case: Case, folder: Path) -> dict[str, Overlay]:
    name = next(iter(case.spec.wrong))
    return {
        "solution": Overlay(case.part("solution"), case.spec.solution.run),
        name: Overlay(*materialise(case, name, folder / case.id)),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--load", type=int, default=4, help="busy processes for each processor")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--sandbox", default="bubblewrap")
    options = parser.parse_args()
    folders = find_data_folders()
    faults = 0
    with open_answering(folders, choose_sandbox(options.sandbox)) as answering, temporary_folder("busy") as laid:
        for case in load_cases(Path(folders.cases)):
            if options.case and case.id not in options.case:
                continue
            for name, overlay in answers_of(case, laid).items():
                idle = grade(answering, case, overlay)
                print(f"{case.id:24} {name:24} as it is  {idle}", flush=True)
                with busy(options.load * (os.cpu_count() or 1)):
                    for _ in range(options.times):
                        now = grade(answering, case, overlay)
                        fault = differs(idle, now)
                        faults += bool(fault)
                        print(f"{case.id:24} {name:24} busy      {now} {fault}", flush=True)
    print(f"{faults} wrong")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
