"""The random changes of the training transform, measured on images whose turn, size and place can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from worth import MEAN, SIDE, STD

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


def assert_range(what: str, values: list[float], low: tuple[float, float], high: tuple[float, float]) -> None:
    """The least of the values lies in `low`, the greatest in `high`."""
    least, most = min(values), max(values)
    good = low[0] <= least <= low[1] and high[0] <= most <= high[1]
    assert good, f"{what} from {least:.3f} to {most:.3f} in {len(values)} images, expected {low[0]} to {high[1]}"
