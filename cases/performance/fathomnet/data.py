"""Makes images/, the categories of the training pictures, and the list of test pictures, whose answers are hidden."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sea import CATEGORIES, draw, here

from bench.casekit.data import stream
from bench.casekit.tables import to_csv

TRAIN, SHALLOW, DEEP = 600, 150, 150


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Draws 600 shallow pictures with their categories, and 300 others, of which half are deep."""
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    sea = here(seen)
    known, asked = draw(seen, sea, TRAIN, 0), draw(unseen, sea, SHALLOW, DEEP)
    for folder in ("images", "multilabel_classification"):
        (public / folder).mkdir(parents=True, exist_ok=True)
    for name, content in (known.files() | asked.files()).items():
        (public / name).write_bytes(content)
    ids = range(1, CATEGORIES + 1)
    tables = {
        "category_key.csv": {"id": list(ids), "name": [f"animal {number}" for number in ids]},
        "multilabel_classification/train.csv": known.table(),
        "sample_submission.csv": asked.sample(),
    }
    for path, columns in tables.items():
        (public / path).write_text(to_csv(columns), encoding="utf-8")
    answers = {"ids": asked.names, "animals": asked.animals, "deep": [int(it) for it in asked.deep]}
    (hidden / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
