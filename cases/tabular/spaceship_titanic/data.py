"""Makes train.csv (with Transported) and test.csv (without); the truth of the test passengers stays with the judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from plain import baseline
from ship import passengers

from bench.casekit.data import stream, write_npz
from bench.casekit.tables import to_csv

PASSENGERS, TRAIN = 15_000, 12_000


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Draws 15,000 passengers: the first 80 % are train.csv, the rest is test.csv, as in the original."""
    known, unknown = stream(seed, "public"), stream(seed, "hidden")
    table, transported, _ = passengers(np.random.default_rng(known), PASSENGERS)
    # The same passengers, whose fates differ by a draw that nothing in the agent's files can tell.
    unseen = np.random.default_rng(unknown)
    truth = unseen.random(PASSENGERS) < passengers(np.random.default_rng(known), PASSENGERS)[2]
    train = {name: values[:TRAIN] for name, values in table.items()}
    test = {name: values[TRAIN:] for name, values in table.items()}
    (public / "train.csv").write_text(to_csv(train | {"Transported": transported[:TRAIN]}), encoding="utf-8")
    (public / "test.csv").write_text(to_csv(test), encoding="utf-8")
    sample = {"PassengerId": test["PassengerId"], "Transported": np.zeros(PASSENGERS - TRAIN, dtype=bool)}
    (public / "sample_submission.csv").write_text(to_csv(sample), encoding="utf-8")
    plain = baseline(train, transported[:TRAIN], test)
    ids = test["PassengerId"].astype(str)
    write_npz(hidden / "answers.npz", ids=ids, transported=truth[TRAIN:], plain=plain)
