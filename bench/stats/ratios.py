"""Levels of cost, tokens and time whose ratio does not depend on how many trials each side has.

The logarithm of a mean of few trials is too low on average, by about half the squared coefficient of variation over
their number. One trial of a case against ten would seem 10% cheaper where costs vary by half.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bench.stats.intervals import SEED, Floats

_MOST_SUBSETS = 1_000
"""Drawn where there are more."""
Ints = npt.NDArray[np.int64]


def log_levels(
    base: Sequence[Floats], head: Sequence[Floats], nights: tuple[Sequence[Ints], Sequence[Ints]], width: int
) -> tuple[Floats, Floats]:
    """Of base and of head, each of shape (cases, `width` nights): the level of a case in a night; 0 without a trial.

    The level is the mean logarithm of the means of m trials, over all choices of m of a night's trials (a U-statistic,
    Hoeffding, Annals of Mathematical Statistics 19, 1948). m is what the side and night with the fewest trials of this
    case has, so the same law of costs gives the same expected level on both sides, whatever law that is. Where all
    have m trials it is the logarithm of their mean. Choices that took nothing have no logarithm and are left out, as
    cases are where a side took nothing. A case that took nothing on some night has one level for all nights.

    base, head: the trials of each case, some above 0; nights: of each trial of base, and of head.
    """
    found = np.zeros((len(base), width)), np.zeros((len(base), width))
    for case, sides in enumerate(zip(base, head, strict=True)):
        cells = [
            (level, night, values[own[case] == night])
            for level, values, own in zip(found, sides, nights, strict=True)
            for night in np.unique(own[case])
        ]
        fewest = min(len(values) for *_, values in cells)
        if not all(values.any() for *_, values in cells):
            fewest = min(len(sides[0]), len(sides[1]))
            cells = [
                (level, own[case], values[case]) for level, values, own in zip(found, (base, head), nights, strict=True)
            ]
        for level, night, values in cells:
            level[case, night] = level_of(values, fewest)
    return found


def level_of(values: Floats, m: int) -> float:
    """The mean logarithm of those means of `m` of the `values`, shape (trials,), that are above 0."""
    n = len(values)
    if m == n:
        return math.log(float(values.mean()))
    # In the order of their size, so that the order of records makes no difference to the drawn subsets.
    means = np.sort(values)[subsets(n, m)].mean(axis=1)
    return float(np.log(means[means > 0]).mean())


@lru_cache(maxsize=64)
def subsets(n: int, m: int, most: int = _MOST_SUBSETS) -> Ints:
    """(subsets, m): all choices of m of n places, or `most` that are drawn."""
    if math.comb(n, m) <= most:
        return np.array(list(itertools.combinations(range(n), m)))
    places = np.tile(np.arange(n), (most, 1))
    return np.random.default_rng(SEED).permuted(places, axis=1)[:, :m]
