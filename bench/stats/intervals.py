"""Intervals of confidence for rates and for means of values between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    def within(self, margin: float) -> bool:
        """Does it lie inside `-margin` to `margin`?"""
        return -margin <= self.low and self.high <= margin


def wilson(mean: float, n: int, level: float = LEVEL) -> Interval:
    """Wilson's score interval of the rate of `n` independent trials (E. B. Wilson, JASA 22, 1927).

    For the trials of one case. Over several cases trials are not independent: see `clustered`.
    """
    return _score_interval(mean, n, NormalDist().inv_cdf((1 + level) / 2))


def clustered(means: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of a mean over cases, from the mean of each case (in [0, 1]); None for fewer than two cases.

    The cases are the sample, and the trials of a case belong together. With equal weights of the K cases the
    cluster-robust variance with the small-sample correction CR2 (Bell and McCaffrey, Survey Methodology 28, 2002;
    Pustejovsky and Tipton, JBES 36, 2018) is s^2 / K, s^2 being the sample variance of the case means, and its
    degrees of freedom are K - 1. Around it a score interval is built instead of mean +- t * error, as Wilson's is for
    a rate (Korn and Graubard, Survey Methodology 24, 1998; Franco et al., JSSAM 7, 2019): the variance at mean mu is
    phi * mu * (1 - mu) / K, phi being estimated from s^2. It stays in [0, 1], is not symmetric near the ends, and
    keeps its coverage there, where Student's interval loses it.

    phi is at most 1, that of cases which always or never succeed. It is 1, too, where all cases agree: that
    none differ so far says nothing of how much they do.
    """
    from scipy.special import stdtrit

    n = len(means)
    if n < 2:
        return None
    mean = fmean(means)
    most = mean * (1 - mean)
    spread = variance(means)
    phi = min(1.0, spread / most) if spread > 0 and most > 0 else 1.0
    return _score_interval(mean, n / phi, float(stdtrit(n - 1, (1 + level) / 2)))


def _score_interval(mean: float, n: float, quantile: float) -> Interval:
    """All mu with |mean - mu| <= quantile * sqrt(mu * (1 - mu) / n)."""
    square = quantile * quantile
    centre = (mean + square / (2 * n)) / (1 + square / n)
    half = quantile / (1 + square / n) * math.sqrt(max(0.0, mean * (1 - mean) / n + square / (4 * n * n)))
    return Interval(_clip(centre - half), _clip(centre + half))


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
