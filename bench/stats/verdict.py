"""From paired differences to a verdict, by rules that are fixed before anybody looks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.stats.bootstrap import mean_intervals
from bench.stats.draws import Floats
from bench.stats.intervals import LEVEL, Interval
from bench.stats.permutation import Tails, sign_flip

Verdict = Literal["regression", "improvement", "no change", "inconclusive", "not comparable"]

POWER = 0.8
"""The chance of a decision that sample sizes are planned for."""
MOST_TRIALS = 200
MOST_CASES = 10_000


@dataclass(frozen=True)
class Rules:
    """What counts as a change. Of `margin` and `alpha` none moves with the data."""

    margin: float = 0.05
    """The smallest difference of success or score that matters."""
    ratio_margin: float = 0.10
    """The same for cost, tokens and time: 0.10 is a tenth more, or what undoes a tenth more."""
    alpha: float = 0.05
    """The chance of calling a regression where nothing has changed, and of calling "no change" beyond the margin."""


DEFAULT_RULES = Rules()


@dataclass(frozen=True)
class Needed:
    """What would decide with `POWER`, if the difference is as it looks. None: more than is reasonable."""

    trials: int | None
    """A case and side, on the same cases."""
    cases: int | None
    """With the same number of trials."""


@dataclass(frozen=True)
class Judgement:
    """What became of one measure. Differences are head minus base."""

    verdict: Verdict
    n: int
    """Pairs of cases."""
    difference: float
    interval: Interval | None
    """95%, the cases being a sample."""
    equivalence: Interval | None
    """At 1 - 2 alpha: inside the margin it means "no change"."""
    p_worse: float
    p_better: float
    draws: int | None
    """Of the Monte Carlo test, None where it was exact."""
    needed: Needed | None
    """For an inconclusive result."""


def judge(
    differences: Floats,
    margin: float,
    alpha: float,
    *,
    lower_is_worse: bool,
    noise: Floats | None = None,
    trials: float = 1.0,
    tails: Tails | None = None,
) -> Judgement:
    """The verdict on `differences`, shape (cases,), one per case.

    - *regression*: the one-sided test gives p < alpha and the mean is at least `margin` worse; *improvement* likewise;
    - *no change*: the whole 1 - 2 alpha interval lies within the margin, that is, two one-sided tests at alpha
      (Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987);
    - *inconclusive* otherwise.

    `tails`: of another test than sign flips. `noise`: shape (cases,), the part of each difference's variance that
    comes of its `trials` trials; None where it is not known.
    """
    n = len(differences)
    tails = sign_flip(differences) if tails is None else tails
    p_worse, p_better = (tails.lower, tails.upper) if lower_is_worse else (tails.upper, tails.lower)
    mean = float(differences.mean()) if n else 0.0
    gain = mean if lower_is_worse else -mean
    interval, equivalence = mean_intervals(differences, (LEVEL, 1 - 2 * alpha))
    slack = 1e-9
    verdict: Verdict = "inconclusive"
    if p_worse < alpha and gain <= slack - margin:
        verdict = "regression"
    elif p_better < alpha and gain >= margin - slack:
        verdict = "improvement"
    elif equivalence is not None and equivalence.within(margin):
        verdict = "no change"
    undecided = verdict == "inconclusive" and n >= 2
    return Judgement(
        verdict=verdict,
        n=n,
        difference=mean,
        interval=interval,
        equivalence=equivalence,
        p_worse=p_worse,
        p_better=p_better,
        draws=tails.draws,
        needed=needed(differences, noise, trials, margin, alpha) if undecided else None,
    )


def needed(differences: Floats, noise: Floats | None, trials: float, margin: float, alpha: float) -> Needed:
    """Trials, or cases, that would decide with `POWER` if the difference stays what it is.

    The variance of a mean difference over K cases with n trials a side is (between + within / n) / K. A difference of
    at least the margin is to be told from 0; a smaller one from the margin. With one trial a case the parts cannot be
    told apart, and all of the variance counts as within.
    """
    from scipy.special import ndtri

    cases = len(differences)
    mean = abs(float(differences.mean()))
    total = float(differences.var(ddof=1))
    room = mean if mean >= margin else margin - mean
    if total == 0:
        return Needed(None, _capped(math.log(alpha) / math.log1p(-min(room, 0.999)), MOST_CASES))
    target = (room / float(ndtri(1 - alpha) + ndtri(POWER))) ** 2
    of_trials = total if noise is None else min(total, float(np.mean(noise)))
    left = cases * target - (total - of_trials)
    more_trials = _capped(max(trials, of_trials * trials / left), MOST_TRIALS) if left > 0 else None
    return Needed(more_trials, _capped(max(cases, total / target), MOST_CASES) if target > 0 else None)


def _capped(value: float, most: int) -> int | None:
    return math.ceil(value - 1e-9) if value <= most else None
