"""Intervals of confidence for rates and for means of values between 0 and 1."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean, variance
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
Floats: TypeAlias = npt.NDArray[np.float64]
SEED = 20261121
DRAWS = 20_000
"""Of a Monte Carlo test: at p = 0.05 the error of the p-value is 0.0015."""
RESAMPLES = 10_000
"""Of a bootstrap."""
# Imagined differences beside those that were seen.
_IMAGINED = 1 / 3
# The sum of squares below which cases hardly moved.
_STILL = 1 / 4
# Numbers of cases are rounded up to a multiple of this, so that few blocks of signs serve all of them.
_BLOCK = 64
# Rows whose samples are held at once, with their quantiles: 20 MB.
_TOGETHER = 128
# Values that differ by less are equal but for rounding.
_EQUAL = 1e-12


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    def within(self, margin: float) -> bool:
        """Does it lie inside `-margin` to `margin`?"""
        return -margin <= self.low and self.high <= margin


@dataclass(frozen=True)
class Contrast:
    """The mean of one sample less that of another."""

    difference: float
    interval: Interval
    p: float


@dataclass(frozen=True)
class Correlation:
    """Pearson's, with the 95% interval of Fisher's z (Metron 1, 1921); over `n` pairs."""

    n: int
    r: float
    interval: Interval | None


def wilson(mean: float, n: int) -> Interval:
    """Wilson's 95% score interval of the rate of `n` independent trials (E. B. Wilson, JASA 22, 1927).

    For the trials of one case. Over several cases trials are not independent: see `clustered`.
    """
    return _score_interval(mean, n, NormalDist().inv_cdf((1 + LEVEL) / 2))


def clustered(means: Sequence[float]) -> Interval | None:
    """The 95% interval of a mean over cases, from the mean of each case (in [0, 1]); None for fewer than two cases.

    The cases are the sample, and the trials of a case belong together. With equal weights of the K cases the
    cluster-robust variance with the small-sample correction CR2 (Bell and McCaffrey, Survey Methodology 28, 2002;
    Pustejovsky and Tipton, JBES 36, 2018) is s^2 / K, s^2 being the sample variance of the case means, and its
    degrees of freedom are K - 1. Around it a score interval is built instead of mean +- t * error, as Wilson's is for
    a rate (Korn and Graubard, Survey Methodology 24, 1998; Franco et al., JSSAM 7, 2019): the variance at mean mu is
    phi * mu * (1 - mu) / K, phi being estimated from s^2. It stays in [0, 1], is not symmetric near the ends, and
    keeps its coverage there, where Student's interval loses it.

    phi is at most 1, that of cases which always or never succeed. It is estimated with two imagined cases more, one of
    mean 0 and one of mean 1 (after Agresti and Coull, The American Statistician 52, 1998, who imagine two successes
    and two failures): that few cases agree so far does not say that others do, and a mean that hardly differs from
    one case to the next must not give another interval than one that does not differ at all.

    Where successes are rare, it is too sure that they are not rarer (Brown, Cai and DasGupta, Statistical Science 16,
    2001, section 4.1.1). So each end is at least as far as that of Clopper and Pearson with all of 5% on its side.
    """
    from scipy.special import betaincinv, stdtrit

    n = len(means)
    if n < 2:
        return None
    mean = fmean(means)
    imagined = [*means, 0.0, 1.0]
    middle = fmean(imagined)
    # `statistics.variance` differs in the last digit, and takes ten times as long.
    spread = math.fsum((it - middle) ** 2 for it in imagined) / (n + 1)
    phi = min(1.0, spread / (middle * (1 - middle)))
    found = _score_interval(mean, n / phi, float(stdtrit(n - 1, (1 + LEVEL) / 2)))
    won, lost = mean * n / phi, (1 - mean) * n / phi
    low = float(betaincinv(won, lost + 1, 1 - LEVEL)) if mean > 0 else 0.0
    high = 1 - float(betaincinv(lost, won + 1, 1 - LEVEL)) if mean < 1 else 1.0
    return Interval(min(found.low, low), max(found.high, high))


def _score_interval(mean: float, n: float, quantile: float) -> Interval:
    """All mu with |mean - mu| <= quantile * sqrt(mu * (1 - mu) / n)."""
    square = quantile * quantile
    centre = (mean + square / (2 * n)) / (1 + square / n)
    half = quantile / (1 + square / n) * math.sqrt(max(0.0, mean * (1 - mean) / n + square / (4 * n * n)))
    return Interval(_clip(centre - half), _clip(centre + half))


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


def signs(n: int, draws: int = DRAWS) -> Floats:
    """(draws, n) of -1 and 1, read-only."""
    return _sign_block(-(-n // _BLOCK) * _BLOCK, draws)[:, :n]


@lru_cache(maxsize=2)
def case_weights(n: int, resamples: int = RESAMPLES) -> Floats:
    """(resamples, n), read-only: the share of each of n cases in a sample of n cases drawn with replacement."""
    weights = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), size=resamples) / n
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=2)
def _sign_block(width: int, draws: int) -> Floats:
    coins = np.random.default_rng(SEED).integers(0, 2, size=(draws, width), dtype=np.int8)
    block: Floats = coins.astype(np.float64) * 2 - 1
    block.setflags(write=False)
    return block


def mean_intervals(values: Floats, levels: Sequence[float]) -> list[Interval | None]:
    """Intervals of the mean of `values`, shape (cases,), as a sample of cases; None for fewer than two.

    Percentiles of the means of `RESAMPLES` samples of cases, spread as far as Student's t asks for at this number of
    cases (Hesterberg, "What Teachers Should Know about the Bootstrap", The American Statistician 69, 2015, section
    4.3): plain percentiles are too narrow for few cases.

    Where no case differs from another there is nothing to resample, and no interval.
    """
    n = len(values)
    if n < 2 or np.ptp(values) < _EQUAL:
        return [None] * len(levels)
    tails = [_tail(n, level) for level in levels]
    found = np.quantile(case_weights(n) @ values, [*tails, *(1 - tail for tail in tails)])
    return [_among(values, low, high) for low, high in found.reshape(2, -1).T]


def _among(values: Floats, low: float, high: float) -> Interval:
    """A mean lies among its values; the weights sum to 1 but for rounding."""
    low, high = np.clip([low, high], values.min(), values.max())
    return Interval(float(low), float(high))


def student(values: Sequence[float]) -> Interval | None:
    """The 95% interval of the mean of a few measurements of any size (Student, Biometrika 6, 1908).

    For the trials of one case, where `mean_intervals` would be the range: of three trials that holds the mean in 75%.
    None for fewer than two, and where they do not differ.
    """
    from scipy.special import stdtrit

    n = len(values)
    if n < 2 or max(values) - min(values) < _EQUAL:
        return None
    reach = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * math.sqrt(variance(values) / n)
    return Interval(fmean(values) - reach, fmean(values) + reach)


def difference_intervals(differences: Floats, levels: Sequence[float]) -> list[Interval | None]:
    """Intervals of the mean of `differences` of shares, shape (cases,), from -1 to 1; None for fewer than two.

    What `mean_intervals` and Student's interval with imagined cases hold together. The imagined ones are c, half of
    them at -1 and half at 1 (Agresti and Min, Statistics in Medicine 24, 2005, do so with c = 1): what broke few of
    all cases for good may have missed those that were drawn. c is 1/3, which was found by simulation to cover 93% and
    to cost little width. The less the cases moved, the closer c comes to where equal cases have the interval that they
    leave possible: up to `unseen` of all cases may differ from them by 1. It does so while the sum of squares is below
    1/4, so that a hair's breadth in one case does not make another interval of it.
    """
    resampled = mean_intervals(differences, levels)
    return [_of_differences(differences, level, it) for level, it in zip(levels, resampled, strict=True)]


def intervals_of_differences(rows: Sequence[Floats], level: float) -> list[Interval | None]:
    """`difference_intervals` of many, resampled together; the same but for the rounding of their means (1e-15)."""
    found: list[Interval | None] = [None] * len(rows)
    by_length: dict[int, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        if len(row) >= 2 and np.ptp(row) >= _EQUAL:
            by_length[len(row)].append(place)
    for n, places in by_length.items():
        tail = _tail(n, level)
        for first in range(0, len(places), _TOGETHER):
            some = places[first : first + _TOGETHER]
            means = np.stack([rows[place] for place in some]) @ case_weights(n).T
            for place, (low, high) in zip(some, np.quantile(means, [tail, 1 - tail], axis=1).T, strict=True):
                found[place] = _among(rows[place], low, high)
    return [_of_differences(row, level, resampled) for row, resampled in zip(rows, found, strict=True)]


def _of_differences(differences: Floats, level: float, resampled: Interval | None) -> Interval | None:
    from scipy.special import stdtrit

    n = len(differences)
    if n < 2:
        return None
    quantile = float(stdtrit(n - 1, (1 + level) / 2))
    squares = float((differences**2).sum())
    still = max(0.0, 1 - squares / _STILL)
    imagined = _IMAGINED + still * (_imagined_of_equals(n, level, quantile) - _IMAGINED)
    centre = float(differences.sum()) / (n + imagined)
    half = quantile * math.sqrt(max(0.0, (squares + imagined) / (n + imagined) - centre**2) / (n + imagined))
    low, high = centre - half, centre + half
    if resampled is not None:
        low, high = min(low, resampled.low), max(high, resampled.high)
    return clipped(Interval(low, high))


def clipped(it: Interval, most: float = 1.0) -> Interval:
    """What of it lies from `-most` to `most`."""
    return Interval(min(most, max(-most, it.low)), max(-most, min(most, it.high)))


def _imagined_of_equals(n: int, level: float, quantile: float) -> float:
    """How many imagined cases give n differences of 0 an interval that ends at the share they may have missed.

    The smaller root of quantile^2 c = missed^2 (n + c)^2.
    """
    missed = unseen(n, (1 - level) / 2) ** 2
    middle = quantile**2 - 2 * n * missed
    return (middle - math.sqrt(max(0.0, middle**2 - (2 * n * missed) ** 2))) / (2 * missed)


def unseen(n: int, alpha: float) -> float:
    """The largest share of cases that n cases may all have missed, at a chance of alpha: 1 - alpha^(1 / n).

    Clopper and Pearson, Biometrika 26, 1934, for no event among n (the "rule of three").
    """
    return 1 - math.pow(alpha, 1 / n)


def _tail(n: int, level: float) -> float:
    from scipy.special import ndtr, stdtrit

    return float(ndtr(math.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2)))


def between(base: float, of_base: Interval, head: float, of_head: Interval) -> Interval:
    """Of head less base, from the interval of each (Newcombe, Statistics in Medicine 17, 1998, method 10).

    For other means than rates the same recovers the variances of both sides (Zou and Donner, ibid. 27, 2008).
    """
    low = math.hypot(head - of_head.low, of_base.high - base)
    high = math.hypot(of_head.high - head, base - of_base.low)
    return clipped(Interval(head - base - low, head - base + high))


def correlation(one: Floats, other: Floats) -> Correlation | None:
    """Of two arrays of shape (n,); None for fewer than four, and where either does not vary."""
    n = len(one)
    if n < 4 or np.ptp(one) < _EQUAL or np.ptp(other) < _EQUAL:
        return None
    r = min(1.0, max(-1.0, float(np.corrcoef(one, other)[0, 1])))
    if 1 - abs(r) < _EQUAL:
        return Correlation(n, r, None)
    from scipy.special import ndtri

    reach = float(ndtri((1 + LEVEL) / 2)) / math.sqrt(n - 3)
    return Correlation(n, r, Interval(math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach)))


def contrast(one: Floats, other: Floats) -> Contrast | None:
    """Of `other` less `one`, by Welch's test (Biometrika 34, 1947); None for fewer than two of either, or no spread.

    Both hold differences of shares, from -1 to 1.
    """
    from scipy.special import stdtr, stdtrit

    sides = (one, other)
    if min(map(len, sides)) < 2:
        return None
    parts = [float(side.var(ddof=1)) / len(side) for side in sides]
    error = math.sqrt(sum(parts))
    if error < _EQUAL:
        return None
    freedom = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    difference = float(other.mean() - one.mean())
    reach = error * float(stdtrit(freedom, (1 + LEVEL) / 2))
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Contrast(difference, clipped(Interval(difference - reach, difference + reach), 2.0), p)
