"""Makes train.csv with six scores, test.csv without, and sample_submission.csv; the test scores stay with the judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from essays import SCORES, essays, graded, new_ids, table

from bench.casekit.data import stream, write_npz
from bench.casekit.tables import to_csv

TRAIN, TEST = 1200, 400


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Draws 1600 essays. What their graders felt about the test essays follows from nothing that the agent has."""
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    texts, abilities, _ = essays(seen, TRAIN + TEST)
    ids = new_ids(seen, TRAIN + TEST)
    known, test = graded(seen, abilities[:TRAIN]), graded(unseen, abilities[TRAIN:])
    files = {
        "train.csv": table(ids[:TRAIN], texts[:TRAIN], known),
        "test.csv": table(ids[TRAIN:], texts[TRAIN:]),
        "sample_submission.csv": {"text_id": ids[TRAIN:]} | dict.fromkeys(SCORES, [3.0] * TEST),
    }
    for name, columns in files.items():
        (public / name).write_text(to_csv(columns), encoding="utf-8")
    told = {"ids": np.array(ids[TRAIN:]), "scores": test, "means": known.mean(axis=0), "abilities": abilities[TRAIN:]}
    write_npz(hidden / "answers.npz", **told)
