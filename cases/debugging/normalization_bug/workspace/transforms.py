"""Transforms of pictures in NumPy. Each is called with the picture and a generator of random numbers."""

from collections.abc import Callable, Sequence

import numpy as np

Picture = np.ndarray


class Compose:
    """One transform after the other."""

    def __init__(self, steps: Sequence[Callable[[Picture, np.random.Generator], Picture]]) -> None:
        self.steps = list(steps)

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        for step in self.steps:
            picture = step(picture, rng)
        return picture


class ToFloat:
    """A grey uint8 picture (height, width) becomes float32 (1, height, width) in [0, 1]."""

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        return picture[None].astype(np.float32) / 255


def _sampled(picture: Picture, rows: np.ndarray, columns: np.ndarray) -> Picture:
    """Values between the pixels, bilinear; outside of the picture the border is repeated."""
    height, width = picture.shape[-2:]
    rows, columns = np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)
    top, left = rows.astype(int), columns.astype(int)
    down, right = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    y, x = (rows - top).astype(np.float32), (columns - left).astype(np.float32)
    upper = picture[:, top, left] * (1 - x) + picture[:, top, right] * x
    lower = picture[:, down, left] * (1 - x) + picture[:, down, right] * x
    return upper * (1 - y) + lower * y


class RandomRotation:
    """Turn around the centre by up to `degrees`."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        angle = np.radians(rng.uniform(-self.degrees, self.degrees))
        height, width = picture.shape[-2:]
        y, x = np.mgrid[:height, :width] - np.array([(height - 1) / 2, (width - 1) / 2])[:, None, None]
        rows = np.cos(angle) * y + np.sin(angle) * x + (height - 1) / 2
        columns = np.cos(angle) * x - np.sin(angle) * y + (width - 1) / 2
        return _sampled(picture, rows, columns)


class Resize:
    """Bilinear, to a square of `size` pixels."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        height, width = picture.shape[-2:]
        places = (np.arange(self.size) + 0.5) / self.size
        rows, columns = np.meshgrid(places * height - 0.5, places * width - 0.5, indexing="ij")
        return _sampled(picture, rows, columns)


class RandomResizedCrop:
    """Cut out a square with a random share of the area, and resize it."""

    def __init__(self, size: int, scale: tuple[float, float]) -> None:
        self.resize, self.scale = Resize(size), scale

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        side = round(min(picture.shape[-2:]) * rng.uniform(*self.scale) ** 0.5)
        top, left = (int(rng.integers(0, size - side + 1)) for size in picture.shape[-2:])
        return self.resize(picture[:, top : top + side, left : left + side], rng)


class RandomBrightness:
    """Multiply by a random factor near one and keep the range [0, 1]."""

    def __init__(self, spread: float) -> None:
        self.spread = spread

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        factor = np.float32(rng.uniform(1 - self.spread, 1 + self.spread))
        return np.clip(picture * factor, 0, 1)


class Normalize:
    """Subtract the mean and divide by the standard deviation of each channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = np.array(mean, np.float32)[:, None, None]
        self.std = np.array(std, np.float32)[:, None, None]

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        return (picture - self.mean) / self.std


class Repeat:
    """The one channel of a grey picture, so many times."""

    def __init__(self, channels: int) -> None:
        self.channels = channels

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        return np.repeat(picture, self.channels, axis=0)
