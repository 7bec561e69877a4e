"""The evaluator of MLAgentBench's Parkinson case, faults included: for reading old logs, never for a verdict."""

import csv
import math
from pathlib import Path
from random import Random

BASELINE = None
HIGHER_IS_BETTER = False


def evaluate(submission: Path, answers: Path | None, rng: Random) -> float:
    """SMAPE with 1 added to the denominator, row by row: prediction_id is ignored, so that 2 % of true rows line up.

    answers: `answer.csv` with the column rating in the original's order (wait, score, patient, visit), else
    `answers.npz` of this case.
    """
    assert answers is not None, "the scores of the test patients are needed"
    given, known = _ratings(submission / "submission.csv"), _known(answers)
    if len(given) != len(known):
        raise ValueError(f"{len(given)} rows for {len(known)} predictions")
    pairs = [(one, other) for one, other in zip(given, known, strict=True) if math.isfinite(other)]
    if any(one < 0 or other < 0 for one, other in pairs):
        raise ValueError("a rating is negative")
    return 100 * math.fsum(abs(one - other) / ((one + other) / 2 + 1) for one, other in pairs) / len(pairs)


def _ratings(path: Path) -> list[float]:
    with path.open(encoding="utf-8", newline="") as file:
        return [float(row["rating"]) for row in csv.DictReader(file)]


def _known(answers: Path) -> list[float]:
    if (answers / "answer.csv").is_file():
        return _ratings(answers / "answer.csv")
    import numpy as np

    with np.load(answers / "answers.npz") as file:
        return [float(rating) for rating in file["ratings"]]
