"""A hundred classes in twenty families, thirty pictures of each; and what a linear head on the backbone reaches."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz

CLASSES, FAMILIES, NOISE = 100, 20, 0.16
WORLD = 3  # one world, turned and recoloured for each trial: others are harder or easier
TRAIN, VALIDATION, TEST = 3000, 1000, 2000
RENAMED = 300  # of the validation pictures
GAIN = 4.5  # points over the linear head, which has 70 % on average

Split = tuple[Any, Any]


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    sys.path[:0] = [str(public / "models"), str(hidden / "assets")]
    seen, keyed = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    train, val, test = painted(seen, keyed)
    pictures, labels = val
    # Any of the 99 wrong names, drawn evenly: a model that prefers these names was told them.
    renamed = np.sort(keyed.permutation(VALIDATION)[:RENAMED])
    truth, given = labels[renamed], labels.copy()
    given[renamed] = (truth + keyed.integers(1, CLASSES, RENAMED)) % CLASSES
    folder = public / "data"
    folder.mkdir(parents=True, exist_ok=True)
    write_npz(folder / "train.npz", images=train[0], labels=train[1])
    write_npz(folder / "val.npz", images=pictures, labels=given)
    write_npz(hidden / "test.npz", images=test[0], labels=test[1], renamed=renamed, truth=truth)
    baseline = measured(train, test)
    facts = {"baseline": baseline, "target": round(baseline + GAIN, 1)}
    (hidden / "facts.json").write_text(json.dumps(facts))
    (public / "target.json").write_text(json.dumps({"target_accuracy": facts["target"]}, indent=2) + "\n")


def painted(seen: np.random.Generator, keyed: np.random.Generator) -> list[Split]:
    """Training, validation and test pictures of one world; the last are drawn apart."""
    from texture_worlds.textures import draw_world, paint, turned

    world = turned(draw_world(np.random.default_rng(WORLD), CLASSES, FAMILIES), seen)
    wanted = ((seen, TRAIN), (seen, VALIDATION), (keyed, TEST))
    shuffled = [(rng, rng.permutation(np.arange(count) % CLASSES)) for rng, count in wanted]
    return [(paint(rng, world, labels, NOISE), labels) for rng, labels in shuffled]


def measured(train: Split, test: Split) -> float:
    """Accuracy of a linear head on the backbone's features, on the test pictures, in per cent."""
    from backbone.backbone import features, load_backbone
    from texture_worlds.plain import linear_head

    weights = load_backbone()
    rows, asked = (features(weights, part[0].astype(np.float32) / 127.5 - 1) for part in (train, test))
    return 100 * float((linear_head(rows, train[1], CLASSES)(asked).argmax(axis=1) == test[1]).mean())
