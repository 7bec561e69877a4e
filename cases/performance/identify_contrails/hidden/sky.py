"""Draws satellite scenes of three infrared bands, with contrails, clouds, and round decoys of the same contrast.

A pixel alone does not tell a contrail from a decoy: only its shape does.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIDE, FRAMES, LABELLED = 64, 3, 1
CONTRAST, NOISE, CLOUD = 1.5, 0.45, 0.5  # kelvin: of a contrail, of a pixel, of the clouds in the differences of bands
HERE = -0.35  # radians: the direction of a contrail's contrast in the differences (15 - 14, 14 - 11)

Float = NDArray[np.float32]
_ROWS, _COLUMNS = np.mgrid[:SIDE, :SIDE].astype(np.float32)


@dataclass(frozen=True)
class Scene:
    """bands: by number, int16 hundredths of a kelvin, 64 x 64 x frames. mask: uint8, 64 x 64, of the labelled frame."""

    name: str
    bands: dict[int, NDArray[np.int16]]
    mask: NDArray[np.uint8]

    def files(self, labelled: bool) -> Iterator[tuple[str, bytes]]:
        """Name and content of each file in the folder of the scene."""
        for number, band in self.bands.items():
            yield f"{self.name}/band_{number}.npy", _npy(band)
        if labelled:
            yield f"{self.name}/human_pixel_masks.npy", _npy(self.mask[:, :, None])


def scenes(rng: np.random.Generator, count: int, direction: float = HERE) -> list[Scene]:
    """Scenes with names that tell nothing; in half of them one to four contrails, and in all up to four decoys."""
    names = rng.choice(10**12, count, replace=False) + 10**12
    places = np.arange(count)
    lines = rng.permutation(np.where(places < count // 2, 0, 1 + places % 4))
    decoys = rng.permutation(places % 5)
    return [_scene(rng, str(name), direction, *wanted) for name, *wanted in zip(names, lines, decoys, strict=True)]


def _scene(rng: np.random.Generator, name: str, direction: float, lines: int, decoys: int) -> Scene:
    ends = [_segment(rng) for _ in range(lines)]
    blobs = [(rng.uniform(4, SIDE - 4, 2), rng.uniform(3, 5.5)) for _ in range(decoys)]
    # More than the width of a contrail, so that masks of another frame do not do.
    way, far, clouds = rng.uniform(0, 2 * np.pi), rng.uniform(5, 8), [_field(rng) for _ in range(3)]
    drift = far * np.array([np.sin(way), np.cos(way)])
    bands: dict[int, list[Float]] = {11: [], 14: [], 15: []}
    for frame in range(FRAMES):
        moved = (frame - LABELLED) * drift
        line, blob = _lines(ends, moved), _blobs(blobs, moved)
        strength = CONTRAST * np.maximum(line, blob)
        noise = rng.normal(0, NOISE, (2, SIDE, SIDE))
        red = -1.0 + CLOUD * clouds[1] + np.cos(direction) * strength + noise[0]
        green = 0.5 + CLOUD * clouds[2] + np.sin(direction) * strength + noise[1]
        infrared = 275 + 8 * clouds[0]
        bands[14].append(infrared)
        bands[15].append(infrared + red)
        bands[11].append(infrared - green)
    mask = (_lines(ends, np.zeros(2)) > 0.5).astype(np.uint8)
    stored = {key: np.rint(100 * np.stack(value, axis=-1)).astype(np.int16) for key, value in bands.items()}
    return Scene(name, stored, mask)


def _segment(rng: np.random.Generator) -> tuple[Float, Float, float]:
    """Both ends of a contrail and half its width, in pixels."""
    middle, angle, half = rng.uniform(8, SIDE - 8, 2), rng.uniform(0, np.pi), rng.uniform(10, 28)
    step = half * np.array([np.sin(angle), np.cos(angle)])
    return middle - step, middle + step, float(rng.uniform(0.8, 1.6))


def _lines(ends: list[tuple[Float, Float, float]], moved: Float) -> Float:
    """How much of a contrail there is in each pixel, 0 to 1."""
    found = np.zeros((SIDE, SIDE), np.float32)
    for first, last, half in ends:
        start, along = first + moved, last - first
        rows, columns = _ROWS - start[0], _COLUMNS - start[1]
        share = np.clip((rows * along[0] + columns * along[1]) / (along @ along), 0, 1)
        apart = np.hypot(rows - share * along[0], columns - share * along[1])
        found = np.maximum(found, np.clip(half + 0.5 - apart, 0, 1))
    return found


def _blobs(blobs: list[tuple[Float, float]], moved: Float) -> Float:
    found = np.zeros((SIDE, SIDE), np.float32)
    for middle, radius in blobs:
        row, column = middle + moved
        found = np.maximum(found, np.clip(radius + 0.5 - np.hypot(_ROWS - row, _COLUMNS - column), 0, 1))
    return found


def _field(rng: np.random.Generator, knots: int = 6) -> Float:
    """A smooth field of mean 0 and standard deviation 1."""
    coarse, place = rng.normal(size=(knots, knots)), np.linspace(0, knots - 1, SIDE)
    low = np.minimum(place.astype(int), knots - 2)
    share = place - low
    mix = np.zeros((SIDE, knots))
    mix[np.arange(SIDE), low], mix[np.arange(SIDE), low + 1] = 1 - share, share
    smooth = mix @ coarse @ mix.T
    return np.asarray((smooth - smooth.mean()) / smooth.std(), np.float32)


def _npy(values: NDArray[np.generic]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()
