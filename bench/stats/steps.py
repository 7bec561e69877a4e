"""Steps in a nightly series: has the level of the last nights changed, more than trials and nights vary by chance?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.stats.intervals import Floats

Ints = npt.NDArray[np.int64]

MARGIN = 0.05
LEAST_AFTER, MOST_AFTER = 2, 10
"""Nights on the new level. One bad night is not a step: a second one must confirm it."""
LEAST_BEFORE, MOST_BEFORE = 9, 60
LEAST_BACK, LEVEL_OF_RECOVERY = 7, 0.0001
"""Nights after which, and the p-value below which, a level that has no history yet is found to be back."""
LEVEL_OF_A_LOOK = 0.0002
"""The p-value below which a look at a series of many nights finds a step, in each direction."""
LEVEL_OF_AN_EARLY_LOOK = 0.055
"""The same in the first `EARLY` nights of a series, whose few looks may cost more of the year's false alarms."""
EARLY, LATE = 15, 18
"""Nights of the series: from `EARLY` to `LATE` the level of a look falls from the one to the other."""
RHO = 0.7
"""What the autocorrelation of the nights is taken for before the series tells."""
RHO_WEIGHT = 20.0
"""The nights that this is worth, so that its standard error is 0.22."""
MOST_RHO = 0.9


@dataclass(frozen=True)
class Step:
    """A change of level: the nights before `at`, as far back as the last step, against those from `at` on."""

    at: int
    """Index of the first night on the new level."""
    p: float
    """One-sided, of the look that found it. It knows nothing of the other looks: see `look_level`."""


@dataclass(frozen=True)
class Noise:
    """What is known about the chance variation of a series from some nights before a look, all arrays alike."""

    trials: Floats
    """Variance of a night's mean, from the trials alone."""
    nights: Floats
    """Variance of the nights' own effects, which hit all cases of a night alike."""
    rho: Floats
    """Correlation of the effects of two nights that follow each other."""


class NightSums:
    """Running sums of a series, so that the moments of any stretch of its nights are differences of two of them.

    table: shape (nights, cases), each case's mean of a night, NaN where it is missing; values: (nights,), their
    adjusted means; cells: (nights,), graded trials of each night.
    """

    def __init__(self, table: Floats, values: Floats, cells: Floats) -> None:
        here = np.isfinite(table)
        filled = np.where(here, table, 0.0)
        self.values = values
        self.cells, self.shares = _running(cells), _running(1 / np.maximum(cells, 1))
        self.sums, self.squares = _running(values), _running(values**2)
        self.products = _running(values[1:] * values[:-1])
        self.case_counts, self.case_sums = _running(here.astype(np.float64)), _running(filled)
        self.case_squares = _running(filled**2)

    def noise(self, first: Ints, end: Ints) -> Noise:
        """Of the nights from `first` up to but not including `end`, at least `LEAST_BEFORE` of them.

        If the cases of a night were independent, the variance of its mean would be that of each case from night to
        night, over the number of cases. What the means vary more than that is the nights' own: a method of moments
        (Searle, Casella and McCulloch, Variance Components, 1992, chapter 3), whose trials' part has many degrees of
        freedom even after ten nights.

        Only the nights' own part can be correlated from night to night, so the lag-one autocorrelation of the means
        (as in Box and Jenkins, section 2.1.5), corrected for its bias (Kendall, Biometrika 41, 1954), is divided by
        the share of that part (Staudenmayer and Buonaccorsi, JASA 100, 2005, section 3.1). It is shrunk towards `RHO`
        with the precision of either, n * share^2 (Bartlett 1946) and `RHO_WEIGHT`, and is never under 0: a short
        history is taken to be correlated, and says otherwise only with evidence.
        """
        n = end - first
        mean = _between(self.sums, first, end) / n
        around = np.maximum(_between(self.squares, first, end) - n * mean**2, 0.0)
        spread = around / (n - 1)
        trials = self._of_trials(first, end)
        own = np.maximum(spread - trials, 0.0)
        share = np.divide(own, spread, out=np.zeros_like(own), where=spread > 0)
        ends = self.values[first] + self.values[end - 1]
        lagged = _between(self.products, first, end - 1) - mean * (2 * n * mean - ends) + (n - 1) * mean**2
        seen = np.divide(lagged, around, out=np.zeros_like(own), where=around > 1e-12)
        seen = np.clip(seen + (1 + 3 * np.clip(seen, 0, 1)) / n, -1, 1)
        rho = np.clip((n * share * seen + RHO_WEIGHT * RHO) / (n * share**2 + RHO_WEIGHT), 0, MOST_RHO)
        # A mean over correlated nights moves with them, so the spread around it is too small by this.
        kept = n / (n - 1) * (1 - variance_of_mean(n, rho))
        return Noise(trials, own / np.maximum(kept, 0.1), rho)

    def variance_of_change(
        self, first: Ints, end: Ints, k: Ints, known: tuple[Ints, Ints] | None = None
    ) -> tuple[Floats, Floats]:
        """Of the mean of the `k` nights from `end` on, less that of those from `first` to `end`; degrees of freedom.

        known: the nights that tell the noise; default: those from `first` to `end`.

        The trials of a night weigh by how many it has; the nights' own effects as `variance_of_mean` says, less what
        the nights before and after a step have in common. Degrees of freedom are Satterthwaite's (Biometrics Bulletin
        2, 1946): those of the nights' own part are the nights before less one, those of the trials are many.
        """
        since, until = known or (first, end)
        h, n = end - first, until - since
        noise = self.noise(since, until)
        usual = _between(self.shares, since, until) / n
        spread = _between(self.shares, first, end) / h**2 + _between(self.shares, end, end + k) / k**2
        trials = noise.trials * spread / usual
        alone = variance_of_mean(h, noise.rho) + variance_of_mean(k, noise.rho)
        nights = np.maximum(noise.nights * (alone - 2 * covariance_of_means(h, k, noise.rho)), 0.0)
        variance = trials + nights
        freedom = (n - 1) * (variance / np.maximum(nights, 1e-6 * variance)) ** 2
        return variance, np.minimum(freedom, 1e6)

    def _of_trials(self, first: Ints, end: Ints) -> Floats:
        counts = _between(self.case_counts, first, end)
        sums = _between(self.case_sums, first, end)
        around = np.maximum(_between(self.case_squares, first, end) - sums**2 / np.maximum(counts, 1), 0.0)
        known = counts >= 2
        variances = np.where(known, around / np.maximum(counts - 1, 1), 0.0)
        found = variances.sum(axis=-1) / np.maximum(known.sum(axis=-1), 1)
        # Where nothing has varied yet, one more trial may be the first that does (Laplace's rule of succession).
        cells = counts.sum(axis=-1)
        found = np.maximum(found, (cells + 1) / (cells + 2) ** 2)
        floored: Floats = found * (end - first) / np.maximum(cells, 1)
        return floored


def variance_of_mean(n: Floats | Ints, rho: Floats) -> Floats:
    """Of the mean of `n` values with variance 1 and autocorrelation rho^lag; its inverse is the effective sample size.

    (n (1 - rho^2) - 2 rho (1 - rho^n)) / (n (1 - rho))^2 (Bayley and Hammersley, JRSS Supplement 8, 1946).
    """
    found: Floats = (n * (1 - rho**2) - 2 * rho * (1 - rho**n)) / (n * (1 - rho)) ** 2
    return found


def covariance_of_means(n: Floats | Ints, k: Floats | Ints, rho: Floats) -> Floats:
    """Of the means of `n` and of the next `k` values of such a series: a double geometric sum over their lags."""
    found: Floats = rho * (1 - rho**n) * (1 - rho**k) / (n * k * (1 - rho) ** 2)
    return found


def look_level(nights: int) -> float:
    """The p-value below which a look after so many nights of a series finds a step.

    A series is looked at every night, so the level is stricter than that of one comparison. It was not derived but
    calibrated: `python -m tests.benchmarks.trend_alarms` measures the false alarms a year. Like an alpha-spending
    function (Lan and DeMets, Biometrika 70, 1983) it allows the few early looks more than each of the later ones.
    """
    done = min(1.0, max(0.0, (nights - EARLY) / (LATE - EARLY)))
    return float(LEVEL_OF_AN_EARLY_LOOK * (LEVEL_OF_A_LOOK / LEVEL_OF_AN_EARLY_LOOK) ** done)


def look_all(sums: NightSums, start: int, margin: float) -> tuple[Ints, Floats]:
    """After each number of nights, from 0 on: the nights on a new level, and p, which is 1 where there is none.

    The mean of the last k nights, k from 2 to 10, against that of up to 60 before them: a window-limited scheme (Lai,
    JRSS B 57, 1995, section 3) of Student's tests with the variance of `NightSums.variance_of_change`. The difference
    must be `margin` or more, two of the last nights must each be that far away, and all but the farthest half as far
    on average. Of the k that fulfil this, the one with the smallest p counts.

    m more failures among the last nights than before can be chance with a probability of about (k / (h + k))^m at the
    least, the most extreme of Fisher's tables; where cases are few, Student's p is smaller, and this one counts.
    """
    seen = np.arange(len(sums.values) + 1)
    after = np.tile(np.arange(LEAST_AFTER, MOST_AFTER + 1), (len(seen), 1))
    until = seen[:, None] - after
    since = np.maximum(start, until - MOST_BEFORE)
    enough = until - since >= LEAST_BEFORE
    p = np.ones(enough.shape)
    k, end, first = after[enough], until[enough], since[enough]
    if len(k):
        usual = _between(sums.sums, first, end) / (end - first)
        change = _between(sums.sums, end, end + k) / k - usual
        found = _p_of_change(sums, first, end, k, change)
        far = np.abs(change) >= margin - 1e-9
        p[enough] = np.where(far & _confirmed(sums.values, end, k, usual, change, margin), found, 1.0)
    best = p.argmin(axis=1)
    return after[seen, best], p[seen, best]


def _p_of_change(sums: NightSums, first: Ints, end: Ints, k: Ints, change: Floats) -> Floats:
    """One-sided, of `change` between the nights from `first` to `end` and the `k` after them."""
    found = _tail(change, *sums.variance_of_change(first, end, k))
    moved = np.abs(change) * _between(sums.cells, end, end + k)
    bounded: Floats = np.maximum(found, (k / (k + end - first)) ** moved)
    return bounded


def _confirmed(
    values: Floats, end: Ints, k: Ints, usual: Floats, change: Floats, margin: float
) -> npt.NDArray[np.bool_]:
    """Are two of the `k` nights from `end` on `margin` or more from `usual`, and half of it without the farthest?"""
    lags = np.arange(MOST_AFTER)
    within = lags < k[:, None]
    nights = values[np.where(within, end[:, None] + lags, end[:, None])]
    away = np.where(within, (nights - usual[:, None]) * np.sign(change)[:, None], -np.inf)
    beyond = (away >= margin - 1e-9).sum(axis=1) >= LEAST_AFTER
    others = k * np.abs(change) - away.max(axis=1)
    confirmed: npt.NDArray[np.bool_] = beyond & (others >= (k - 1) * margin / 2)
    return confirmed


def watch(
    table: Floats, values: Floats, cells: Floats, margin: float = MARGIN, share: float = 1.0, history: int = 0
) -> Iterator[tuple[Step, ...]]:
    """The steps that are known after each night, in order.

    Each night is looked at with what was known then, so that what is said about a night never depends on later ones,
    but for two things. While a level is young, its first night moves to where the change is clearest. And a level
    whose mean is back within `margin` of the level before never was one: the step is withdrawn. The nights between a
    step and its recovery stay in the history of later looks, which know from them how much nights can vary.

    share: of the false alarms, where several series share them; history: nights at the beginning that are not looked
    at, because older ones were left out. What is known of tonight must not depend on where the nights are cut off: a
    step after the first few of them would be new, though it was not found when it came.
    """
    sums = NightSums(table, values, cells)
    known: dict[int, tuple[Ints, Floats]] = {}
    past: list[Step] = []
    steps: list[Step] = []

    def look(start: int, end: int) -> Step | None:
        if start not in known:
            known[start] = look_all(sums, start, margin)
        after, p = (float(it[end]) for it in known[start])
        at = end - int(after)
        return Step(at, p) if p <= share * look_level(end) and at >= (past[-1].at if past else 0) else None

    for end in range(1, len(values) + 1):
        if steps and end - steps[-1].at >= LEAST_AFTER and abs(_rise(sums, steps, end)) < margin - 1e-9:
            steps.pop()
        found = look(steps[-1].at if steps else 0, end) if end >= history else None
        if found:
            steps.append(found)
        elif steps and (back := _recovery(sums, steps, end, margin)):
            past += [steps.pop(), back]
        elif steps and end - steps[-1].at <= MOST_AFTER:
            start = steps[-2].at if len(steps) > 1 else 0
            steps[-1] = look(start, end) or steps[-1]
        yield tuple(sorted([*past, *steps], key=lambda step: step.at))


def _recovery(sums: NightSums, steps: Sequence[Step], end: int, margin: float) -> Step | None:
    """The step back to the level before the last step, which may come before the new level has a history.

    The last nights must be within `margin` of the level before, and Student's test must tell them from the nights
    between, with the noise of the level before.
    """
    at = steps[-1].at
    start = max(steps[-2].at if len(steps) > 1 else 0, at - MOST_BEFORE)
    k = np.arange(LEAST_BACK, min(MOST_AFTER, end - at - LEAST_AFTER) + 1)
    if not len(k) or at - start < LEAST_BEFORE:
        return None
    low, split = np.full(len(k), at), end - k
    now = _between(sums.sums, split, split + k) / k
    change = now - _between(sums.sums, low, split) / (split - low)
    usual = (sums.sums[at] - sums.sums[start]) / (at - start)
    p = _tail(change, *sums.variance_of_change(low, split, k, (np.full(len(k), start), low)))
    back = (np.abs(now - usual) < margin) & (np.abs(change) >= margin) & (p <= LEVEL_OF_RECOVERY)
    best = int(np.where(back, p, 2.0).argmin())
    return Step(int(split[best]), float(p[best])) if back[best] else None


def _rise(sums: NightSums, steps: Sequence[Step], end: int) -> float:
    """Of the last level over the one before."""
    at, start = steps[-1].at, steps[-2].at if len(steps) > 1 else 0
    total = sums.sums
    return float((total[end] - total[at]) / (end - at) - (total[at] - total[start]) / (at - start))


def _tail(change: Floats, variance: Floats, freedom: Floats) -> Floats:
    """Student's, one-sided."""
    from scipy.special import stdtr

    found: Floats = stdtr(freedom, -np.abs(change) / np.sqrt(variance))
    return found


def _running(values: Floats) -> Floats:
    return np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])


def _between(running: Floats, first: Ints, end: Ints) -> Floats:
    found: Floats = running[end] - running[first]
    return found
