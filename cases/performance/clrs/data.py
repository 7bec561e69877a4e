"""Makes small graphs with pointers and larger ones without; the pointers of these stay with the judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from paths import LARGE, SMALL, TEST, TRAIN, draw, files, pairs, total

from bench.casekit.data import stream, write_npz


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes graphs/train.npz and graphs/test.npz, and hidden/answers.npz."""
    train = draw(np.random.default_rng(stream(seed, "public")), TRAIN, SMALL, total)
    test = draw(np.random.default_rng(stream(seed, "hidden")), TEST, LARGE, total)
    (public / "graphs").mkdir(parents=True, exist_ok=True)
    for name, content in files(train, test).items():
        (public / name).write_bytes(content)
    names, pointers = pairs(test)
    write_npz(hidden / "answers.npz", pairs=np.array(names), pointers=pointers)
