"""The evaluator of MLAgentBench's feedback, faults included: for reading old logs, never for a verdict."""

import csv
import math
from pathlib import Path
from random import Random

BASELINE = None
HIGHER_IS_BETTER = False
COLUMNS = ("cohesion", "syntax", "vocabulary", "phraseology", "grammar", "conventions")


def evaluate(submission: Path, answers: Path | None, rng: Random) -> float:
    """The mean of six root mean squared errors, row by row: text_id is ignored.

    answers: `answer.csv` with the six columns, else `answers.npz` of this case.
    """
    assert answers is not None, "the scores of the test essays are needed"
    given, known = _rows(submission / "submission.csv"), _known(answers)
    if len(given) != len(known):
        raise ValueError(f"{len(given)} rows for {len(known)} essays")
    errors = []
    for column in range(len(COLUMNS)):
        squares = [(one[column] - other[column]) ** 2 for one, other in zip(given, known, strict=True)]
        errors.append(math.sqrt(math.fsum(squares) / len(squares)))
    return math.fsum(errors) / len(errors)


def _rows(path: Path) -> list[list[float]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [[float(row[name]) for name in COLUMNS] for row in csv.DictReader(file)]


def _known(answers: Path) -> list[list[float]]:
    if (answers / "answer.csv").is_file():
        return _rows(answers / "answer.csv")
    import numpy as np

    with np.load(answers / "answers.npz") as file:
        return [[float(score) for score in row] for row in file["scores"]]
