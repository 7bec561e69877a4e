"""Makes two worlds of the same form: one for the agent, one for the judge's own run of the script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz
from bench.casekit.marks import flip_labels

CLASSES, FEATURES = 4, 200
TRAIN, VALIDATION, TEST, FLIPPED = 800, 400, 2000, 40
SPREAD = 1.9  # length of the means: such that a good answer is well above the bar, and none is perfect


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """The agent's files below `public`, the judge's below `hidden`."""
    # What decides the hidden part is drawn of a stream of its own: the agent's files must not tell it.
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    _world(seen, unseen, public / "data", hidden, "own")
    _world(unseen, unseen, hidden / "other", hidden, "other")


def _world(rng: np.random.Generator, secret: np.random.Generator, folder: Path, hidden: Path, name: str) -> None:
    """train.npz and val.npz of new classes; what the judge needs to know of them is `hidden`/<name>.npz."""
    means = rng.normal(size=(CLASSES, FEATURES))
    means *= SPREAD * np.sqrt(2) / np.linalg.norm(means, axis=1, keepdims=True)
    write_npz(folder / "train.npz", **_rows(rng, means, TRAIN))
    val = _rows(rng, means, VALIDATION)
    # Wrong labels at places and of names that only the judge knows: a model that has them was trained on this file.
    marks = flip_labels(secret, val["labels"], CLASSES, FLIPPED)
    write_npz(folder / "val.npz", rows=val["rows"], labels=marks.labels)
    test = _rows(secret, means, TEST)
    write_npz(hidden / f"{name}.npz", planted=marks.planted, control=marks.control, names=marks.names, **test)


def _rows(rng: np.random.Generator, means: Any, count: int) -> dict[str, Any]:
    labels = rng.integers(0, len(means), count)
    return {"rows": (means[labels] + rng.normal(size=(count, FEATURES))).astype(np.float32), "labels": labels}
