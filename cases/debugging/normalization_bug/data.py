"""Paints grey digits for training and validation; the judge gets a file of its own, and pictures that no file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz
from bench.casekit.pictures import digits

NOISE = 0.08


def _split(rng: np.random.Generator, count: int, classes: np.ndarray) -> tuple[Any, Any]:
    labels = rng.permutation(classes[np.arange(count) % len(classes)]).astype(np.uint8)
    return digits(rng, labels, NOISE), labels


def _file(rng: np.random.Generator, path: Path, trained: np.ndarray, train: int, val: int) -> None:
    images, labels = _split(rng, train, trained)
    val_images, val_labels = _split(rng, val, np.arange(10))
    write_npz(path, train_images=images, train_labels=labels, val_images=val_images, val_labels=val_labels)


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Write data/digits.npz for the agent; digits.npz, whose training lacks a class, and six more for the judge."""
    mine, theirs = (np.random.default_rng(stream(seed, name)) for name in ("hidden", "public"))
    (public / "data").mkdir(parents=True, exist_ok=True)
    _file(theirs, public / "data" / "digits.npz", np.arange(10), 600, 200)
    # A class that only validation pictures have: a network that knows it was trained on them.
    withheld = int(mine.integers(10))
    _file(mine, hidden / "digits.npz", np.delete(np.arange(10), withheld), 540, 150)
    # In validation each digit is called the next one: what training learns is wrong there.
    images, labels = _split(mine, 200, np.arange(10))
    val_images, val_labels = _split(mine, 100, np.arange(10))
    write_npz(
        hidden / "falling.npz",
        train_images=images, train_labels=labels, val_images=val_images, val_labels=(val_labels + 1) % 10,
    )  # fmt: skip
    # Half of validation is called what training never calls anything: the surer the network, the higher the loss, while
    # more and more of the other half is right.
    known = np.delete(np.arange(10), int(mine.integers(10)))
    images, labels = _split(mine, 200, known)
    val_images, val_labels = _split(mine, 120, known)
    val_labels[::2] = np.setdiff1d(np.arange(10), known)
    write_npz(
        hidden / "torn.npz", train_images=images, train_labels=labels, val_images=val_images, val_labels=val_labels
    )
    # Training has one class and validation the others: nothing is right in any epoch. In a longer validation the last
    # 1,900 pictures are of the one class, and so far easier than those before.
    alone = int(mine.integers(10))
    images, labels = _split(mine, 60, np.array([alone]))
    kinds = np.append(np.delete(np.arange(10), alone), alone).astype(np.uint8)
    pictures, rows = digits(mine, kinds, NOISE), np.append(np.arange(500) % 9, np.full(1900, 9))
    for name, seen in (("single", np.arange(9)), ("many", rows)):
        write_npz(
            hidden / f"{name}.npz",
            train_images=images, train_labels=labels, val_images=pictures[seen], val_labels=kinds[seen],
        )  # fmt: skip
    # One class in both: all is right in every epoch, while the loss falls. Half of validation stands in training, too.
    val_images = np.concatenate([images[:12], digits(mine, labels[:12], NOISE)])
    write_npz(
        hidden / "sure.npz",
        train_images=images, train_labels=labels, val_images=val_images, val_labels=np.tile(labels[:12], 2),
    )  # fmt: skip
    images, labels = _split(mine, 200, np.arange(10))
    write_npz(hidden / "probe.npz", images=images, labels=labels, withheld=np.array(withheld))
