"""Paints small pictures of textures: a class is a few coloured waves, a picture is a piece of them, seen anew.

A piece is shifted, turned, scaled, mirrored, lit in its own way, covered in part, and noisy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SIDE, WAVES, COVER = 16, 5, 6
_CHUNK = 1000


@dataclass(frozen=True)
class World:
    """The waves of each class: frequency (radians a pixel), phase and colour."""

    frequency: Any
    phase: Any
    colour: Any


def draw_world(rng: np.random.Generator, classes: int, families: int, own: int = 2) -> World:
    """Classes in families, which share all waves but `own`."""
    family = np.arange(classes) % families

    def waves(rows: int, many: int) -> tuple[Any, Any, Any]:
        angle, length = rng.uniform(0, np.pi, (rows, many)), rng.uniform(0.3, 1.3, (rows, many))
        frequency = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1)
        colour = rng.standard_normal((rows, many, 3))
        colour /= np.linalg.norm(colour, axis=-1, keepdims=True)
        return frequency, rng.uniform(0, 2 * np.pi, (rows, many)), colour

    shared, single = waves(families, WAVES - own), waves(classes, own)
    parts = [np.concatenate([a[family], b], axis=1) for a, b in zip(shared, single, strict=True)]
    return World(*(part.astype(np.float32) for part in parts))


def turned(world: World, rng: np.random.Generator) -> World:
    """The world in another orientation and in other colours: worlds differ in difficulty, and these hardly do."""
    angle = rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    colours, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    frequency, colour = (
        (part @ by).astype(np.float32) for part, by in ((world.frequency, turn), (world.colour, colours))
    )
    return World(frequency, world.phase, colour)


def paint(rng: np.random.Generator, world: World, labels: Any, noise: float) -> Any:
    """One picture for each label: uint8, N x 3 x 16 x 16."""
    parts = [_chunk(rng, world, labels[at : at + _CHUNK], noise) for at in range(0, len(labels), _CHUNK)]
    return np.concatenate(parts)


def _chunk(rng: np.random.Generator, world: World, labels: Any, noise: float) -> Any:
    count = len(labels)

    def uniform(low: float, high: float, *shape: int) -> Any:
        return rng.uniform(low, high, (count, *shape)).astype(np.float32)

    rows, columns = (grid.astype(np.float32).reshape(1, -1) - SIDE / 2 for grid in np.mgrid[0:SIDE, 0:SIDE])
    turn, scale = uniform(-0.3, 0.3, 1), uniform(0.8, 1.25, 1)
    mirror = np.where(rng.random((count, 1)) < 0.5, -1, 1).astype(np.float32)
    x = mirror * scale * (columns * np.cos(turn) - rows * np.sin(turn)) + uniform(-3, 3, 1)
    y = scale * (columns * np.sin(turn) + rows * np.cos(turn)) + uniform(-3, 3, 1)
    image = np.zeros((count, 3, SIDE * SIDE), np.float32)
    for wave in range(WAVES):
        fx, fy = (world.frequency[labels, wave, axis][:, None] for axis in (0, 1))
        ripple = np.sin(fx * x + fy * y + world.phase[labels, wave][:, None])
        image += world.colour[labels, wave][:, :, None] * ripple[:, None]
    image *= 0.16 * uniform(0.5, 1.4, 1, 1)
    image = image.reshape(count, 3, SIDE, SIDE) + 0.5 + uniform(-0.12, 0.12, 3, 1, 1)
    top, left = rng.integers(0, SIDE - COVER + 1, (2, count, 1, 1, 1))
    down, right = np.arange(SIDE).reshape(1, 1, -1, 1), np.arange(SIDE).reshape(1, 1, 1, -1)
    hidden = (down >= top) & (down < top + COVER) & (right >= left) & (right < left + COVER)
    image = np.where(hidden, uniform(0.1, 0.9, 3, 1, 1), image)
    image += noise * rng.standard_normal(image.shape, dtype=np.float32)
    return np.clip(image * 255, 0, 255).astype(np.uint8)
