"""Intervals of confidence for means of values between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


def wilson(mean: float, n: int, level: float = LEVEL) -> Interval:
    """Wilson's score interval of a proportion (E. B. Wilson, JASA 22, 1927; Brown, Cai and DasGupta, 2001).

    `n` is the number of cases. With several trials a case's rate lies between 0 and 1, and a variable in [0, 1] never
    varies more than a coin with the same mean: the interval is then wider than needed, never narrower.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return Interval(_clip(centre - half), _clip(centre + half))


def student(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Student's t interval of a mean, clipped to [0, 1]; None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    mean = fmean(values)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    half = t_quantile((1 + level) / 2, n - 1) * error
    return Interval(_clip(mean - half), _clip(mean + half))


def t_quantile(probability: float, freedom: int) -> float:
    """The quantile (`probability` in [0.5, 1)) of Student's t with whole degrees of freedom.

    Bisection of the exact distribution: with theta = atan(t / sqrt(freedom)) it is a finite sum
    (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _t_two_sided(middle, freedom) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _t_two_sided(theta: float, freedom: int) -> float:
    """The probability of |T| < t, for t = sqrt(freedom) * tan(theta)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = freedom % 2 == 1
    if freedom == 1:
        return 2 * theta / math.pi
    term = cosine if odd else 1.0
    total = term
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (theta + sine * total) if odd else sine * total


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
