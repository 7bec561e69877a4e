"""What a night does to all of its trials: which nights there are, and how a difference is freed of them.

A provider's bad day moves every trial of a night together, so that more trials of that night do not tell it from a
change of the agent. A base arm of the same night does, or the known spread between nights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bench.formats.record import Record
from bench.stats.intervals import DRAWS, SEED, Floats

GAP = timedelta(hours=6)
LONGEST = timedelta(hours=24)
DEFAULT_SD = 0.6
"""Of the effect of a night on the logit of a chance of success, where too few nights are known to estimate it."""
DEFAULT_RATIO_SD = 0.2
"""The same on the logarithm of cost, tokens and time."""
LEAST_NIGHTS = 5
"""Of one side, to estimate the spread between nights."""
_LEAST_COVERAGE = 0.5
_TINY = 1e-12
Counts = npt.NDArray[np.int64]


def tell_nights(records: Sequence[Record]) -> list[str]:
    """The night of each record, named by the day of its first start (UTC).

    A night begins where no cell was started for 6 hours before (`GAP`), and at the first cell that starts 24 hours
    (`LONGEST`) or more after the first of the night. Names of runs play no part: two arms that ran side by side share
    a night whatever they were called, and a run that was resumed on another day has two.
    """
    order = sorted(range(len(records)), key=lambda at: records[at].started)
    starts = [datetime.fromisoformat(records[at].started.removesuffix("Z")) for at in order]
    names = [""] * len(records)
    name, known = "", -1
    for at, start, night in zip(order, starts, number_nights([(start, start) for start in starts]), strict=True):
        if night > known:
            day = start.date().isoformat()
            name, known = day if not name.startswith(day) else f"{day} {start:%H:%M}", night
        names[at] = name
    return names


def number_nights(spans: Sequence[tuple[datetime, datetime]]) -> list[int]:
    """The night of each of `spans`, from 0 on: the first and the last start of some cells, by their first start."""
    found: list[int] = []
    first = last = datetime.min
    for start, end in spans:
        if not found or start - last > GAP or start - first >= LONGEST:
            found.append(found[-1] + 1 if found else 0)
            first, last = start, end
        else:
            found.append(found[-1])
            last = max(last, end)
    return found


@dataclass(frozen=True)
class NightError:
    """What nights add to the error of a mean difference, and how well that is known."""

    sd: float = 0.0
    """0: both sides met the same nights, in the same shares."""
    freedom: float = np.inf
    """Degrees of freedom behind `sd`; infinite for the stated default."""

    def quantile(self, chance: float) -> float:
        """Of the error: Student's t where the spread was estimated, else normal."""
        from scipy.special import ndtri, stdtrit

        if not self.sd:
            return 0.0
        return self.sd * float(ndtri(chance) if np.isinf(self.freedom) else stdtrit(self.freedom, chance))

    def chance(self, errors: Floats) -> Floats:
        """That the error is at most each of `errors`; `sd` must not be 0."""
        from scipy.special import ndtr, stdtr

        scores = errors / self.sd
        found: Floats = ndtr(scores) if np.isinf(self.freedom) else stdtr(self.freedom, scores)
        return found

    def draws(self) -> Floats:
        """(DRAWS,): errors in a random order, always the same, that are spread evenly over their distribution."""
        return self.sd * _even_draws(self.freedom)


@lru_cache(maxsize=8)
def _even_draws(freedom: float) -> Floats:
    from scipy.special import ndtri, stdtrit

    chances = np.random.default_rng(SEED).permutation(np.arange(DRAWS) + 0.5) / DRAWS
    found: Floats = ndtri(chances) if np.isinf(freedom) else stdtrit(freedom, chances)
    found.setflags(write=False)
    return found


NO_ERROR = NightError()


def night_weights(base: Floats, head: Floats, noise: float, spread: float) -> tuple[Floats, Floats]:
    """The weight of each night in the mean of base and of head; each sums to 1.

    base, head: shape (nights,), trials a case in each night. noise: variance that one trial a case leaves in the mean
    over cases. spread: standard deviation between nights of that mean. Best linear unbiased weights of the mixed model
    with a fixed effect for each side and a random one for each night (Henderson, Biometrics 31, 1975; Searle, Casella
    and McCulloch, Variance Components, 1992, section 7.4): they minimise sum a^2 noise / trials + spread^2
    sum (a_head - a_base)^2. Without a spread every trial counts alike; with a large one only nights that both sides
    share count, where there are any. Weights below 0 are set to 0.
    """
    at_base, at_head = np.flatnonzero(base > 0), np.flatnonzero(head > 0)
    k, n = len(at_base), len(at_base) + len(at_head)
    square = spread * spread
    scale = max(noise, square, _TINY)
    matrix = np.zeros((n + 2, n + 2))
    # A trace of noise keeps the equations solvable where all trials agree.
    error = max(noise, 1e-6 * scale)
    matrix[:n, :n] = np.diag(np.concatenate([error / base[at_base], error / head[at_head]])) / scale
    of_base, of_head = np.arange(k), np.arange(k, n)
    matrix[of_base, of_base] += square / scale
    matrix[of_head, of_head] += square / scale
    shared = at_base[:, None] == at_head[None, :]
    matrix[:k, k:n] -= shared * square / scale
    matrix[k:n, :k] -= shared.T * square / scale
    matrix[:k, n] = matrix[n, :k] = 1.0
    matrix[k:n, n + 1] = matrix[n + 1, k:n] = 1.0
    solved = np.linalg.solve(matrix, np.concatenate([np.zeros(n), [1.0, 1.0]]))[:n]
    found = np.zeros(len(base)), np.zeros(len(head))
    for weights, places, part in ((found[0], at_base, solved[:k]), (found[1], at_head, solved[k:])):
        positive = np.maximum(part, 0.0)
        weights[places] = positive / positive.sum()
    return found


@dataclass(frozen=True)
class Table:
    """The trials of one side, as sums; every array has shape (cases, nights)."""

    counts: Counts
    means: Floats
    """0 where there is no trial."""

    @property
    def nights(self) -> Floats:
        """(nights,): trials a case."""
        found: Floats = self.counts.mean(axis=0)
        return found

    def weighted(self, weights: Floats) -> tuple[Floats, Floats]:
        """(cases,): each case's mean; (cases, nights): the weights that made it, as a case may lack some nights."""
        own = np.where(self.counts > 0, weights, 0.0)
        lacking = own.sum(axis=1) <= _TINY
        own[lacking] = self.counts[lacking]
        own /= own.sum(axis=1, keepdims=True)
        return (own * self.means).sum(axis=1), own

    def effective(self, weights: Floats) -> Floats:
        """(cases,): the number of trials that a mean with these weights, shape (cases, nights), is worth."""
        found: Floats = 1 / (weights**2 / np.maximum(self.counts, 1)).sum(axis=1)
        return found


def night_levels(values: Floats) -> Floats:
    """(nights,): how far each night lies from the others, from `values`, shape (cases, nights), NaN where missing.

    Each case's own mean is taken away first, as a night without a hard case would look better than it was. Nights that
    lack half of the cases or more are left out.
    """
    seen = np.isfinite(values)
    values = values[:, seen.mean(axis=0) > _LEAST_COVERAGE]
    values = values[np.isfinite(values).any(axis=1)]
    if values.shape[1] < 2:
        return np.zeros(0)
    levels: Floats = np.nanmean(values - np.nanmean(values, axis=1, keepdims=True), axis=0)
    return levels


def spread_of(levels: Floats) -> NightError | None:
    """The standard deviation between nights; None for fewer than `LEAST_NIGHTS`.

    What trials add to it is not taken away: the difference of two uncertain variances is 0 too often, and 0 would
    make a bad night a regression.
    """
    n = len(levels)
    return NightError(float(levels.std(ddof=1)), n - 1) if n >= LEAST_NIGHTS else None


def default_spread(successes: Floats, trials: Floats) -> NightError:
    """What a night with `DEFAULT_SD` does to the mean of chances; `successes` of `trials`, shape (cases,), 2 or more.

    A chance p moves by p (1 - p) for a unit of its logit, which is estimated without bias by k (n - k) / (n (n - 1)).
    """
    slope = float((successes * (trials - successes) / (trials * np.maximum(trials - 1, 1))).mean())
    return NightError(DEFAULT_SD * slope)
