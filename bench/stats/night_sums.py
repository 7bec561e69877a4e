"""How much a nightly series varies by chance: its trials, its nights, and the correlation between nights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.stats.intervals import Floats

Ints = npt.NDArray[np.int64]
LEAST_BEFORE = 9
"""Nights that are needed to tell the noise."""
RHO = 0.7
"""What the autocorrelation of the nights is taken for before the series tells."""
RHO_WEIGHT = 20.0
"""The nights that this is worth, so that its standard error is 0.22."""
MOST_RHO = 0.9
# Below this, events are so many that counting them is the normal test.
_LEAST_SKEWED = 0.01
_TINY = 1e-12


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
        mean = between_nights(self.sums, first, end) / n
        around = np.maximum(between_nights(self.squares, first, end) - n * mean**2, 0.0)
        spread = around / (n - 1)
        trials = self._of_trials(first, end)
        own = np.maximum(spread - trials, 0.0)
        share = np.divide(own, spread, out=np.zeros_like(own), where=spread > 0)
        ends = self.values[first] + self.values[end - 1]
        lagged = between_nights(self.products, first, end - 1) - mean * (2 * n * mean - ends) + (n - 1) * mean**2
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
        usual = between_nights(self.shares, since, until) / n
        spread = between_nights(self.shares, first, end) / h**2 + between_nights(self.shares, end, end + k) / k**2
        trials = noise.trials * spread / usual
        alone = variance_of_mean(h, noise.rho) + variance_of_mean(k, noise.rho)
        nights = np.maximum(noise.nights * (alone - 2 * covariance_of_means(h, k, noise.rho)), 0.0)
        variance = trials + nights
        freedom = (n - 1) * (variance / np.maximum(nights, 1e-6 * variance)) ** 2
        return variance, np.minimum(freedom, 1e6)

    def p_of_events(self, first: Ints, end: Ints, k: Ints, change: Floats, variance: Floats) -> Floats:
        """One-sided, of `change` between the nights from `first` to `end` and the `k` after them, counted as events.

        variance: of the change, as `variance_of_change` has it.
        The means of a few trials that nearly always succeed are skewed: failures come as Poisson's do, and few of them
        before say little of how many are usual. Given their number in all, those after the step are binomial with the
        share of the nights, k / (h + k) (Przyborowski and Wilenski, Biometrika 31, 1940). Where successes are less
        sure, an event moves the mean by less than a trial does, as far as its variance and its skewness ask for: then
        events are many, and this comes to the normal test. Without failures before it is (k / (h + k))^events.
        """
        from scipy.special import betainc

        h = end - first
        cells = between_nights(self.cells, end, end + k) / k
        counts = between_nights(self.case_counts, first, end)
        rates = between_nights(self.case_sums, first, end) / np.maximum(counts, 1)
        uncertain = rates * (1 - rates)
        usual = uncertain.sum(axis=-1)
        # 1: rare events against the change; 0: as often with it; below: rare ones with it, which make it less likely.
        rare = (uncertain * (1 - 2 * rates)).sum(axis=-1) * np.sign(change)
        skewed = np.divide(rare, usual, out=np.ones_like(usual), where=usual > _TINY)
        trials = self._of_trials(first, end)
        # Partial scores vary less than successes do, and their skewness is less by as much.
        varied = np.divide(trials * cells * rates.shape[-1], usual, out=np.ones_like(usual), where=usual > _TINY)
        skewed = np.clip(skewed * np.minimum(varied, 1), _LEAST_SKEWED, 1)
        # What nights add comes in clusters, as if there were as many times fewer events.
        clusters = np.maximum(variance / (trials * (1 / h + 1 / k)), 1)
        before = trials * h * (cells / skewed) ** 2
        after = before * k / h + np.abs(change) * k * cells / skewed
        found: Floats = betainc(after / clusters, before / clusters + 1, k / (h + k))
        return found

    def _of_trials(self, first: Ints, end: Ints) -> Floats:
        counts = between_nights(self.case_counts, first, end)
        sums = between_nights(self.case_sums, first, end)
        around = np.maximum(between_nights(self.case_squares, first, end) - sums**2 / np.maximum(counts, 1), 0.0)
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


def _running(values: Floats) -> Floats:
    return np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])


def between_nights(running: Floats, first: Ints, end: Ints) -> Floats:
    """The sum of the nights from `first` to `end`, from running sums."""
    found: Floats = running[end] - running[first]
    return found
