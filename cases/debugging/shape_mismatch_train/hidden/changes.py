"""The random changes of the training transform, measured on images whose turn, size and place can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from worth import MEAN, SIDE, STD, prepared

from bench.judge import array, mapping, sequence, string

DRAWS = 200  # the outer fifteenth of a range is missed once in a million gradings


def transformed(ws: Any, which: str, images: list[Any], alike: int = 0) -> list[Any]:
    """The images after the agent's transform, each of three equal channels. alike: so many in a row are drawn alike."""
    answer = mapping(
        ws.drive("driver.py:transformed", which, images, ws.seed_for("transforms"), alike), keys=("images", "kinds")
    )
    kinds = [string(it) for it in sequence(answer["kinds"])]
    assert kinds == ["torch.float32"], f"the {which} transform gives {kinds}, expected float32 tensors"
    ready = [array(image, shape=(3, SIDE, SIDE)) for image in sequence(answer["images"], length=len(images))]
    for image in ready:
        apart = float(np.abs(image - image[:1]).max())
        assert apart <= 1e-5, f"the channels of the {which} transform differ by up to {apart:.3g}"
    return ready


def ink(ws: Any, image: Any, draws: int = DRAWS) -> list[Any]:
    """Draws of the training transform, before normalisation."""
    return [ready[0] * STD + MEAN for ready in transformed(ws, "train", [image] * draws)]


def centre(image: Any) -> tuple[float, float]:
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    dark = np.clip(image, 0, None) + 1e-9
    return float((rows * dark).sum() / dark.sum()), float((columns * dark).sum() / dark.sum())


def extent(image: Any) -> tuple[float, float]:
    """Of the ink: the angle of its longest side in degrees from upright, and its length (a root of mean squares)."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    down, right = centre(image)
    dark, y, x = np.clip(image, 0, None), rows - down, columns - right
    across, along, both = (float((dark * it).sum() / dark.sum()) for it in (x * x, y * y, x * y))
    angle = float(np.degrees(0.5 * np.arctan2(2 * both, along - across)))
    return angle, ((along + across + np.hypot(along - across, 2 * both)) / 2) ** 0.5


def bar() -> Any:
    """An upright bar, less bright than may be cut at one."""
    image = np.zeros((28, 28), np.uint8)
    image[4:24, 12:16] = 200
    return image


def assert_turned(images: Any) -> None:
    """Each image of a bar is turned, cut out and made brighter or darker anew, evenly within the stated bounds."""
    plain = prepared(bar()[None])[0, 0] * STD + MEAN
    upright, brightest = extent(plain)[1], plain.max()
    measured = np.array([(*extent(image), image.max()) for image in images])
    turns, zooms, peaks = measured[:, 0], measured[:, 1] / upright, measured[:, 2] / brightest
    assert_range("a bar is turned, in degrees", turns, (-15.7, -12.9), (12.9, 15.7))
    assert_range("a bar is longer than in validation, in times", zooms, (0.98, 1.02), (1.1, 1.14))
    assert_range("a bar is brighter than in validation, in times", peaks, (0.79, 0.83), (1.17, 1.21))
    _assert_seldom("a bar is turned", _alike(turns, 30 / 20), len(images), 1 / 20)
    _assert_seldom("a bar is made brighter", _alike(peaks, 0.4 / 20), len(images), 1 / 20)
    # Sides are whole pixels: from a share of 0.964 on it is all of the image.
    _assert_seldom("a bar is cut out", int((zooms < 1.02).sum()), len(images), 0.036 / 0.2)


def _alike(values: Any, span: float) -> int:
    """How many of the values lie within one span, at most."""
    ordered = np.sort(values)
    return int((np.searchsorted(ordered, ordered + span, side="right") - np.arange(len(ordered))).max())


def _assert_seldom(what: str, alike: int, images: int, share: float) -> None:
    """`share`: of images that are alike by chance."""
    most = images * share + 6.5 * (images * share * (1 - share)) ** 0.5
    assert alike <= most, f"{what} {alike} times in {images} by nearly the same: not always at random"


def assert_range(what: str, values: list[float], low: tuple[float, float], high: tuple[float, float]) -> None:
    """The least of the values lies in `low`, the greatest in `high`."""
    least, most = min(values), max(values)
    good = low[0] <= least <= low[1] and high[0] <= most <= high[1]
    assert good, f"{what} from {least:.3f} to {most:.3f} in {len(values)} images, expected {low[0]} to {high[1]}"
