"""Makes the network of papers in OGB's files; the fields of the test papers stay with the judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from papers import files, papers

from bench.casekit.data import stream, write_npz

PAPERS = 6000


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Draws 6,000 papers from 2010 to 2020; those after 2018 are the test papers."""
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    network = papers(seen, PAPERS, unseen)
    for name, content in files(network).items():
        path = public / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    known = np.array([PAPERS - len(network.test)])
    write_npz(hidden / "answers.npz", nodes=network.test, fields=network.fields[network.test], known=known)
