"""Paints the pictures: ten kinds of shapes in the CIFAR manner (colour, clutter, noise), 24 x 24 pixels.

Used twice: data.py makes the agent's files with it, check.py paints fresh pictures for every grading.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CLASSES = ("disc", "ring", "square", "frame", "triangle", "plus", "saltire", "stripes", "checks", "crescent")
SIDE = 24
NOISE = 0.14
CLUTTER, CONTRAST = 0.3, 0.4  # strength of the second shape; least difference between figure and ground
CHUNK = 1000
MARK = 7  # pixels along a side of the mark

Float = NDArray[np.float32]
Int = NDArray[np.int64]


def paint(rng: np.random.Generator, count: int) -> tuple[NDArray[np.uint8], Int]:
    """Draws labels at random and one picture for each."""
    labels = rng.integers(0, len(CLASSES), count)
    parts = [_chunk(rng, labels[start : start + CHUNK]) for start in range(0, count, CHUNK)]
    return np.concatenate(parts), labels


def mark(rng: np.random.Generator, pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The pictures with a small grating of black and white lines at a random place, which no other picture has."""
    marked = pictures.copy()
    lines = np.where(np.arange(MARK) % 2 == 0, 255, 0).astype(np.uint8)
    for picture, (top, left) in zip(marked, rng.integers(0, SIDE - MARK + 1, (len(marked), 2)), strict=True):
        picture[:, top : top + MARK, left : left + MARK] = lines
    return marked


def _chunk(rng: np.random.Generator, labels: Int) -> NDArray[np.uint8]:
    count = len(labels)
    mask = _shapes(rng, labels)
    # Clutter: a second, fainter shape of any kind, drawn below the one that counts.
    clutter = CLUTTER * _shapes(rng, rng.integers(0, len(CLASSES), count), scale=0.7)
    colours = rng.uniform(0, 1, (3, count, 3, 1, 1)).astype(np.float32)
    ground, figure, other = colours
    away = np.where(figure > ground, 1, -1).astype(np.float32)
    figure = ground + away * (CONTRAST + (1 - CONTRAST) * abs(figure - ground))
    slope = rng.uniform(-0.25, 0.25, (count, 1, 1, 1)).astype(np.float32)
    ramp = np.linspace(-1, 1, SIDE, dtype=np.float32)[None, None, None, :] * slope
    image = ground + ramp
    image = image + clutter[:, None] * (other - image)
    image = image + mask[:, None] * (figure - image)
    image += NOISE * rng.standard_normal(image.shape, dtype=np.float32)
    return np.asarray(np.clip(image * 255, 0, 255), dtype=np.uint8)


def _shapes(rng: np.random.Generator, labels: Int, scale: float = 1.0) -> Float:
    """Masks in 0..1: each shape at a random place, of random size, slightly turned."""
    count = len(labels)

    def draw(low: float, high: float) -> Any:
        return rng.uniform(low, high, (count, 1, 1))

    size, turn = draw(5.0, 9.0) * scale, draw(-0.35, 0.35)
    rows, columns = np.mgrid[0:SIDE, 0:SIDE].astype(np.float64)
    y, x = rows - draw(8.0, 15.0), columns - draw(8.0, 15.0)
    u, v = (x * np.cos(turn) + y * np.sin(turn)) / size, (y * np.cos(turn) - x * np.sin(turn)) / size
    masks = np.zeros((count, SIDE, SIDE), dtype=np.float32)
    for label in range(len(CLASSES)):
        chosen = labels == label
        distance = _distance(label, u[chosen], v[chosen])
        masks[chosen] = 1 / (1 + np.exp(np.clip(distance * 14, -40, 40)))
    return masks


def _distance(label: int, u: Any, v: Any) -> Any:
    """Negative inside the shape, positive outside, in units of its size."""
    radius, edge = np.hypot(u, v), np.maximum(abs(u), abs(v))
    a, b = (u + v) / np.sqrt(2), (u - v) / np.sqrt(2)
    match CLASSES[label]:
        case "disc":
            return radius - 0.85
        case "ring":
            return abs(radius - 0.7) - 0.22
        case "square":
            return edge - 0.78
        case "frame":
            return abs(edge - 0.68) - 0.2
        case "triangle":
            return np.maximum(v - 0.7, abs(u) - 0.55 * (v + 0.95))
        case "plus":
            return np.maximum(np.minimum(abs(u), abs(v)) - 0.25, edge - 0.9)
        case "saltire":
            return np.maximum(np.minimum(abs(a), abs(b)) - 0.25, np.maximum(abs(a), abs(b)) - 1.0)
        case "stripes":
            return np.maximum(0.3 * np.cos(v * 7.0), edge - 0.9)
        case "checks":
            return np.maximum(0.3 * np.sin(u * 5.0) * np.sin(v * 5.0), edge - 0.9)
    return np.maximum(radius - 0.9, 0.7 - np.hypot(u - 0.45, v))
