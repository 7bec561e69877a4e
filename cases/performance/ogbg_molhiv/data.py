"""Makes molecules in OGB's files; what the test molecules do stays with the judge, with what the baseline reaches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from molecules import files, molecules, world
from plain import baseline

from bench.casekit.data import stream, write_npz
from bench.casekit.metrics import auc

MOLECULES, TESTS = 6000, 2000


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Draws 6,000 molecules; the last third has other ring systems, for the most part."""
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    made = molecules(seen, world(seen), MOLECULES, TESTS, unseen)
    for name, content in files(made, TESTS, seen).items():
        path = public / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    acts, graphs = made.acts[-TESTS:], np.arange(MOLECULES - TESTS, MOLECULES)
    plain = auc(acts, baseline(made, MOLECULES - TESTS)[-TESTS:])
    write_npz(hidden / "answers.npz", graphs=graphs, acts=acts, plain=np.array([plain]))
