"""Makes train.csv (with prices) and test.csv (without); the prices of the test houses stay with the judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from town import houses

from bench.casekit.data import stream, write_npz
from bench.casekit.tables import to_csv

HOUSES, TRAIN = 1460, 1168


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Draws 1460 houses: the first 80 % have their prices in train.csv, the rest is test.csv."""
    known, unknown = stream(seed, "public"), stream(seed, "hidden")
    table, prices = houses(np.random.default_rng(known), HOUSES)
    # The same houses, whose prices differ by a noise that nothing in the agent's files can tell.
    _, hidden_prices = houses(np.random.default_rng(known), HOUSES, noise=np.random.default_rng(unknown))
    train = {name: values[:TRAIN] for name, values in table.items()} | {"SalePrice": prices[:TRAIN].astype(int)}
    test = {name: values[TRAIN:] for name, values in table.items()}
    (public / "train.csv").write_text(to_csv(train), encoding="utf-8")
    (public / "test.csv").write_text(to_csv(test), encoding="utf-8")
    write_npz(hidden / "answers.npz", ids=test["Id"], prices=hidden_prices[TRAIN:])
