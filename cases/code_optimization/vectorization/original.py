"""The evaluator of MLAgentBench's vectorization, faults included: for reading old logs, never for a verdict."""

import csv
from pathlib import Path
from random import Random

BASELINE = 6.1742
HIGHER_IS_BETTER = False
FAILED = 1e10
"""Seconds for whatever could not be read."""


def evaluate(submission: Path, answers: Path | None, rng: Random) -> float:
    """The first line of submission.csv, which the script appends to: a faster run afterwards changes nothing."""
    try:
        with (submission / "submission.csv").open(encoding="utf-8", newline="") as file:
            return float(next(csv.reader(file, delimiter=";"))[0])
    except Exception:
        return FAILED
