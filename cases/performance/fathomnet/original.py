"""The evaluator of MLAgentBench's fathomnet, faults included: for reading old logs, never for a verdict."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

BASELINE = 1e-10
HIGHER_IS_BETTER = True
MOST = 20


def evaluate(submission: Path, answers: Path | None, rng: Random) -> float:
    """Half of 2 AUC - 1 + MAP@20, where what is true is the raw text of a list, and which picture is deep is drawn.

    So tokens such as `[1.0,` are looked for, and right ids match nothing. answers: `answer.csv` with id and
    categories, else `answers.json` of this case, whose lists are written as the original's were.
    """
    assert answers is not None, "the categories of the test pictures are needed"
    with (submission / "submission.csv").open(encoding="utf-8", newline="") as file:
        given = sorted(csv.DictReader(file), key=lambda row: row["id"])
    known = sorted(_known(answers))
    if [row["id"] for row in given] != [name for name, _ in known]:
        raise ValueError("the ids are not those of the answers")
    deep = [rng.randrange(2) for _ in known]
    precisions = [
        _precision(row["categories"].split(" "), text.split(" ")) for row, (_, text) in zip(given, known, strict=True)
    ]
    return 0.5 * (2 * _auc([float(row["osd"]) for row in given], deep) - 1 + sum(precisions) / len(precisions))


def _precision(given: Sequence[str], true: Sequence[str]) -> float:
    """A right label counts once; 0 where nothing is true."""
    found, total, seen = 0, 0.0, set()
    for place, label in enumerate(given[:MOST], start=1):
        if label in true and label not in seen:
            found += 1
            total += found / place
        seen.add(label)
    return total / min(len(true), MOST) if true else 0.0


def _auc(scores: Sequence[float], deep: Sequence[int]) -> float:
    high = [score for score, it in zip(scores, deep, strict=True) if it]
    low = [score for score, it in zip(scores, deep, strict=True) if not it]
    if not high or not low:
        raise ValueError("all pictures were drawn from one distribution")
    return sum((one > other) + 0.5 * (one == other) for one in high for other in low) / (len(high) * len(low))


def _known(answers: Path) -> list[tuple[str, str]]:
    if (answers / "answer.csv").is_file():
        with (answers / "answer.csv").open(encoding="utf-8", newline="") as file:
            return [(row["id"], row["categories"]) for row in csv.DictReader(file)]
    found = json.loads((answers / "answers.json").read_text(encoding="utf-8"))
    lists = [str([float(it) for it in animals]) for animals in found["animals"]]
    return list(zip(map(str, found["ids"]), lists, strict=True))
