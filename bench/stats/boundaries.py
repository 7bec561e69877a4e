"""Boundaries of repeated looks at one experiment: what they cost, and those that cost what is to be spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.stats.intervals import Floats

# Points of the grid on which the distribution of those who go on is held: the fourth digit of a boundary is right.
_POINTS = 801
_FARTHEST = 8.0


def obrien_fleming(fractions: Sequence[float], alpha: float) -> list[float]:
    """The part of a one-sided `alpha` that is spent by each share of the information (Lan and DeMets, 1983)."""
    from scipy.special import ndtr, ndtri

    return [float(2 * ndtr(ndtri(alpha / 2) / math.sqrt(share))) for share in fractions]


def pocock(fractions: Sequence[float], alpha: float) -> list[float]:
    """The same with nearly equal steps (Lan and DeMets, 1983)."""
    return [alpha * math.log1p((math.e - 1) * share) for share in fractions]


def spending_boundaries(fractions: Sequence[float], spent: Sequence[float]) -> list[float]:
    """One-sided normal quantiles of the looks at `fractions` of the information, so that `spent` is what they cost.

    `spent`: the chance of having crossed one by each look, where nothing has changed. By the recursion of Armitage,
    McPherson and Rowe (JRSS A 132, 1969): the distribution of the scores that have crossed nothing, look by look.
    """
    found: list[float] = []
    held = _Held()
    for number, share in enumerate(fractions):
        step = spent[number] - (spent[number - 1] if number else 0.0)
        low, high = -_FARTHEST, 2 * _FARTHEST
        while high - low > 1e-12:
            middle = (low + high) / 2
            low, high = (middle, high) if held.crossing(middle, share) > step else (low, middle)
        found.append(high / math.sqrt(share))
        held = held.after(high, share)
    return found


def crossing_chances(fractions: Sequence[float], quantiles: Sequence[float]) -> list[float]:
    """The chance, where nothing has changed, of having crossed one of these one-sided boundaries by each look."""
    found: list[float] = []
    held = _Held()
    for share, quantile in zip(fractions, quantiles, strict=True):
        bound = quantile * math.sqrt(share)
        found.append((found[-1] if found else 0.0) + held.crossing(bound, share))
        held = held.after(bound, share)
    return found


@dataclass(frozen=True)
class _Held:
    """Scores (the quantile times the root of the share) that have crossed nothing: a grid with the mass of each point.

    The variance of a score is the share of the information, `share`.
    """

    share: float = 0.0
    grid: Floats = field(default_factory=lambda: np.zeros(1))
    mass: Floats = field(default_factory=lambda: np.ones(1))

    def crossing(self, bound: float, share: float) -> float:
        """The chance that the score is over `bound` at `share`, and was over none before."""
        from scipy.special import ndtr

        return float(self.mass @ ndtr((self.grid - bound) / math.sqrt(share - self.share)))

    def after(self, bound: float, share: float) -> _Held:
        """Those that go on after a look at `share`."""
        most = _FARTHEST * math.sqrt(share)
        grid = np.linspace(-most, min(bound, most), _POINTS)
        weights = np.full(_POINTS, 2.0)
        weights[1::2] = 4.0
        weights[[0, -1]] = 1.0
        step = share - self.share
        density = np.exp(-((grid[:, None] - self.grid) ** 2) / (2 * step)) / math.sqrt(2 * math.pi * step)
        mass: Floats = weights * (grid[1] - grid[0]) / 3 * (density @ self.mass)
        return _Held(share, grid, mass)
