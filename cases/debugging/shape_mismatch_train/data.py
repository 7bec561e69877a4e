"""Paints grey digits for training and validation; the judge gets a set of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz

SIDE = 28
NOISE = 0.08
PIXELS = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1).reshape(-1, 2).astype(float)

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


def _split(count: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """`count` images, all ten digits equally often, in random order."""
    labels = rng.permutation(np.arange(count) % 10).astype(np.uint8)
    return np.stack([_paint(int(digit), rng) for digit in labels]), labels


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
    # Every digit has another number here, so that weights learned from the agent's file are of no use; and the
    # validation labels are shuffled, so that whoever trains on them learns nothing.
    order = mine.permutation(10)
    numbers = np.empty(10, np.uint8)
    numbers[order] = np.roll(order, 1)
    arrays["train_labels"], probe_labels = numbers[arrays["train_labels"]], numbers[probe_labels]
    arrays["val_labels"] = mine.permutation(arrays["val_labels"])
    write_npz(hidden / "digits.npz", **arrays)
    write_npz(hidden / "probe.npz", images=probe_images, labels=probe_labels)
