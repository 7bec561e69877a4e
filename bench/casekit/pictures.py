"""Paints pictures with classes: coloured shapes in the manner of CIFAR, and grey digits in that of MNIST."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SHAPES = ("disc", "ring", "square", "frame", "triangle", "plus", "saltire", "stripes", "checks", "crescent")
_CHUNK = 500
_TEXTURES = 10

Pixels = NDArray[np.uint8]
Float = NDArray[np.float32]


def shapes(
    rng: np.random.Generator, labels: ArrayLike, side: int = 32, difficulty: float = 0.5, colour: bool = True
) -> Pixels:
    """One picture for each label: uint8, N x side x side x 3, or N x side x side where `colour` is false.

    labels: class numbers from 0 to 99. The last digit names the shape (`SHAPES`), the first the direction of fine lines
    upon it, in steps of 18 degrees; so ten classes are told by shape alone, and a hundred need both. Place, size, turn
    and all colours are random: neither a pixel nor a mean colour tells the class. difficulty: from 0 to 1, the
    strength of noise (standard deviation 0.02 to 0.3 of the range), of a second shape below the first, and of low
    contrast. side: 16 pixels or more; 28, 32 and 64 are usual. ValueError for other labels, sides and difficulties.
    """
    names = np.asarray(labels).astype(np.int64)
    if side < 16 or not 0 <= difficulty <= 1 or (len(names) and not 0 <= names.min() <= names.max() < 100):
        raise ValueError("labels from 0 to 99, a side of 16 or more and a difficulty in [0, 1] are needed")
    parts = [_chunk(rng, names[start : start + _CHUNK], side, difficulty) for start in range(0, len(names), _CHUNK)]
    painted = np.concatenate(parts) if parts else np.zeros((0, side, side, 3), np.uint8)
    return painted if colour else np.round(painted.mean(axis=-1)).astype(np.uint8)


def _chunk(rng: np.random.Generator, labels: Any, side: int, difficulty: float) -> Pixels:
    count = len(labels)
    figure_mask = _masks(rng, labels % 10, side, labels // 10 if labels.max() >= 10 else None)
    other_mask = 0.6 * difficulty * _masks(rng, rng.integers(0, 10, count), side, None, scale=0.7)
    ground, figure, other = rng.uniform(0, 1, (3, count, 1, 1, 3)).astype(np.float32)
    least = 0.75 - 0.5 * difficulty
    figure = ground + np.where(figure > ground, 1, -1) * (least + (1 - least) * abs(figure - ground))
    ramp = np.linspace(-1, 1, side, dtype=np.float32)[None, None, :, None]
    image = ground + ramp * rng.uniform(-0.25, 0.25, (count, 1, 1, 1)).astype(np.float32) * difficulty
    image = image + other_mask[..., None] * (other - image)
    image = image + figure_mask[..., None] * (figure - image)
    image = image + (0.02 + 0.28 * difficulty) * rng.standard_normal(image.shape, dtype=np.float32)
    return np.asarray(np.clip(image * 255, 0, 255), dtype=np.uint8)


def _masks(rng: np.random.Generator, kinds: Any, side: int, textures: Any, scale: float = 1.0) -> Float:
    """Where each shape is, from 0 to 1, at a random place, of random size, slightly turned."""
    count = len(kinds)

    def draw(low: float, high: float) -> Any:
        return rng.uniform(low, high, (count, 1, 1))

    size, turn = draw(0.22, 0.38) * side * scale, draw(-0.3, 0.3)
    rows, columns = np.mgrid[0:side, 0:side].astype(np.float64)
    y, x = rows - draw(0.36, 0.64) * side, columns - draw(0.36, 0.64) * side
    u, v = (x * np.cos(turn) + y * np.sin(turn)) / size, (y * np.cos(turn) - x * np.sin(turn)) / size
    masks = np.zeros((count, side, side), np.float32)
    for kind, name in enumerate(SHAPES):
        chosen = kinds == kind
        masks[chosen] = 1 / (1 + np.exp(np.clip(_distance(name, u[chosen], v[chosen]) * 14, -40, 40)))
    if textures is not None:
        angle = (textures * np.pi / _TEXTURES)[:, None, None]
        lines = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / max(4.0, side / 10) + draw(0, 6.28))
        masks *= (0.55 + 0.45 * lines).astype(np.float32)
    return masks


def _distance(name: str, u: Any, v: Any) -> Any:
    """Negative inside the shape, positive outside, in units of its size."""
    radius, edge = np.hypot(u, v), np.maximum(abs(u), abs(v))
    a, b = (u + v) / np.sqrt(2), (u - v) / np.sqrt(2)
    match name:
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


_Stroke = list[tuple[float, float]]
_SIDE = 28
_ACROSS, _DOWN = (axis.reshape(-1).astype(float) for axis in np.meshgrid(np.arange(_SIDE), np.arange(_SIDE)))


def _arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> _Stroke:
    """Part of an ellipse as seven points; angles in quarter turns, 0 is right and 1 is down."""
    angles = np.linspace(start, end, 7) * np.pi / 2
    return [(x + rx * float(np.cos(a)), y + ry * float(np.sin(a))) for a in angles]


# Every digit is a few strokes in a unit square, x to the right and y downwards.
_GLYPHS: tuple[list[_Stroke], ...] = (
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
)


def digits(rng: np.random.Generator, labels: ArrayLike, noise: float = 0.12) -> Pixels:
    """One grey 28 x 28 picture for each label from 0 to 9, as if written by hand: uint8, N x 28 x 28, ink is bright.

    Each has its own angle, slant, size, place and pressure. noise: standard deviation of each pixel, in shares of the
    range. The nearest neighbour among 700 is right for four of five.
    """
    found = [_digit(int(label), rng, noise) for label in np.asarray(labels)]
    return np.stack(found) if found else np.zeros((0, _SIDE, _SIDE), np.uint8)


def _segments(glyph: list[_Stroke], rng: np.random.Generator) -> Any:
    """The strokes of one digit in this writer's hand, as (n, 2, 2) segments in pixels."""
    angle, slant = rng.normal(0, 0.16), rng.normal(0, 0.18)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    shape = turn @ np.array([[1.0, slant], [0.0, 1.0]]) @ np.diag(rng.uniform(15, 23, size=2))
    centre = _SIDE / 2 - 0.5 + rng.normal(0, 1.3, size=2)
    pieces = []
    for stroke in glyph:
        points = np.array(stroke) - 0.5 + rng.normal(0, 0.025, size=(len(stroke), 2))
        points = points @ shape.T + centre
        pieces.append(np.stack([points[:-1], points[1:]], axis=1))
    return np.concatenate(pieces)


def _digit(digit: int, rng: np.random.Generator, noise: float) -> Pixels:
    """Ink fades with the distance from the nearest stroke."""
    ends = _segments(_GLYPHS[digit], rng)
    along = ends[:, 1] - ends[:, 0]
    # Each coordinate by itself, segments x pixels: pairs in the last place take three times as long.
    (x, y), (dx, dy) = ends[:, 0, :, None].swapaxes(0, 1), along[:, :, None].swapaxes(0, 1)
    right, under = _ACROSS - x, _DOWN - y
    share = np.clip((right * dx + under * dy) / np.maximum(dx**2 + dy**2, 1e-9), 0, 1)
    distance = np.sqrt(((right - share * dx) ** 2 + (under - share * dy) ** 2).min(axis=0))
    ink = np.clip(rng.uniform(1.2, 2.2) - distance, 0, 1) * rng.uniform(0.7, 1.0)
    grey = np.clip(ink + rng.normal(0, noise, size=ink.shape), 0, 1)
    painted: Pixels = np.round(255 * grey).astype(np.uint8).reshape(_SIDE, _SIDE)
    return painted
