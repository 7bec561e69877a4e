"""The bootstrap over cases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.stats.draws import Floats, case_weights
from bench.stats.intervals import LEVEL, Interval


def mean_interval(values: Floats, level: float = LEVEL) -> Interval | None:
    """`mean_intervals` for one level."""
    return mean_intervals(values, [level])[0]


def mean_intervals(values: Floats, levels: Sequence[float]) -> list[Interval | None]:
    """Intervals of the mean of `values`, shape (cases,), as a sample of cases; None for fewer than two.

    Percentiles of the means of `RESAMPLES` samples of cases, spread as far as Student's t asks for at this number of
    cases (Hesterberg, "What Teachers Should Know about the Bootstrap", The American Statistician 69, 2015, section
    4.3): plain percentiles are too narrow for few cases.

    Where no case differs from another there is nothing to resample. The interval then holds what n equal cases leave
    possible: up to a share 1 - ((1 - level) / 2)^(1 / n) of all cases may differ from them by 1 (Clopper and Pearson,
    1934; the "rule of three").
    """
    n = len(values)
    if n < 2:
        return [None] * len(levels)
    if np.ptp(values) == 0:
        return [_of_equals(float(values[0]), n, level) for level in levels]
    tails = [_tail(n, level) for level in levels]
    found = np.quantile(case_weights(n) @ values, [*tails, *(1 - tail for tail in tails)])
    return [Interval(float(low), float(high)) for low, high in found.reshape(2, -1).T]


def _tail(n: int, level: float) -> float:
    from scipy.special import ndtr, stdtrit

    return float(ndtr(math.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2)))


def _of_equals(value: float, n: int, level: float) -> Interval:
    unseen = 1 - ((1 - level) / 2) ** (1 / n)
    return Interval(value - unseen, value + unseen)
