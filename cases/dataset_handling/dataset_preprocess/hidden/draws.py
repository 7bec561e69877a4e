"""Whether the changes of ten pictures' three versions each were drawn anew for each version."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from explain import Found
from numpy.typing import NDArray

NAMES = ("angle", "brightness", "contrast", "saturation")


def faults(versions: list[list[Found]]) -> Iterator[str]:
    """What is no such draw. Honest ones have a fault about once in 10,000 sets."""
    every = [found for row in versions for found in row]
    flips = np.array([[found.flipped for found in row] for row in versions])
    # Pictures x versions x (angle, three factors), each over its range: -1 to 1.
    drawn = np.array([[(it.degrees / 15, *(np.subtract(it.factors, 1) / 0.2)) for it in row] for row in versions])
    yield from _flips(flips)
    for place, name in enumerate(NAMES):
        yield from _spread(name, drawn[:, :, place])
    columns = drawn.reshape(-1, len(NAMES)).T
    for one, two in combinations(range(len(NAMES)), 2):
        together = float(np.corrcoef(columns[one], columns[two])[0, 1])
        if abs(together) > 0.85:
            yield f"{NAMES[one]} and {NAMES[two]} go together (correlation {together:.2f})"
    yield from _repeats(every)


def _flips(flips: NDArray[np.bool_]) -> Iterator[str]:
    if not 4 <= flips.sum() <= 26:
        yield f"{flips.sum()} of {flips.size} versions are flipped; expected about half"
    if (flips == flips[:, :1]).all():
        yield "the versions of each picture are all flipped or all not"
    if (flips == flips[:1]).all(axis=0).sum() > 1:
        yield "versions of one number are all flipped or all not"


def _spread(name: str, drawn: NDArray[np.float64]) -> Iterator[str]:
    low, high, mean = float(drawn.min()), float(drawn.max()), float(np.abs(drawn).mean())
    if low > -0.25 or high < 0.25 or max(-low, high) < 0.65 or high - low < 1.1:
        yield f"the {name} uses {low:.2f} to {high:.2f} of its range of -1 to 1"
    if mean > 0.75:
        yield f"the {name} is mostly at the ends of its range (mean distance from the middle {mean:.2f} of 1)"
    if mean < 0.27:
        yield f"the {name} is mostly near the middle of its range (mean distance from it {mean:.2f} of 1)"
    whole = float(((drawn - drawn.mean()) ** 2).sum())
    for axis, about, least in ((1, "picture", 0.15), (0, "version number", 0.38)):
        inside = float(((drawn - drawn.mean(axis=axis, keepdims=True)) ** 2).sum())
        if inside < least * whole:
            yield f"the {name} hardly varies with the same {about}"


def _repeats(every: list[Found]) -> Iterator[str]:
    still = sum(abs(one.degrees) < 0.75 for one in every)
    # Where the nearest pixel is taken, which explains 0.990 (any other interpolation 0.999), 2 degrees turn nothing.
    rough = float(np.median([one.explained for one in every])) < 0.995
    if still > (13 if rough else 7):
        yield f"{still} of {len(every)} versions are not turned"
    plain = sum(bool((np.abs(np.subtract(one.factors, 1)) < 0.015).all()) for one in every)
    if plain > 5:
        yield f"{plain} of {len(every)} versions have their colours unchanged"
    alike = sum(
        abs(abs(one.degrees) - abs(two.degrees)) < 0.7
        and bool(np.abs(np.subtract(one.factors, two.factors)).max() < 0.02)
        for one, two in combinations(every, 2)
    )
    if alike > 5:
        yield f"{alike} pairs of versions share angle and colours"
