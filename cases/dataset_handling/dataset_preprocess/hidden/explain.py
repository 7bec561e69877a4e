"""Which flip, angle and change of colour lead from one picture to another."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
GREY = np.array([0.299, 0.587, 0.114])
ANGLES = np.arange(-24, 24.1, 1.5)
ROWS, COLUMNS = np.mgrid[0:32, 0:32] - 15.5
DISC = ROWS**2 + COLUMNS**2 <= 13**2
"""What a rotation never moves out of the picture."""


class Found(NamedTuple):
    explained: float
    """Share of the variance that the best flip, angle and colours account for; at most 1."""
    flipped: bool
    degrees: float
    factors: tuple[float, float, float]
    """Of brightness, contrast and saturation."""
    offsets: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Of red, green and blue, where each may have its own; else these are equal."""


def explain(picture: Float, version: Float) -> Found:
    """Both are 3 x 32 x 32 in [0, 1]."""
    target = version[:, DISC]
    best = Found(-np.inf, False, 0.0, (1.0, 1.0, 1.0))
    for flipped in (False, True):
        turned = picture[:, :, ::-1] if flipped else picture
        found = [_colours(_rotated(turned, degrees), target, picture) for degrees in ANGLES]
        place = int(np.argmax([explained for explained, _ in found]))
        fine = ANGLES[place] + np.linspace(-1.25, 1.25, 11)
        finer = [_colours(_rotated(turned, degrees), target, picture) for degrees in fine]
        at = int(np.argmax([explained for explained, _ in finer]))
        if finer[at][0] > best.explained:
            offsets = _offsets(_rotated(turned, float(fine[at])), target)
            best = Found(finer[at][0], flipped, float(fine[at]), finer[at][1], offsets)
    return best


def _rotated(picture: Float, degrees: float) -> Float:
    """The pixels of the disc after a rotation, 3 x pixels, bilinear."""
    angle = np.deg2rad(degrees)
    rows = 15.5 + np.cos(angle) * ROWS[DISC] - np.sin(angle) * COLUMNS[DISC]
    columns = 15.5 + np.sin(angle) * ROWS[DISC] + np.cos(angle) * COLUMNS[DISC]
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    down, right = rows - top, columns - left
    upper = picture[:, top, left] * (1 - right) + picture[:, top, left + 1] * right
    lower = picture[:, top + 1, left] * (1 - right) + picture[:, top + 1, left + 1] * right
    return upper * (1 - down) + lower * down


def _colours(source: Float, target: Float, picture: Float) -> tuple[float, tuple[float, float, float]]:
    """In whatever order they come, the three changes are target = u * source + v * grey(source) + w."""
    grey = np.broadcast_to(GREY @ source, source.shape)
    columns = np.stack([source.ravel(), grey.ravel(), np.ones(source.size)], axis=1)
    wanted = target.ravel()
    (u, v, w), *_ = np.linalg.lstsq(columns, wanted, rcond=None)
    spread = float(((wanted - wanted.mean()) ** 2).sum())
    rest = float(((wanted - columns @ np.array([u, v, w])) ** 2).sum())
    gain = u + v
    brightness = gain + w / float((GREY @ picture.reshape(3, -1)).mean())
    if spread < 1e-6 or abs(gain) < 1e-6 or abs(brightness) < 1e-6:
        return -1.0, (0.0, 0.0, 0.0)
    return 1 - rest / spread, (brightness, gain / brightness, u / gain)


def _offsets(source: Float, target: Float) -> tuple[float, float, float]:
    """As the colours, with a w for each channel."""
    grey = np.broadcast_to(GREY @ source, source.shape)
    own = np.repeat(np.eye(3), source.shape[1], axis=0)
    found, *_ = np.linalg.lstsq(np.column_stack([source.ravel(), grey.ravel(), own]), target.ravel(), rcond=None)
    return float(found[2]), float(found[3]), float(found[4])
