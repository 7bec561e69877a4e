"""Draws pictures of a sea floor with animals: glyphs of a colour and a shape on noisy ground.

Shallow pictures show the frequent animals; deep ones all of them alike, on ground of a slightly other colour. A
picture's name, its order and the size of its file tell nothing of its depth.
"""

from __future__ import annotations

import colorsys
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIDE, CATEGORIES, COLOURS, FREQUENT = 48, 20, 10, 16
GROUND_SPREAD, DEEPER, NOISE = 10.0, 20.0, 16.0  # steps of 256: between grounds, from shallow to deep, of a pixel
_ROWS, _COLUMNS = np.mgrid[:SIDE, :SIDE]

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Sea:
    """Which category looks how, and what its ground is like."""

    looks: NDArray[np.int64]
    """By category: its number among colours and shapes."""
    order: NDArray[np.int64]
    """Categories from the most frequent in shallow water to those that are only in the deep."""
    ground: Float
    """Mean colour of shallow ground."""
    deeper: Float
    """What is added to it in the deep."""


@dataclass(frozen=True)
class Pictures:
    """Of one draw, in an order that tells nothing."""

    names: list[str]
    pictures: NDArray[np.uint8]
    """N x 48 x 48 x 3."""
    animals: list[list[int]]
    """Categories in each picture, 1 to 20, sorted."""
    deep: NDArray[np.bool_]

    def files(self) -> dict[str, bytes]:
        """Content of each picture's file, by its path."""
        return {f"images/{name}.npy": _npy(picture) for name, picture in zip(self.names, self.pictures, strict=True)}

    def table(self) -> dict[str, list[str]]:
        """Columns of train.csv."""
        return {"id": self.names, "categories": [" ".join(map(str, it)) for it in self.animals]}

    def sample(self) -> dict[str, list[str]]:
        """Columns of sample_submission.csv."""
        return {"id": self.names, "categories": ["1 2 3"] * len(self.names), "osd": ["0.5"] * len(self.names)}


def here(rng: np.random.Generator) -> Sea:
    """A sea of blue ground that is darker in the deep."""
    looks, order = rng.permutation(CATEGORIES), rng.permutation(CATEGORIES)
    return Sea(looks, order, np.array([60.0, 95.0, 125.0]), DEEPER * np.array([-0.5, -0.6, -0.62]))


def other_sea(rng: np.random.Generator) -> Sea:
    """One whose animals have other numbers, and whose deep ground has another hue."""
    step = rng.normal(size=3)
    step -= step.mean()  # as light as shallow ground, so that brightness tells nothing
    looks, order = rng.permutation(CATEGORIES), rng.permutation(CATEGORIES)
    return Sea(looks, order, rng.uniform(70, 120, 3), DEEPER * step / np.linalg.norm(step))


def draw(rng: np.random.Generator, sea: Sea, shallow: int, deep: int) -> Pictures:
    """Pictures with one to four animals, in random order."""
    is_deep = rng.permutation(np.arange(shallow + deep) < deep)
    names = [f"{number:016x}" for number in rng.choice(2**40, len(is_deep), replace=False) + 2**60]
    zipf = 1 / np.arange(1, FREQUENT + 1)
    shares = {
        False: np.append(zipf / zipf.sum(), np.zeros(CATEGORIES - FREQUENT)),
        True: np.full(CATEGORIES, 1 / CATEGORIES),
    }
    pictures, animals = [], []
    for it in is_deep:
        seen = sea.order[rng.choice(CATEGORIES, rng.integers(1, 5), replace=False, p=shares[bool(it)])]
        animals.append(sorted(int(number) + 1 for number in seen))
        pictures.append(_paint(rng, sea, seen, bool(it)))
    return Pictures(names, np.stack(pictures), animals, is_deep)


def _paint(rng: np.random.Generator, sea: Sea, seen: NDArray[np.int64], deep: bool) -> NDArray[np.uint8]:
    ground = sea.ground + rng.normal(0, GROUND_SPREAD, 3) + (sea.deeper if deep else 0)
    picture = np.broadcast_to(ground, (SIDE, SIDE, 3)).copy()
    corners = rng.permutation(9)[: len(seen)]
    for number, corner in zip(seen, corners, strict=True):
        look = int(sea.looks[number])
        hue = (look % COLOURS + rng.uniform(-0.22, 0.22)) / COLOURS
        colour = 255 * np.array(colorsys.hsv_to_rgb(hue % 1, rng.uniform(0.75, 0.95), rng.uniform(0.75, 1)))
        row, column = 8 + 16 * np.array(divmod(int(corner), 3)) + rng.uniform(-2, 2, 2)
        picture[_shape(rng, look // COLOURS, row, column)] = colour
    return np.clip(picture + rng.normal(0, NOISE, picture.shape), 0, 255).astype(np.uint8)


def _shape(rng: np.random.Generator, kind: int, row: float, column: float) -> NDArray[np.bool_]:
    """The pixels of a disc (0) or of a bar (1) of about equal area."""
    if kind == 0:
        return np.asarray(np.hypot(_ROWS - row, _COLUMNS - column) < rng.uniform(3.2, 4.2))
    angle = rng.uniform(0, np.pi)
    along = (_ROWS - row) * np.sin(angle) + (_COLUMNS - column) * np.cos(angle)
    aside = (_ROWS - row) * np.cos(angle) - (_COLUMNS - column) * np.sin(angle)
    return np.asarray((abs(along) < rng.uniform(7, 9)) & (abs(aside) < rng.uniform(1.4, 1.8)))


def _npy(values: NDArray[np.generic]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()
