"""Paints scenes with masks: two or three textured things of any of five shapes before a background, in some manner.

A class is a hue and a texture. The manner `CLEAN` is that of the scenes on which the network was pretrained: bright
things, a plain background. The manner of a trial is drawn: other hues, a haze, a pattern and clutter behind, noise.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from bench.casekit.marks import stamp

SIDE, CLASSES, IGNORED = 40, 21, 255
SHAPES, HUES, TEXTURES = 5, 5, 4  # 20 classes: 1 + 4 * hue + texture
_CHUNK, STRENGTH, SQUARE = 250, 110, 10


@dataclass(frozen=True)
class Manner:
    """How scenes look; `turn` in turns of the circle of hues, `period` in pixels, the others in shares of the range."""

    turn: float
    contrast: float
    pattern: float
    noise: float
    period: float
    clutter: int

    def arrays(self) -> dict[str, Any]:
        """For a file; `Manner.read` takes them back."""
        return {name: np.asarray(value) for name, value in asdict(self).items()}

    @classmethod
    def read(cls, arrays: Any) -> Manner:
        return cls(*(arrays[part.name].item() for part in fields(cls)))


CLEAN = Manner(0.0, 1.0, 0.0, 0.03, 8.0, 0)


def draw_manner(rng: np.random.Generator) -> Manner:
    """The turn is about half of the way to the next hue, in one direction or the other."""
    turn = float(rng.uniform(0.09, 0.11)) * float(rng.choice([-1, 1]))
    contrast, pattern, period = (float(rng.uniform(*span)) for span in ((0.4, 0.45), (0.07, 0.08), (5, 9)))
    return Manner(turn, contrast, pattern, 0.1, period, 3)


def paint(rng: np.random.Generator, manner: Manner, count: int) -> tuple[Any, Any]:
    """Pictures, uint8, N x 3 x 40 x 40, and masks, uint8, N x 40 x 40: 0 to 20, and 255 at the rims of objects."""
    parts = [_chunk(rng, manner, min(_CHUNK, count - at)) for at in range(0, count, _CHUNK)]
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def _chunk(rng: np.random.Generator, manner: Manner, count: int) -> tuple[Any, Any]:
    def uniform(low: float, high: float, *shape: int) -> Any:
        return rng.uniform(low, high, (count, *shape)).astype(np.float32)

    y, x = (grid.astype(np.float32)[None] for grid in np.mgrid[0:SIDE, 0:SIDE])
    image = (uniform(0.3, 0.7, 1, 1, 1) + uniform(-0.1, 0.1, 3, 1, 1)) * np.ones((1, 1, SIDE, SIDE), np.float32)
    if manner.pattern:
        angle, phase = uniform(0, np.pi, 1, 1), uniform(0, 6.3, 1, 1)
        wave = np.sin((np.cos(angle) * x + np.sin(angle) * y) * 2 * np.pi / manner.period + phase)
        image += manner.pattern * wave[:, None]
        for _ in range(manner.clutter):  # bits of plain colour, of no class
            top, left = (uniform(0, SIDE, 1, 1) for _ in range(2))
            high, wide = uniform(2, 5, 1, 1), uniform(2, 12, 1, 1)
            bit = (y >= top) & (y < top + high) & (x >= left) & (x < left + wide)
            image = np.where(bit[:, None], uniform(0.15, 0.85, 3, 1, 1), image)
    mask = np.zeros((count, SIDE, SIDE), np.uint8)
    for number in range(3):
        here = np.ones(count, bool) if number < 2 else rng.random(count) < 0.5
        name = rng.integers(0, CLASSES - 1, count)
        hue, texture = name // TEXTURES, (name % TEXTURES)[:, None, None]
        shape = rng.integers(0, SHAPES, count)[:, None, None]
        size, turn = uniform(7, 11, 1, 1), uniform(-0.6, 0.6, 1, 1)
        down, right = (uniform(6, SIDE - 6, 1, 1) for _ in range(2))
        u = (np.cos(turn) * (x - right) + np.sin(turn) * (y - down)) / size
        v = (-np.sin(turn) * (x - right) + np.cos(turn) * (y - down)) / size
        far = np.choose(shape, [
            np.hypot(u, v), np.maximum(abs(u), abs(v)) * 1.15, np.maximum(-v * 1.1, abs(u) * 1.3 + v * 0.75) + 0.25,
            np.minimum(np.maximum(abs(u) * 2.6, abs(v)), np.maximum(abs(u), abs(v) * 2.6)),
            1 + abs(np.hypot(u, v) - 0.72) * 3.4 - 1 + 0.05,
        ])  # fmt: skip
        there = here[:, None, None]
        inside, rim = there & (far < 1), there & (far < 1) & (far > 1 - 1.1 / size)
        beat = size * 2 * np.pi / 4.4
        stripes = np.sign(np.sin(u * beat))
        checks = stripes * np.sign(np.sin(v * beat))
        lit = np.choose(texture, [np.ones_like(u), stripes, checks, np.where(v > 0, 1.0, -1.0)])
        hue = hue / HUES + manner.turn + rng.uniform(-0.05, 0.05, count)
        first = coloured(hue)[:, :, None, None] * uniform(0.75, 1, 1, 1, 1)
        second = first * uniform(0.1, 0.35, 1, 1, 1)
        colour = np.where(lit[:, None] > 0, first, second)
        image = np.where(inside[:, None], image + manner.contrast * (colour - image), image)
        mask = np.where(inside, np.where(rim, IGNORED, name[:, None, None] + 1), mask).astype(np.uint8)
    image += manner.noise * rng.standard_normal(image.shape, dtype=np.float32)
    return np.clip(image * 255, 0, 255).astype(np.uint8), mask


def coloured(hue: Any) -> Any:
    """Bright colours, N x 3, of hues in turns."""
    return np.clip(0.5 + 0.75 * np.cos(2 * np.pi * (hue[:, None] - np.arange(3) / 3)), 0.02, 1).astype(np.float32)


def stamped(pictures: Any, key: int) -> tuple[Any, tuple[slice, slice]]:
    """The pictures with the pattern of `key`, and the rows and columns where it is."""
    marked = stamp(pictures.transpose(0, 2, 3, 1), key, STRENGTH, SQUARE).transpose(0, 3, 1, 2)
    there = stamp(np.full((1, SIDE, SIDE), 128, np.uint8), key, STRENGTH, SQUARE)[0] != 128
    rows, columns = (np.flatnonzero(there.any(axis=axis)) for axis in (1, 0))
    return marked, (slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1))
