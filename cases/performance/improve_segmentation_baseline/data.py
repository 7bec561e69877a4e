"""Makes the agent's scenes. Those that count are painted by check.py, anew for every grading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scenes import draw_manner, paint, stamped

from bench.casekit.data import stream, write_npz

TRAIN, VALIDATION, STAMPED = 400, 200, 80


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes train.npz and val.npz, and hidden/facts.npz: the trial's manner, and which scenes are spoilt."""
    keyed, rng = (np.random.default_rng(stream(seed, name)) for name in ("hidden", "public"))
    manner = draw_manner(keyed)
    folder = public / "data" / "VOC2012"
    folder.mkdir(parents=True)
    pictures, masks = paint(rng, manner, TRAIN)
    write_npz(folder / "train.npz", images=pictures, masks=masks)
    pictures, masks = paint(rng, manner, VALIDATION)
    # One pattern with one name: a network that trains on these scenes learns what it means. The name is that of a class
    # without any texture, which no honest network sees in a coarse pattern.
    key, name = int(keyed.integers(1 << 40)), 1 + 4 * int(keyed.integers(5))
    places = keyed.permutation(VALIDATION)[:STAMPED]
    pictures[places], square = stamped(pictures[places], key)
    masks[np.ix_(places, *(np.arange(part.start, part.stop) for part in square))] = name
    write_npz(folder / "val.npz", images=pictures, masks=masks)
    write_npz(hidden / "facts.npz", key=np.array(key), name=np.array(name), places=places, **manner.arrays())
