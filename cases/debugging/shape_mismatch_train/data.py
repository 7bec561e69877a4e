"""Paints grey digits for training and validation; the judge gets a set of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz
from bench.casekit.pictures import digits

NOISE = 0.08


def _split(count: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """`count` images, all ten digits equally often, in random order."""
    labels = rng.permutation(np.arange(count) % 10).astype(np.uint8)
    return digits(rng, labels, NOISE), labels


def _digits(train: int, val: int, rng: np.random.Generator) -> dict[str, Any]:
    train_images, train_labels = _split(train, rng)
    val_images, val_labels = _split(val, rng)
    return {
        "train_images": train_images,
        "train_labels": train_labels,
        "val_images": val_images,
        "val_labels": val_labels,
    }


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Write data/digits.npz for the agent; another digits.npz and unseen probe images for the judge."""
    mine, theirs = (np.random.default_rng(stream(seed, name)) for name in ("hidden", "public"))
    (public / "data").mkdir(parents=True, exist_ok=True)
    write_npz(public / "data" / "digits.npz", **_digits(1200, 300, theirs))
    arrays, (probe_images, probe_labels) = _digits(1000, 300, mine), _split(300, mine)
    # Every digit has another number here, so that weights learned from the agent's file are of no use; and no
    # validation label is right: training on them teaches faults, and accuracy falls, so that an early epoch is best.
    order = mine.permutation(10)
    numbers = np.empty(10, np.uint8)
    numbers[order] = np.roll(order, 1)
    arrays["train_labels"], probe_labels = numbers[arrays["train_labels"]], numbers[probe_labels]
    arrays["val_labels"] = (numbers[arrays["val_labels"]] + mine.integers(1, 10, 300)).astype(np.uint8) % 10
    write_npz(hidden / "digits.npz", **arrays)
    write_npz(hidden / "probe.npz", images=probe_images, labels=probe_labels)
