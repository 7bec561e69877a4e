"""Makes train.csv and test.csv of one world for the agent, and of another one for the judge's own run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz
from bench.casekit.tables import World, scaled, to_csv, yes_or_no

TRAIN, TEST = 1200, 600
# Columns and their range; their weights, and those of each category, are drawn anew for each world.
NUMBERS = {
    "visits": (1, 40),
    "spent": (5, 900),
    "age": (18, 90),
    "distance": (0, 120),
    "rating": (1, 5),
    "delay": (0, 14),
}
CATEGORIES = {"region": ["north", "south", "east", "west"], "channel": ["shop", "web", "phone"]}


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """The agent's tables below `public`; the truth about them, and the judge's tables, below `hidden`."""
    # Who comes again is drawn of the hidden stream: the agent's files must not tell the truth of test.csv.
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    # Weights of one strength, so that no drawn world is without a signal: a bar must hold for every seed. In the
    # judge's world half of them have the other sign, or what was learned in the agent's would be of use there.
    signs = seen.choice([-0.7, 0.7], len(NUMBERS))
    others = signs * unseen.permutation([1, 1, 1, -1, -1, -1])
    _world(seen, unseen, signs, public, hidden / "own.npz")
    _world(unseen, unseen, others, hidden / "other", hidden / "other.npz")


def _world(rng: np.random.Generator, secret: np.random.Generator, signs: Any, folder: Path, truth: Path) -> None:
    drawn = World.draw(rng, list(NUMBERS), CATEGORIES)
    slopes = dict(zip(NUMBERS, map(float, signs), strict=True))
    columns, score = World(slopes, {}, drawn.effects, {}).rows(rng, TRAIN + TEST)
    again = yes_or_no(secret, score, sharpness=1.5).astype(int)
    table = {"id": rng.permutation(TRAIN + TEST) + int(rng.integers(1000, 90_000)), **columns}
    table |= {name: scaled(columns[name], *bounds) for name, bounds in NUMBERS.items()}
    train = {name: values[:TRAIN] for name, values in table.items()} | {"again": again[:TRAIN]}
    test = {name: values[TRAIN:] for name, values in table.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train.csv", train), ("test.csv", test)):
        (folder / name).write_text(to_csv(part), encoding="utf-8")
    write_npz(truth, ids=test["id"], again=again[TRAIN:])
