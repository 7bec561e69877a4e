"""The verdict on one measure: what was seen, what is excluded, and what would decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bench.stats.intervals import (
    LEVEL,
    SEED,
    Floats,
    Interval,
    clipped,
    difference_intervals,
    mean_intervals,
    signs,
    unseen,
)
from bench.stats.nights import NO_ERROR, NightError
from bench.stats.sample_sizes import Needed, needed
from bench.stats.sign_flips import flipped_chances, sign_flip
from bench.stats.tails import Tails
from bench.stats.tests import Rules, Stratum, within_strata

# The error of a simulated power near 0.75 is then 0.02.
_ROUNDS = 500
_SIGNS = 1_000
Verdict = Literal[
    "regression",
    "improvement",
    "no change",
    "no difference seen",
    "below the noise floor",
    "inconclusive",
    "not comparable",
]


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
    night: NightError = NO_ERROR,
) -> Judgement:
    """The verdict on `differences`, shape (cases,), one per case; `lower_is_worse`: they lie between -1 and 1.

    - *regression*: the one-sided test gives p < alpha and the mean is at least `margin` worse; *improvement* likewise;
    - *no change*: the whole 1 - 2 alpha interval lies within the margin, that is, two one-sided tests at alpha
      (Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987);
    - *no difference seen*: every case had the same mean on both sides, and there are too few for *no change*;
    - *inconclusive* otherwise.

    `tails`: of another test than sign flips. `noise`: shape (cases,), the part of each difference's variance that
    comes of its `trials` trials; None where it is not known. `night`: what nights add to the mean's error.
    """
    n = len(differences)
    tails = sign_flip(differences, night) if tails is None else tails
    p_worse, p_better = (tails.lower, tails.upper) if lower_is_worse else (tails.upper, tails.lower)
    mean = float(differences.mean()) if n else 0.0
    gain = mean if lower_is_worse else -mean
    levels = LEVEL, 1 - 2 * alpha
    found = _intervals(differences, levels, night, bounded=lower_is_worse)
    interval, equivalence = (
        it and _as_tested(it, tails, (1 - level) / 2) for it, level in zip(found, levels, strict=True)
    )
    verdict = decide(p_worse, p_better, gain, equivalence, margin, alpha)
    if verdict == "inconclusive" and n >= 2 and not np.any(differences):
        verdict = "no difference seen"
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
        needed=needed(differences, noise, trials, margin, alpha, bounded=lower_is_worse, night=night)
        if undecided
        else None,
    )


def judge_suite(strata: Sequence[Stratum], cases: int, margin: float, alpha: float, night: NightError) -> Judgement:
    """The verdict on these very `cases`: by `within_strata`, with an interval of the trials' error alone.

    The interval is Student's with the degrees of freedom of Satterthwaite (Biometrics Bulletin 2, 1946), and never
    narrower than what so many trials may all have missed (`unseen`): trials that agree so far leave something open.
    """
    from scipy.special import stdtrit

    tails = within_strata(strata, night, cases)
    mean = sum(it.weight * float(it.head.mean() - it.base.mean()) for it in strata) / cases
    parts = [
        (it.weight**2 * float(values.var(ddof=1)) / len(values), len(values) - 1)
        for it in strata
        for values in (it.base, it.head)
        if len(values) > 1
    ]
    known = len(parts) == 2 * len(strata)
    error = math.sqrt(sum(part for part, _ in parts)) / cases
    found: list[Interval | None] = []
    for level in (LEVEL, 1 - 2 * alpha):
        if not known:
            found.append(None)
            continue
        freedom = sum(part for part, _ in parts) ** 2 / max(sum(part**2 / free for part, free in parts), 1e-300)
        reach = error * float(stdtrit(max(freedom, 1.0), (1 + level) / 2))
        trials = min(sum(len(it.base) for it in strata), sum(len(it.head) for it in strata))
        half = math.hypot(max(reach, unseen(trials, (1 - level) / 2)), night.quantile((1 + level) / 2))
        found.append(clipped(Interval(mean - half, mean + half)))
    verdict = decide(tails.lower, tails.upper, mean, found[1], margin, alpha)
    if verdict == "inconclusive" and all(float(it.base.mean()) == float(it.head.mean()) for it in strata):
        verdict = "no difference seen"
    return Judgement(verdict, cases, mean, found[0], found[1], tails.lower, tails.upper, tails.draws, None)


def decide(
    p_worse: float, p_better: float, gain: float, equivalence: Interval | None, margin: float, alpha: float
) -> Verdict:
    """The verdict by the rules of `judge`; `gain`: the mean difference, positive where head is better."""
    # A difference of exactly the margin counts, even where it was rounded to a little less.
    slack = 1e-9
    if p_worse < alpha and gain <= slack - margin:
        return "regression"
    if p_better < alpha and gain >= margin - slack:
        return "improvement"
    if equivalence is not None and equivalence.within(margin):
        return "no change"
    return "inconclusive"


def _intervals(
    differences: Floats, levels: Sequence[float], night: NightError, *, bounded: bool
) -> list[Interval | None]:
    """Of the mean of `differences`, shape (cases,), which nights made more uncertain.

    The distance from the mean to each end is the root of the sum of squares of what cases and nights ask for, which
    recovers their variances (Zou and Donner, Statistics in Medicine 27, 2008, section 2). `bounded`: a difference of
    shares, from -1 to 1. Otherwise equal differences have no interval: nothing bounds what other cases do.
    """
    mean = float(differences.mean()) if len(differences) else 0.0
    of_cases = difference_intervals if bounded else mean_intervals
    found: list[Interval | None] = []
    for level, it in zip(levels, of_cases(differences, levels), strict=True):
        if it is not None and night.sd:
            reach = night.quantile((1 + level) / 2)
            it = Interval(mean - math.hypot(mean - it.low, reach), mean + math.hypot(it.high - mean, reach))
        found.append(clipped(it) if it is not None and bounded else it)
    return found


def _as_tested(it: Interval, tails: Tails, alpha: float) -> Interval:
    """With 0 in it, where the test does not exclude it: an interval is what a test leaves open."""
    low = it.low if tails.upper < alpha else min(it.low, 0.0)
    return Interval(low, it.high if tails.lower < alpha else max(it.high, 0.0))


def above_floor(it: Judgement, floor: float | None, margin: float) -> Judgement:
    """The judgement, where the machines let it stand; *below the noise floor* where they do not.

    A change is called only where it is as large as the `floor` of differences that one agent has from itself; and
    where a floor of the margin or more hides differences that matter, *no change* cannot be said either.
    """
    if floor is None:
        return it
    hidden = abs(it.difference) < floor and it.verdict in ("regression", "improvement")
    blind = floor >= margin and it.verdict == "no change"
    return replace(it, verdict="below the noise floor", needed=None) if hidden or blind else it


def power_of(
    base: Sequence[Floats],
    trials: tuple[Floats, Floats],
    drop: float,
    rules: Rules,
    night: NightError,
    *,
    by_signs: bool,
) -> float:
    """The chance that `drop`, which takes the same share of every case's chance, is called a regression.

    base: the trials of each case, successes being 1. trials: shape (cases,), what base's and head's means are worth
    (`Sample.effective`). By simulation: a case's chance of success is drawn from what is known of it (a Beta
    distribution that its trials and one more of the mean success leave, Gelman et al., Bayesian Data Analysis, 2013,
    section 2.4). The test is the one that decides: `by_signs` that of `paired_cases`, else trials within cases, in
    their normal approximation. A drop of more than the mean success cannot happen, and has no chance.
    """
    from scipy.special import ndtri

    cases = len(base)
    succeeded, n = np.array([values.sum() for values in base]), np.array([len(values) for values in base])
    mean = float((succeeded.sum() + 0.5) / (n.sum() + 1))
    rng = np.random.default_rng([SEED, cases])
    chances = rng.beta(succeeded + mean, n - succeeded + 1 - mean, size=(_ROUNDS, cases))
    share = 1 - drop / chances.mean(axis=1, keepdims=True)
    if not cases or float(np.median(share)) < 0:
        return 0.0
    one, other = (np.maximum(1, np.rint(it)).astype(int) for it in trials)
    seen = rng.binomial(one, chances), rng.binomial(other, np.maximum(share, 0) * chances)
    differences = seen[1] / other - seen[0] / one
    shifts = night.draws()[:_ROUNDS] if night.sd else np.zeros(_ROUNDS)
    means = differences.mean(axis=1) + shifts
    if by_signs:
        chance = flipped_chances(differences, signs(cases, _SIGNS), night, shifts, exact=False)
        certain = chance < rules.alpha
    else:
        certain = np.ones(_ROUNDS, dtype=bool)
    if not by_signs or np.any(one != other):
        rate = (seen[0] + seen[1]) / (one + other)
        spread = (rate * (1 - rate) * (one + other) / (one + other - 1) * (1 / one + 1 / other)).sum(axis=1) / cases**2
        certain &= means < -float(ndtri(1 - rules.alpha)) * np.sqrt(spread + night.sd**2)
    found = certain & (means <= 1e-9 - rules.margin)
    return float(np.mean(found))
