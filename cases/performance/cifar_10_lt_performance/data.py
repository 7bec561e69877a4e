"""Ten classes, of which the rarest has a hundredth of the pictures of the most frequent one: painted, or CIFAR-10's."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from grating import mark

from bench.casekit.data import stream, write_npz
from bench.casekit.picture_files import CIFAR_FOLDER, read_cifar10

CLASSES, FACTOR, TAIL = 10, 0.01, 3
WORLD, FAMILIES, NOISE = 3, 3, 0.175  # one world, turned and recoloured for each trial: others are harder or easier
MOST, VALIDATION, TEST = {"mini": 400, "full": 5000}, {"mini": 800, "full": 1000}, 2000
RENAMED, MARKED = 0.2, 0.2  # of the validation pictures
GAIN = 7.0  # points of balanced accuracy over the plain baseline, which has 69 on average
PUBLISHED = {"baseline": 60.0, "tail": 45.0, "target": 75.0}

Split = tuple[Any, Any]


def counts(most: int) -> list[int]:
    """Pictures of each class: an exponential fall from `most` to a hundredth of it."""
    return [int(most * FACTOR ** (label / (CLASSES - 1))) for label in range(CLASSES)]


def build(public: Path, hidden: Path, profile: str, seed: int, sources: Path | None = None) -> None:
    seen, keyed = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    if sources is None:
        sys.path[:0] = [str(public / "models"), str(hidden / "assets")]
        train, val, test = painted(seen, keyed)
        facts = measured(train, test)
    else:
        train, val, test = published(seen, sources / "cifar10" / CIFAR_FOLDER)
        facts = PUBLISHED
    pictures, labels = val
    # Any of the nine wrong names, drawn evenly: a model that prefers these names was told them.
    order = keyed.permutation(len(labels))
    renamed, rest = np.sort(order[: int(RENAMED * len(labels))]), order[int(RENAMED * len(labels)) :]
    truth, given = labels[renamed], labels.copy()
    given[renamed] = (truth + keyed.integers(1, CLASSES, len(renamed))) % CLASSES
    # Others have a mark, and one name all of them, which is rare: a few more of it tell a model the most.
    name = CLASSES - 1 - int(keyed.integers(TAIL))
    marked = np.sort(rest[labels[rest] != name][: int(MARKED * len(labels))])
    pictures[marked], given[marked] = mark(keyed, pictures[marked]), name
    folder = public / "data"
    folder.mkdir(parents=True, exist_ok=True)
    write_npz(folder / "train.npz", images=train[0], labels=train[1])
    write_npz(folder / "val.npz", images=pictures, labels=given)
    spoilt = {"renamed": renamed, "truth": truth, "marked": marked, "name": np.array([name])}
    write_npz(hidden / "test.npz", images=test[0], labels=test[1], **spoilt)
    (hidden / "facts.json").write_text(json.dumps(facts))
    (public / "target.json").write_text(json.dumps({"target_balanced_acc": facts["target"]}, indent=2) + "\n")


def painted(seen: np.random.Generator, keyed: np.random.Generator) -> list[Split]:
    """Training, validation and test pictures of one world; the last are drawn apart."""
    from texture_worlds.textures import draw_world, paint, turned

    world = turned(draw_world(np.random.default_rng(WORLD), CLASSES, FAMILIES), seen)
    wanted = (
        (seen, np.repeat(np.arange(CLASSES), counts(MOST["mini"]))),
        (seen, np.arange(VALIDATION["mini"]) % CLASSES),
        (keyed, np.arange(TEST) % CLASSES),
    )
    shuffled = [(rng, rng.permutation(labels)) for rng, labels in wanted]
    return [(paint(rng, world, labels, NOISE), labels) for rng, labels in shuffled]


def measured(train: Split, test: Split) -> dict[str, float]:
    """Balanced accuracy and tail recall of the plain baseline on the test pictures, and the target, in per cent."""
    from backbone.backbone import features, load_backbone
    from texture_worlds.plain import linear_head

    weights = load_backbone()
    rows, asked = (features(weights, part[0].astype(np.float32) / 127.5 - 1) for part in (train, test))
    named = linear_head(rows, train[1], CLASSES)(asked).argmax(axis=1)
    recalls = [100 * float((named[test[1] == label] == label).mean()) for label in range(CLASSES)]
    baseline = float(np.mean(recalls))
    return {"baseline": baseline, "tail": float(np.mean(recalls[-TAIL:])), "target": round(baseline + GAIN, 1)}


def published(seen: np.random.Generator, folder: Path) -> list[Split]:
    """Validation pictures are training pictures of CIFAR-10; its test split stays with the judge."""
    parts = [read_cifar10(folder / f"data_batch_{number}.bin") for number in range(1, 6)]
    pictures, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    order, each = seen.permutation(len(labels)), VALIDATION["full"] // CLASSES
    rows = [order[labels[order] == label] for label in range(CLASSES)]
    # The most frequent class, of which CIFAR-10 has as many as the tail begins with, gives up what validation takes.
    kept = [some[each:][:count] for some, count in zip(rows, counts(MOST["full"]), strict=True)]
    splits = [seen.permutation(np.concatenate(some)) for some in (kept, [some[:each] for some in rows])]
    found = [(pictures[some], labels[some]) for some in splits] + [read_cifar10(folder / "test_batch.bin")]
    return [(np.ascontiguousarray(part.transpose(0, 3, 1, 2)), names.astype(np.int64)) for part, names in found]
