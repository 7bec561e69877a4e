"""Makes train.csv (with prices) and test.csv (without); the prices of the test houses stay with the judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from town import houses, to_csv

from bench.casekit.data import write_npz

HOUSES, TRAIN = 1460, 1168


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Draws 1460 houses: the first 80 % have their prices in train.csv, the rest is test.csv."""
    table, prices = houses(np.random.default_rng([seed, 79]), HOUSES)
    train = {name: values[:TRAIN] for name, values in table.items()}
    test = {name: values[TRAIN:] for name, values in table.items()}
    (public / "train.csv").write_text(to_csv(train, prices[:TRAIN]), encoding="utf-8")
    (public / "test.csv").write_text(to_csv(test), encoding="utf-8")
    write_npz(hidden / "answers.npz", ids=test["Id"], prices=prices[TRAIN:])
