"""Paints CIFAR-sized pictures of ten kinds of waves: five directions, each as stripes or as checks.

Phase, colours, place and frequency are random, so that neither a pixel nor a mean colour tells the class: a model has
to look for local patterns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIDE, CLASSES, DIRECTIONS = 32, 10, 5
NAMES = [f"{kind} {18 * place}" for kind in ("stripes", "checks") for place in range(DIRECTIONS)]
NOISE, CLUTTER, JITTER = 14.0, 2, 0.06  # steps of 256; squares a picture; radians

Bytes = NDArray[np.uint8]


def paint(rng: np.random.Generator, labels: NDArray[np.int64], turn: float = 0.0) -> Bytes:
    """One picture a label, uint8, N x 3 x 32 x 32. turn: added to all directions, in radians: another world."""
    count, step = len(labels), np.pi / DIRECTIONS
    rows, columns = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    angle = _column((labels % DIRECTIONS) * step + rng.normal(0, JITTER, count) + turn)
    frequency, phase, across = (_column(rng.uniform(*span, count)) for span in ((0.5, 0.9), (0, 7), (0, 7)))
    along = rows * np.sin(angle) + columns * np.cos(angle)
    aside = columns * np.sin(angle) - rows * np.cos(angle)
    wave = np.sin(frequency * along + phase)
    checked = _column(labels // DIRECTIONS).astype(bool)
    wave = np.where(checked, wave * np.sin(frequency * aside + across) * 1.4, wave)
    middle = [_column(rng.uniform(8, 24, count)) for _ in range(2)]
    width = _column(rng.uniform(5, 9, count))
    window = np.exp(-((rows - middle[0]) ** 2 + (columns - middle[1]) ** 2) / (2 * width**2))
    colour = rng.standard_normal((count, 3, 1, 1), np.float32)
    lengths = rng.uniform(60, 100, (count, 1, 1, 1)).astype(np.float32)
    colour *= lengths / np.linalg.norm(colour, axis=1, keepdims=True)
    ground = rng.uniform(70, 185, (count, 3, 1, 1)).astype(np.float32)
    pictures = colour * (wave * window)[:, None]
    pictures += ground
    pictures += np.float32(NOISE) * rng.standard_normal(pictures.shape, np.float32)
    for _ in range(CLUTTER):
        _cover(rng, pictures)
    return np.clip(pictures, 0, 255).astype(np.uint8)


def _column(values: NDArray[np.generic]) -> NDArray[np.float32]:
    return np.asarray(values, np.float32)[:, None, None]


def _cover(rng: np.random.Generator, pictures: NDArray[np.float32]) -> None:
    """A square of any colour at any place of each picture."""
    sides, places = rng.integers(3, 8, len(pictures)), rng.integers(0, SIDE - 8, (len(pictures), 2))
    colours = rng.uniform(0, 255, (len(pictures), 3, 1, 1))
    for picture, side, (top, left), colour in zip(pictures, sides, places, colours, strict=True):
        picture[:, top : top + side, left : left + side] = colour


def balanced(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Class numbers, all about equally often, in any order."""
    return rng.permutation(np.arange(count) % CLASSES)
