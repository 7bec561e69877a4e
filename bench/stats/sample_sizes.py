"""How many trials, or cases, would decide."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bench.stats.intervals import (
    Floats,
)
from bench.stats.nights import NO_ERROR, NightError
from bench.stats.tests import MOST_CASES, MOST_TRIALS, POWER


@dataclass(frozen=True)
class Needed:
    """What would decide with `POWER`, if the difference is as it looks. None: no reasonable number does."""

    trials: int | None
    """A case and side, on the same cases."""
    cases: int | None
    """With the same number of trials."""


def least_cases(alpha: float) -> int:
    """The fewest cases of which a sign-flip test can speak: of n signs all are alike with a chance of 2^-n."""
    return math.floor(-math.log2(alpha)) + 1


def needed(
    differences: Floats,
    noise: Floats | None,
    trials: float,
    margin: float,
    alpha: float,
    *,
    bounded: bool = True,
    night: NightError = NO_ERROR,
) -> Needed:
    """Trials, or cases, that would decide with `POWER` if the difference stays what it is.

    The variance of a mean difference over K cases with n trials a side is (between + within / n) / K. A difference of
    at least the margin is to be told from 0; a smaller one from the margin. With one trial a case the parts cannot be
    told apart, and all of the variance counts as within. What nights add stays, whatever is run in them. No number is
    below what the test can decide by at all.
    """
    from scipy.special import ndtri

    cases = len(differences)
    mean = abs(float(differences.mean()))
    total = float(differences.var(ddof=1))
    apart = mean >= margin
    room = mean if apart else margin - mean
    least = least_cases(alpha)
    if bounded and not apart:
        # Of equal cases so many are needed before their being equal excludes the margin.
        least = max(least, math.ceil(math.log(alpha) / math.log1p(-min(max(room, 1e-9), 0.999))))
    target = (room / float(ndtri(1 - alpha) + ndtri(POWER))) ** 2 - night.sd**2
    if target <= 0:
        return Needed(None, None)
    more_cases = _capped(max(cases + 1, least, total / target), MOST_CASES)
    of_trials = total if noise is None else min(total, float(np.mean(noise)))
    left = cases * target - (total - of_trials)
    by_trials = left > 0 and cases >= least and of_trials > 0
    more_trials = _capped(max(math.floor(trials) + 1, of_trials * trials / left), MOST_TRIALS) if by_trials else None
    return Needed(more_trials, more_cases)


def _capped(value: float, most: int) -> int | None:
    return math.ceil(value - 1e-9) if value <= most else None
