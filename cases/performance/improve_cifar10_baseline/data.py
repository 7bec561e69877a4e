"""Makes the agent's pictures. The held-out ones are painted by check.py, anew for every grading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from painter import paint

from bench.dataset import write_npz

TRAIN, VALIDATION = 4000, 1000
TRAIN_SEED = 2010


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes data/train.npz and data/val.npz."""
    folder = public / "data"
    folder.mkdir(parents=True, exist_ok=True)
    # The training pictures are always the ones the baseline learnt from: new ones would be a gift by themselves.
    images, labels = paint(np.random.default_rng(TRAIN_SEED), TRAIN)
    write_npz(folder / "train.npz", images=images, labels=labels)
    images, labels = paint(np.random.default_rng([seed, 10]), VALIDATION)
    write_npz(folder / "val.npz", images=images, labels=labels)
