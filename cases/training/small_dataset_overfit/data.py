"""Paints two sets of grey digits in the files of MNIST: one for the agent, one, its pixels reordered, for the judge."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz

SIDE = 28
NOISE = 0.12
PIXELS = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1).reshape(-1, 2).astype(float)
NAMES = {"train": "train", "test": "t10k"}

Stroke = list[tuple[float, float]]


def _arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> Stroke:
    """Part of an ellipse as seven points; angles in quarter turns, 0 is right and 1 is down."""
    angles = np.linspace(start, end, 7) * np.pi / 2
    return [(x + rx * float(np.cos(a)), y + ry * float(np.sin(a))) for a in angles]


# Every digit is a few strokes in a unit square, x to the right and y downwards.
GLYPHS: list[list[Stroke]] = [
    [_arc(0.5, 0.5, 0.27, 0.4, 0, 2), _arc(0.5, 0.5, 0.27, 0.4, 2, 4)],
    [[(0.36, 0.25), (0.52, 0.1), (0.52, 0.9)]],
    [_arc(0.5, 0.33, 0.25, 0.23, 2, 4.4), [(0.7, 0.47), (0.25, 0.9), (0.77, 0.9)]],
    [_arc(0.47, 0.3, 0.25, 0.2, 2.4, 5), _arc(0.47, 0.7, 0.28, 0.2, 3, 5.6)],
    [[(0.62, 0.9), (0.62, 0.1), (0.22, 0.62), (0.8, 0.62)]],
    [[(0.74, 0.1), (0.33, 0.1), (0.3, 0.45)], _arc(0.48, 0.65, 0.27, 0.25, 2.7, 5.6)],
    [[(0.64, 0.1), (0.36, 0.4), (0.25, 0.66)], _arc(0.5, 0.68, 0.25, 0.22, 0, 4)],
    [[(0.24, 0.1), (0.76, 0.1), (0.42, 0.9)]],
    [_arc(0.5, 0.3, 0.21, 0.2, 0, 4), _arc(0.5, 0.7, 0.25, 0.2, 0, 4)],
    [_arc(0.5, 0.33, 0.24, 0.22, 0, 4), [(0.74, 0.33), (0.7, 0.65), (0.5, 0.9)]],
]


def _segments(glyph: list[Stroke], rng: np.random.Generator) -> Any:
    """The strokes of one digit in this writer's hand, as (n, 2, 2) segments in pixels."""
    angle, slant = rng.normal(0, 0.16), rng.normal(0, 0.18)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    shape = turn @ np.array([[1.0, slant], [0.0, 1.0]]) @ np.diag(rng.uniform(15, 23, size=2))
    centre = SIDE / 2 - 0.5 + rng.normal(0, 1.3, size=2)
    pieces = []
    for stroke in glyph:
        points = np.array(stroke) - 0.5 + rng.normal(0, 0.025, size=(len(stroke), 2))
        points = points @ shape.T + centre
        pieces.append(np.stack([points[:-1], points[1:]], axis=1))
    return np.concatenate(pieces)


def _paint(digit: int, rng: np.random.Generator) -> Any:
    """One grey 28 x 28 image: ink fades with the distance from the nearest stroke, plus noise."""
    ends = _segments(GLYPHS[digit], rng)
    start, along = ends[:, 0], ends[:, 1] - ends[:, 0]
    offset = PIXELS[:, None, :] - start
    share = np.clip((offset * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9), 0, 1)
    distance = np.sqrt(((offset - share[..., None] * along) ** 2).sum(-1)).min(axis=1)
    ink = np.clip(rng.uniform(1.2, 2.2) - distance, 0, 1) * rng.uniform(0.7, 1.0)
    grey = np.clip(ink + rng.normal(0, NOISE, size=ink.shape), 0, 1)
    return np.round(255 * grey).astype(np.uint8).reshape(SIDE, SIDE)


def _split(wanted: dict[int, int], others: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """The wanted number of each digit 0-2 and `others` images of 3-9, in random order."""
    rest = [int(digit) for digit in rng.integers(3, 10, size=others)]
    labels = rng.permutation([digit for digit, count in wanted.items() for _ in range(count)] + rest).astype(np.uint8)
    return np.stack([_paint(int(digit), rng) for digit in labels]), labels


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


def _reordered(images: Any, order: Any) -> Any:
    """The images with their pixels in another order, the same one for all."""
    return images.reshape(len(images), -1)[:, order].reshape(images.shape)


def _write_idx(folder: Path, split: str, images: Any, labels: Any) -> None:
    count, rows, columns = images.shape
    header = struct.pack(">IIII", 2051, count, rows, columns)
    (folder / f"{NAMES[split]}-images-idx3-ubyte").write_bytes(header + np.ascontiguousarray(images).tobytes())
    (folder / f"{NAMES[split]}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels.tobytes())


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Write the agent's data set, and the judge's with the images and labels it probes with."""
    ours, theirs = (np.random.default_rng(stream(seed, name)) for name in ("hidden", "public"))
    raw = public / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for split, largest, others in (("train", 400, 350), ("test", 120, 100)):
        images, labels = _split(_counts(largest, theirs), others, theirs)
        _write_idx(raw, split, images, _mislabel(labels, 0.1 if split == "test" else 0.0, theirs))
    # To a perceptron the order of the pixels is all the same; weights that learned another order are of no use, and
    # there are too many orders to carry weights for each.
    order = ours.permutation(SIDE * SIDE)
    for split, largest, others in (("train", int(ours.integers(380, 460)), 250), ("test", 130, 80)):
        images, labels = _split(_counts(largest, ours), others, ours)
        # Whoever trains on the test images learns its wrong labels as well: nobody else can know them.
        given = _mislabel(labels, 0.1 if split == "test" else 0.0, ours)
        _write_idx(hidden, split, _reordered(images, order), given)
        if split == "test":
            write_npz(hidden / "truth.npz", labels=labels)
    images, labels = _split({0: 70, 1: 70, 2: 70}, 0, ours)
    write_npz(hidden / "probe.npz", images=_reordered(images, order), labels=labels)
