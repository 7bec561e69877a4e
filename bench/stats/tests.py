"""Tests of "nothing has changed" that assume nothing about how results are distributed, and of a slope over cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, lcm

import numpy as np

from bench.stats.intervals import DRAWS, SEED, Floats
from bench.stats.nights import NO_ERROR, NightError
from bench.stats.sign_flips import sign_flip
from bench.stats.tails import Tails, tails_among

# Steps: the time of the convolution grows with their square, that of drawing does not.
_MOST_LATTICE = 10_000
# Values shuffled at a time: 16 MB.
_CHUNK = 2_000_000
# Of numbers between -1 and 1: what is less is rounding.
_NO_SPREAD = 1e-9
# Of steps of the lattice of sums.
_ROUNDING = 1e-6
POWER = 0.8
"""The chance of a decision that sample sizes are planned for."""
MOST_TRIALS = 200
MOST_CASES = 10_000


@dataclass(frozen=True)
class Stratum:
    """Trials of one case that could have changed sides if nothing changed, with their weight in the sum over cases."""

    weight: float
    base: Floats
    head: Floats


def paired_cases(
    differences: Floats, base: Sequence[Floats], head: Sequence[Floats], night: NightError = NO_ERROR
) -> Tails:
    """`sign_flip`; where a case has more trials on one side, no p-value below that of trials that change sides.

    The difference of a case whose sides have unequal numbers of trials is not symmetric: ten trials of base that
    succeed once and one of head that fails give -0.1, with a chance of 9 in 10. All cases may lie on one side then,
    though nothing has changed, and signs take that for certainty. Trials that change sides (`within_strata`, of all
    nights together) have this skewness; signs allow for changes that differ from case to case. Both must agree
    (intersection-union test, Berger, Technometrics 24, 1982). base, head: the trials of each case.
    """
    by_signs = sign_flip(differences, night)
    if all(len(b) == len(h) for b, h in zip(base, head, strict=True)):
        return by_signs
    strata = [Stratum(1.0, b, h) for b, h in zip(base, head, strict=True)]
    by_trials = within_strata(strata, night, len(strata), float(differences.sum()))
    lower, upper = max(by_signs.lower, by_trials.lower), max(by_signs.upper, by_trials.upper)
    return Tails(lower, upper, by_signs.draws or by_trials.draws)


def within_cases(base: Sequence[Floats], head: Sequence[Floats]) -> Tails:
    """`within_strata` with one stratum for each case; `base`, `head`: the trials of each."""
    return within_strata([Stratum(1.0, b, h) for b, h in zip(base, head, strict=True)])


def within_strata(
    strata: Sequence[Stratum], night: NightError = NO_ERROR, cases: int = 1, observed: float | None = None
) -> Tails:
    """The test of the mean difference over these very cases: trials change sides within their stratum.

    Stratified permutation (Good, Permutation, Parametric and Bootstrap Tests, 2005, chapter 6). A case where every
    trial went one way counts for more than one sign, so this sees what breaks few cases for good; it says nothing of
    other cases than these. Exact for successes (0 and 1) with equal weights, by convolution of hypergeometric
    distributions; otherwise by `DRAWS` draws. The error of `night` is one of the mean over `cases`. observed: the sum
    of the differences, where their trials were weighted otherwise than alike.
    """
    if observed is None:
        observed = sum(it.weight * float(it.head.mean() - it.base.mean()) for it in strata)
    binary = all(bool(np.isin(values, (0.0, 1.0)).all()) for it in strata for values in (it.base, it.head))
    steps = lcm(*(len(values) for it in strata for values in (it.base, it.head)))
    equal = all(it.weight == 1.0 for it in strata)
    if binary and equal and steps * len(strata) <= _MOST_LATTICE:
        return _exact_within(strata, steps, observed, night, cases)
    rng = np.random.default_rng(SEED)
    sums = cases * night.draws() if night.sd else np.zeros(DRAWS)
    for it in strata:
        both = np.concatenate([it.base, it.head])
        if np.ptp(both) > 0:
            sums += it.weight * (_exchanged(it, rng) if binary else _shuffled_differences(both, len(it.base), rng))
    return tails_among(sums, observed, 1e-9 * (1 + abs(observed)), exact=False)


def _exchanged(it: Stratum, rng: np.random.Generator) -> Floats:
    """(DRAWS,): differences of rates when the successes of the stratum fall on either side by chance."""
    total, m, n = int(it.base.sum() + it.head.sum()), len(it.head), len(it.base)
    of_head = rng.hypergeometric(total, m + n - total, m, size=DRAWS)
    found: Floats = of_head / m - (total - of_head) / n
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values, adjusted so that together they err as seldom as one (Holm, Scand. J. Statistics 6, 1979)."""
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for position, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = least
    return adjusted


def _exact_within(strata: Sequence[Stratum], steps: int, observed: float, night: NightError, cases: int) -> Tails:
    """Sums of successes in steps of 1 / `steps`: each stratum's number in the head is hypergeometric."""
    from scipy.special import comb

    chances = np.ones(1)
    lowest = 0.0
    for it in strata:
        total, m, n = int(it.base.sum() + it.head.sum()), len(it.head), len(it.base)
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
    if night.sd:
        below = night.chance((observed - lowest - np.arange(len(chances)) / steps) / cases)
        return Tails(float(chances @ below), float(chances @ (1 - below)), None)
    place = (observed - lowest) * steps
    # A weighted sum can lie beyond both ends of the lattice.
    reached, passed = max(-1, floor(place + _ROUNDING)), max(0, ceil(place - _ROUNDING))
    return Tails(min(1.0, float(chances[: reached + 1].sum())), min(1.0, float(chances[passed:].sum())), None)


def _shuffled_differences(both: Floats, first: int, rng: np.random.Generator) -> Floats:
    """(DRAWS,): mean of the rest minus mean of `first` values, after shuffling."""
    parts = []
    rows = max(1, _CHUNK // len(both))
    for start in range(0, DRAWS, rows):
        mixed = rng.permuted(np.tile(both, (min(rows, DRAWS - start), 1)), axis=1)
        parts.append(mixed[:, first:].mean(axis=1) - mixed[:, :first].mean(axis=1))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Fitted:
    """A least-squares slope over cases."""

    slope: float
    error: float
    """Standard error, robust to cases that scatter unequally and to rows of one case that belong together."""
    freedom: int

    @property
    def p(self) -> float:
        """Two-sided, of no slope."""
        from scipy.special import stdtr

        return 2 * float(stdtr(self.freedom, -abs(self.slope) / self.error))


def fit_slope(x: Sequence[Floats], y: Sequence[Floats]) -> Fitted | None:
    """The slope of `y` on `x`: of each case some rows, which together weigh as much as any other case's.

    The error is that of the jackknife over cases, CR3 (Bell and McCaffrey, Survey Methodology 28, 2002); with one row a
    case it is HC3 (MacKinnon and White, J. Econometrics 29, 1985). Student's t with the number of cases less two. None
    for fewer than three cases, and where `x` varies in one case alone, or the cases leave no error.
    """
    cases = len(x)
    if cases < 3:
        return None
    # Moments about the middle: sums of squares of distant numbers lose digits.
    middle = float(np.mean([own.mean() for own in x])), float(np.mean([own.mean() for own in y]))
    parts = [(own - middle[0], other - middle[1]) for own, other in zip(x, y, strict=True)]
    moments = np.array([[a.mean(), b.mean(), (a * a).mean(), (a * b).mean()] for a, b in parts], dtype=np.float64)
    total = moments.sum(axis=0)
    slope, spread = _slopes(total[None, :], cases)
    each, spreads = _slopes(total - moments, cases - 1)
    if min(float(spread[0]), float(spreads.min())) <= _NO_SPREAD:
        return None
    error = float(np.sqrt(((each - slope) ** 2).sum()))
    return Fitted(float(slope[0]), error, cases - 2) if error > _NO_SPREAD else None


def _slopes(sums: Floats, cases: int) -> tuple[Floats, Floats]:
    """The slope for each row of sums of x, y, x^2 and xy over `cases`, and the spread of x behind it."""
    spread = sums[:, 2] - sums[:, 0] ** 2 / cases
    return (sums[:, 3] - sums[:, 0] * sums[:, 1] / cases) / np.maximum(spread, _NO_SPREAD), spread


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
