"""Which flip, angle and change of colour lead from one picture to another."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
GREY = np.array([0.299, 0.587, 0.114])
ANGLES = np.arange(-24, 24.1, 1.5)
CHROMA = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
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
    tinted: float = 0.0
    """Share of the differences between channels that only another change of colour accounts for."""
    moved: float = 0.0
    stretched: float = 0.0
    """Pixels, over the disc, beyond the rotation about the centre."""
    bent: tuple[float, float] = (0.0, 0.0)
    """Of what no weighted mean of the channels is, of their largest and smallest: how much there is, and could be."""


def explain(picture: Float, version: Float) -> Found:
    """Both are 3 x 32 x 32 in [0, 1]."""
    target = version[:, DISC]
    best = Found(-np.inf, False, 0.0, (1.0, 1.0, 1.0))
    for flipped in (False, True):
        turned = picture[:, :, ::-1] if flipped else picture
        found = [_explained(_rotated(turned, degrees), target) for degrees in ANGLES]
        place = int(np.argmax(found))
        fine = ANGLES[place] + np.linspace(-1.25, 1.25, 11)
        finer = [_explained(_rotated(turned, degrees), target) for degrees in fine]
        at = int(np.argmax(finer))
        if finer[at] > best.explained:
            more = _beyond(turned, float(fine[at]), target)
            factors = _factors(_rotated(turned, float(fine[at])), target, picture)
            best = Found(finer[at], flipped, float(fine[at]), factors, *more)
    return best


def _rotated(picture: Float, degrees: float, down: float = 0, right: float = 0) -> Float:
    """The pixels of the disc, moved by so much, after a rotation, 3 x pixels, bilinear."""
    angle, y, x = np.deg2rad(degrees), ROWS[DISC] + down, COLUMNS[DISC] + right
    rows = 15.5 + np.cos(angle) * y - np.sin(angle) * x
    columns = 15.5 + np.sin(angle) * y + np.cos(angle) * x
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    down, right = rows - top, columns - left
    upper = picture[:, top, left] * (1 - right) + picture[:, top, left + 1] * right
    lower = picture[:, top + 1, left] * (1 - right) + picture[:, top + 1, left + 1] * right
    return upper * (1 - down) + lower * down


def _explained(source: Float, target: Float) -> float:
    """In whatever order they come, the three changes are target = u * source + v * grey(source) + w."""
    grey = np.broadcast_to(GREY @ source, source.shape)
    columns = np.stack([source.ravel(), grey.ravel(), np.ones(source.size)], axis=1)
    wanted = target.ravel()
    found, *_ = np.linalg.lstsq(columns, wanted, rcond=None)
    spread = float(((wanted - wanted.mean()) ** 2).sum())
    rest = float(((wanted - columns @ found) ** 2).sum())
    return 1 - rest / spread if spread >= 1e-6 else -1.0


def _factors(source: Float, target: Float, picture: Float) -> tuple[float, float, float]:
    """Of brightness, contrast and saturation, whatever weights the grey of saturation has."""
    before, after = CHROMA @ source, CHROMA @ target
    u = float((after * before).sum() / max((before**2).sum(), 1e-9))
    columns = np.vstack([source, np.ones(source.shape[1])]).T
    (*weights, w), *_ = np.linalg.lstsq(columns, (target - u * source).mean(axis=0), rcond=None)
    gain = u + float(sum(weights))
    brightness = gain + float(w) / float((GREY @ picture.reshape(3, -1)).mean())
    return (brightness, gain / brightness, u / gain) if min(abs(gain), abs(brightness)) >= 1e-6 else (0.0, 0.0, 0.0)


def _beyond(picture: Float, degrees: float, target: Float) -> tuple[float, float, float, tuple[float, float]]:
    """Tinted, moved, stretched and bent. Whatever grey is meant, and in any order, a jitter multiplies the differences
    between channels by one number, and does nothing else to them."""
    source = _rotated(picture, degrees)
    columns = np.vstack([source, np.ones(source.shape[1])]).T
    mixing, *_ = np.linalg.lstsq(columns, target.T, rcond=None)
    before, free, after = (CHROMA @ it for it in (source, (columns @ mixing).T, target))
    tinted = ((free - (free * before).sum() / (before**2).sum() * before) ** 2).sum() / max((after**2).sum(), 1e-9)
    slopes = [_rotated(picture, degrees, *by) - _rotated(picture, degrees, *-by) for by in np.eye(2) / 4]
    vertical, horizontal = (mixing[:3].T @ slope * 2 for slope in slopes)
    y, x = ROWS[DISC] / 13, COLUMNS[DISC] / 13
    moves = [vertical, horizontal, vertical * y + horizontal * x, vertical * y - horizontal * x]
    moves += [vertical * x + horizontal * y, vertical * x - horizontal * y]
    # What colours explain as well counts for nothing; the last move is what is left of the angle.
    free_of_colour = [(it.T - columns @ np.linalg.lstsq(columns, it.T, rcond=None)[0]).ravel() for it in moves]
    rest = (target.T - columns @ mixing).ravel()
    found, *_ = np.linalg.lstsq(np.column_stack(free_of_colour), rest, rcond=None)
    middle = source.max(axis=0) + source.min(axis=0)
    middle = (middle - columns @ np.linalg.lstsq(columns, middle, rcond=None)[0]) / 2
    bent = float((target.T - columns @ mixing).mean(axis=1) @ middle), float(middle @ middle)
    return float(tinted), float(np.hypot(*found[:2])), float(np.linalg.norm(found[2:5])), bent
