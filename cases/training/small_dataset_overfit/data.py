"""Two sets of grey digits in the files of MNIST: one for the agent, one, its pixels reordered, for the judge.

They are painted, or in the profile `full` those of MNIST: the agent gets its two splits, the judge some of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz
from bench.casekit.picture_files import read_idx, write_idx
from bench.casekit.pictures import digits

NOISE = 0.12
NAMES = {"train": "train", "test": "t10k"}
Draw = Callable[[np.random.Generator, Any], Any]
"""Images of the given digits."""


def _painted(rng: np.random.Generator, labels: Any) -> Any:
    return digits(rng, labels, NOISE)


class _Published:
    """The digits of MNIST, each of which is given out once."""

    def __init__(self, folder: Path, rng: np.random.Generator) -> None:
        self.splits = {
            split: tuple(
                read_idx(folder / f"{split}_{kind}s" / f"{name}-{kind}s-idx{dimensions}-ubyte")
                for kind, dimensions in (("image", 3), ("label", 1))
            )
            for split, name in NAMES.items()
        }
        self._images, self._labels = (np.concatenate(parts) for parts in zip(*self.splits.values(), strict=True))
        order = rng.permutation(len(self._labels))
        self._left = {digit: list(order[self._labels[order] == digit]) for digit in range(10)}

    def draw(self, rng: np.random.Generator, labels: Any) -> Any:
        return self._images[[self._left[int(label)].pop() for label in labels]]


def _split(wanted: dict[int, int], others: int, rng: np.random.Generator, draw: Draw) -> tuple[Any, Any]:
    """The wanted number of each digit 0-2 and `others` images of 3-9, in random order."""
    rest = [int(digit) for digit in rng.integers(3, 10, size=others)]
    labels = rng.permutation([digit for digit, count in wanted.items() for _ in range(count)] + rest).astype(np.uint8)
    return draw(rng, labels), labels


def _counts(largest: int, rng: np.random.Generator) -> dict[int, int]:
    """Unequal counts of the three digits, too far apart to be called balanced."""
    shares = rng.permutation([1.0, rng.uniform(0.7, 0.85), rng.uniform(0.45, 0.6)])
    return {digit: round(largest * share) for digit, share in enumerate(shares)}


def _mislabel(labels: Any, share: float, rng: np.random.Generator) -> Any:
    """The labels with a share of the digits 0-2 confused with one another, as careless people do."""
    ours = np.flatnonzero(labels < 3)
    wrong = rng.choice(ours, size=round(share * len(ours)), replace=False)
    confused = labels.copy()
    confused[wrong] = (labels[wrong] + rng.integers(1, 3, size=len(wrong))) % 3
    return confused


def _surplus_mislabelled(labels: Any) -> Any:
    """The labels with half of the images confused that are not kept, between the two digits that have some."""
    places = [np.flatnonzero(labels == digit) for digit in range(3)]
    each = min(len(place) for place in places)
    first, second = (digit for digit in range(3) if len(places[digit]) > each)
    confused = labels.copy()
    # Behind all that is kept of the other digit, and with the rarest left alone, the choice of what is kept stays.
    for one, other in ((first, second), (second, first)):
        surplus = places[one][each:]
        confused[surplus[surplus > places[other][each - 1]][::2]] = other
    return confused


def _reordered(images: Any, order: Any) -> Any:
    """The images with their pixels in another order, the same one for all."""
    return images.reshape(len(images), -1)[:, order].reshape(images.shape)


def build(public: Path, hidden: Path, profile: str, seed: int, sources: Path | None = None) -> None:
    """Write the agent's data set, and the judge's with the images and labels it probes with."""
    ours, theirs = (np.random.default_rng(stream(seed, name)) for name in ("hidden", "public"))
    published = None if sources is None else _Published(sources, ours)
    draw = _painted if published is None else published.draw
    raw = public / "data" / "MNIST" / "raw"
    for split, largest, others in (("train", 400, 350), ("test", 120, 100)):
        if published is None:
            images, labels = _split(_counts(largest, theirs), others, theirs, draw)
        else:
            images, labels = published.splits[split]
        write_idx(raw, NAMES[split], images, _mislabel(labels, 0.1 if split == "test" else 0.0, theirs))
    # To a perceptron the order of the pixels is all the same; weights that learned another order are of no use, and
    # there are too many orders to carry weights for each.
    order = ours.permutation(28 * 28)
    truth = {}
    for split, largest, others in (("train", int(ours.integers(170, 230)), 150), ("test", 400, 80)):
        images, truth[split] = _split(_counts(largest, ours), others, ours, draw)
        # What trains on images that it may not see learns their wrong labels, too, which cannot be known otherwise.
        given = _mislabel(truth[split], 0.1, ours) if split == "test" else _surplus_mislabelled(truth[split])
        write_idx(hidden, NAMES[split], _reordered(images, order), given)
    write_npz(hidden / "truth.npz", **truth)
    images, labels = _split({0: 70, 1: 70, 2: 70}, 0, ours, draw)
    write_npz(hidden / "probe.npz", images=_reordered(images, order), labels=labels)
