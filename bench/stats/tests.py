"""Tests of "nothing has changed" that assume nothing about how results are distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Literal

import numpy as np

from bench.stats.intervals import DRAWS, LEVEL, SEED, Floats, Interval, mean_intervals, signs

MOST_EXACT = 15
"""Pairs up to which every one of the 2^n signs is tried."""
# Steps: the time of the convolution grows with their square, that of drawing does not.
_MOST_LATTICE = 10_000
# Values shuffled at a time: 16 MB.
_CHUNK = 2_000_000
Verdict = Literal["regression", "improvement", "no change", "inconclusive", "not comparable"]
POWER = 0.8
"""The chance of a decision that sample sizes are planned for."""
MOST_TRIALS = 200
MOST_CASES = 10_000


@dataclass(frozen=True)
class Tails:
    """One-sided p-values of a mean difference."""

    lower: float
    """Chance of a mean as low as this, or lower, if nothing has changed."""
    upper: float
    draws: int | None
    """None: exact. Otherwise the Monte Carlo draws behind it; +1 is added to both counts (Phipson and Smyth, 2010)."""


def sign_flip(differences: Floats) -> Tails:
    """The test of paired differences, one a case, by flipping their signs (Fisher, The Design of Experiments, 1935).

    `differences`: shape (cases,). Without a change base and head could be exchanged in every case, so that each
    difference is as likely with the other sign; with equally many trials on both sides that is exact. Differences of 0
    have no part in it. Exact up to 15 others, above by `DRAWS` draws with `SEED`.
    """
    moved = differences[differences != 0]
    n = len(moved)
    if n == 0:
        return Tails(1.0, 1.0, None)
    observed = float(moved.sum())
    slack = 1e-9 * float(np.abs(moved).sum())
    exact = n <= MOST_EXACT
    return _tails(_sums_of_all_signs(moved) if exact else signs(n) @ moved, observed, slack, exact=exact)


def within_cases(base: Sequence[Floats], head: Sequence[Floats]) -> Tails:
    """The test of the mean difference over these very cases: trials change sides within their case.

    `base`, `head`: the trials of each case. Stratified permutation (Good, Permutation, Parametric and Bootstrap Tests,
    2005, chapter 6). A case where every trial went one way counts for more than one sign, so this sees what breaks few
    cases for good; it says nothing of other cases than these. Exact for successes (0 and 1), by convolution of
    hypergeometric distributions; otherwise by `DRAWS` draws.
    """
    observed = sum(float(h.mean() - b.mean()) for b, h in zip(base, head, strict=True))
    binary = all(bool(np.isin(values, (0.0, 1.0)).all()) for side in (base, head) for values in side)
    steps = lcm(*(len(values) for side in (base, head) for values in side))
    if binary and steps * len(base) <= _MOST_LATTICE:
        return _exact_within(base, head, steps, observed)
    rng = np.random.default_rng(SEED)
    sums = np.zeros(DRAWS)
    for b, h in zip(base, head, strict=True):
        both = np.concatenate([b, h])
        if np.ptp(both) > 0:
            sums += _shuffled_differences(both, len(b), rng)
    return _tails(sums, observed, 1e-9 * (1 + abs(observed)), exact=False)


def _tails(sums: Floats, observed: float, slack: float, *, exact: bool) -> Tails:
    """Where `observed` lies among `sums`, shape (n,): all that are possible where `exact`, else draws of them."""
    # Sums that are equal on paper differ by rounding, hence the slack.
    lower, upper = int((sums <= observed + slack).sum()), int((sums >= observed - slack).sum())
    if exact:
        return Tails(lower / len(sums), upper / len(sums), None)
    return Tails((1 + lower) / (1 + len(sums)), (1 + upper) / (1 + len(sums)), len(sums))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values, adjusted so that together they err as seldom as one (Holm, Scand. J. Statistics 6, 1979)."""
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for position, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = least
    return adjusted


def _sums_of_all_signs(values: Floats) -> Floats:
    """(2^n,): the sum of `values`, shape (n,), under every choice of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums - value, sums + value])
    return sums


def _exact_within(base: Sequence[Floats], head: Sequence[Floats], steps: int, observed: float) -> Tails:
    """Sums of successes in steps of 1 / `steps`: each case's number in the head is hypergeometric."""
    from scipy.special import comb

    chances = np.ones(1)
    lowest = 0.0
    for b, h in zip(base, head, strict=True):
        total, m, n = int(b.sum() + h.sum()), len(h), len(b)
        least, most = max(0, total - n), min(total, m)
        if least == most:
            lowest += least / m - (total - least) / n
            continue
        counts = np.arange(least, most + 1)
        share = comb(total, counts) * comb(m + n - total, m - counts) / comb(m + n, m)
        values = counts / m - (total - counts) / n
        lattice = np.zeros(round((values[-1] - values[0]) * steps) + 1)
        lattice[np.rint((values - values[0]) * steps).astype(int)] = share
        chances = np.convolve(chances, lattice)
        lowest += float(values[0])
    place = round((observed - lowest) * steps)
    return Tails(min(1.0, float(chances[: place + 1].sum())), min(1.0, float(chances[place:].sum())), None)


def _shuffled_differences(both: Floats, first: int, rng: np.random.Generator) -> Floats:
    """(DRAWS,): mean of the rest minus mean of `first` values, after shuffling."""
    parts = []
    rows = max(1, _CHUNK // len(both))
    for start in range(0, DRAWS, rows):
        mixed = rng.permuted(np.tile(both, (min(rows, DRAWS - start), 1)), axis=1)
        parts.append(mixed[:, first:].mean(axis=1) - mixed[:, :first].mean(axis=1))
    return np.concatenate(parts)


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
    # A difference of exactly the margin counts, even where it was rounded to a little less.
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
