"""Measures both halves of submission.csv, and of train.py in another sea: MAP@20 of the animals, AUC of the depth.

The second is what a submission cannot show: that train.py makes such answers, and learns how from the files at hand.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from sea import CATEGORIES, draw, other_sea

from bench.casekit.metrics import auc
from bench.casekit.programs import learns_again
from bench.casekit.tables import to_csv
from bench.judge import Given, Labels, Numbers, check, drawn, once, submission

BASELINE, TARGET = 0.254, 0.75
BAR = 1.1 * BASELINE
MOST_NAMED, TRAIN, SHALLOW, DEEP = 20, 600, 150, 150
APART, SAME, RUN_S = 0.15, 0.08, 60
FOLDERS = ("images/", "multilabel_classification/")
TABLES = ("multilabel_classification/train.csv", "sample_submission.csv")
GIVEN = ("category_key.csv", "metric.py")
LEAST_MAP, LEAST_AUC = 0.45, 0.6  # the most frequent categories for all reach 0.40, a coin 0.5


@check(weight=10, required=True)
def submission_is_complete(ws: Any) -> None:
    """submission.csv has different known categories and a number for every test picture."""
    _submitted(ws)


@check(weight=25)
def close_to_the_best(ws: Any) -> float:
    """Credit for the score of the submission, from the starter's to the best known."""
    return float(ws.scale(_score(*_submission_halves(ws)), floor=BASELINE, target=TARGET))


@check(weight=25, required=True)
def ten_percent_better(ws: Any) -> None:
    """The score of the submission is more than 10 % above the starter's, and neither half is left to chance."""
    _over_the_bar("submission.csv", *_submission_halves(ws))


@check(weight=30, required=True)
def program_learns_another_sea(ws: Any) -> None:
    """train.py, run on the pictures of another sea, gets over the same bar and leaves the files there alone."""
    _over_the_bar("in another sea", *_rerun(ws))


@check(weight=5, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """submission.csv is not much better than what train.py reaches where the judge runs it."""
    for where, rerun, most in (
        ("in another sea", _rerun, APART),
        ("on the same pictures, mirrored and under other ids", _again, SAME),
    ):
        ahead = _score(*_submission_halves(ws)) - _score(*rerun(ws))
        assert ahead <= most, f"submission.csv has a score {ahead:.3f} above that of train.py {where}"


@check(guard=True)
def folders_as_given(ws: Any) -> None:
    """The folders of the pictures and of their categories have no other files than they had."""
    more = [path for path in ws.files() if path.startswith(FOLDERS) and not ws.original(path).is_file()]
    assert not more, f"{' and '.join(FOLDERS)} must stay as they are, {more[0][:80]} is new"


def average_precision(true: list[int], named: list[int]) -> float:
    """Of one picture: mean over its animals, or 20 where it has more, of the precision at the rank of each."""
    right = np.isin(named[:MOST_NAMED], true)
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    return float(precision[right].sum()) / min(len(true), MOST_NAMED)


def halves(true: list[list[int]], deep: Any, answers: tuple[list[list[int]], Any]) -> tuple[float, float]:
    """MAP@20 and AUC; each answer in the order of the truth."""
    named, scores = answers
    found = [average_precision(*pair) for pair in zip(true, named, strict=True)]
    return float(np.mean(found)), auc(np.asarray(deep, int), scores)


def _score(precision: float, area: float) -> float:
    return 0.5 * (2 * area - 1 + precision)


def _over_the_bar(where: str, precision: float, area: float) -> None:
    for name, value, least in (
        ("score", _score(precision, area), BAR), ("MAP@20", precision, LEAST_MAP), ("AUC", area, LEAST_AUC)
    ):  # fmt: skip
        assert value > least, f"{where}: {name} {value:.3f}, wanted more than {least:.3f}"


def _answers(folder: Any, ids: list[str]) -> tuple[list[list[int]], Any]:
    """Categories, best first, and the score of depth for each of `ids`, in their order."""
    columns = {"categories": Labels(), "osd": Numbers(low=0, high=1)}
    found = submission(folder, "submission.csv", ids={"id": ids}, columns=columns)
    named = [_named(it, text) for it, text in zip(ids, found["categories"], strict=True)]
    return named, found["osd"]


def _named(name: str, text: str) -> list[int]:
    what, words = f"submission.csv, categories of {name}", text[:200].split()
    assert 1 <= len(words) <= MOST_NAMED, f"{what}: {len(words)} of them, wanted 1 to {MOST_NAMED} separated by spaces"
    known = {str(number): number for number in range(1, CATEGORIES + 1)}
    odd = [word for word in words if word not in known]
    assert not odd, f"{what}: {odd[0][:20]!r} is not a whole number from 1 to {CATEGORIES}"
    assert len(set(words)) == len(words), f"{what}: a category is named twice"
    return [known[word] for word in words]


@once
def _truth(ws: Any) -> dict[str, Any]:
    return dict(json.loads(Path(ws.hidden("answers.json").path).read_text(encoding="utf-8")))


@once
def _submitted(ws: Any) -> tuple[list[list[int]], Any]:
    return _answers(ws, _truth(ws)["ids"])


@once
def _submission_halves(ws: Any) -> tuple[float, float]:
    precision, area = halves(_truth(ws)["animals"], _truth(ws)["deep"], _submitted(ws))
    ws.metric("map_at_20", precision)
    ws.metric("osd_auc", area)
    ws.metric("score", _score(precision, area))
    return precision, area


@drawn
def _another_sea(given: Given) -> tuple[dict[str, bytes | str], Any]:
    """Files of pictures and tables, and the pictures whose animals and depths are asked for."""
    rng = given.numpy_rng("another sea")
    sea = other_sea(rng)
    known, asked = draw(rng, sea, TRAIN, 0), draw(rng, sea, SHALLOW, DEEP)
    tables = {"multilabel_classification/train.csv": known.table(), "sample_submission.csv": asked.sample()}
    return {**known.files(), **asked.files(), **{path: to_csv(columns) for path, columns in tables.items()}}, asked


@once
def _rerun(ws: Any) -> tuple[float, float]:
    """MAP@20 and AUC of train.py in another sea."""
    files, asked = _another_sea(ws)
    precision, area = halves(asked.animals, asked.deep, _answers(_run(ws, files), asked.names))
    ws.metric("score_other_sea", _score(precision, area))
    return precision, area


@once
def _again(ws: Any) -> tuple[float, float]:
    """The same on the pictures of the workspace, mirrored and under exchanged ids: no table kept of them helps."""
    tables = [list(csv.reader(ws.original(path).read_text().splitlines())) for path in TABLES]
    ids = [row[0] for _, *rows in tables for row in rows]
    named = dict(zip(ids, np.random.default_rng([ws.seed, 83]).permutation(ids).tolist(), strict=True))
    files: dict[str, bytes | str] = {}
    for path, (head, *rows) in zip(TABLES, tables, strict=True):
        lines = [",".join([named[row[0]], *row[1:]]) for row in rows]
        files[path] = "\n".join([",".join(head), *lines]) + "\n"
    for name in ids:
        mirrored = np.load(ws.original(f"images/{name}.npy"))[:, ::-1].copy()
        np.save(file := io.BytesIO(), mirrored)
        files[f"images/{named[name]}.npy"] = file.getvalue()
    answers = _answers(_run(ws, files), [named[name] for name in _truth(ws)["ids"]])
    return halves(_truth(ws)["animals"], _truth(ws)["deep"], answers)


def _run(ws: Any, files: dict[str, bytes | str]) -> Any:
    """What train.py leaves where only Python files of the workspace are, and these."""
    inputs = files | {path: ws.bytes(path) for path in GIVEN}  # as inputs, so that a change of them is seen
    return learns_again(ws, ["python", "train.py"], inputs, RUN_S)
