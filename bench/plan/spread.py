"""How far the time of a cell may lie from what is expected of it, and so when a machine is done with its cells.

The logarithm of a cell's seconds is taken as the sum of a centre of its case, a shift that all cells of one run share,
and a residual of its own (a random-effects model: Searle, Casella and McCulloch, Variance Components, 1992, chapter 3).
Residuals are drawn from those that history shows, so that no shape is assumed; what is known of the centre has an error
that all trials of the case share. The draws are of future times: a prediction (Hahn and Meeker, Statistical Intervals,
1991, chapter 1), which is wider than an interval of the mean.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Group: TypeAlias = tuple[str, str, str, str]
"""Agent id, models, case id, profile."""
DRAWS = 1_000
"""Simulated nights. The chance of being late is then known within 0.5 points."""
_AIMED = 0.975
"""The quantile of simulated nights by which 95% of true ones are over: history is a sample, tails are longer."""
_SEED = 20261122
_POINTS = 64
# Where no cell was met twice: the spread of real agents' times is mostly below it.
_USUAL_SD = 0.5
# A sample of residuals weighs as much as so many of the others' when it is of this size.
_BORROWED = 4
_UNKNOWN_CASE_SD = 1.0
# Two nights of this standard deviation count beside those of history: few nights do not prove that nights are alike.
_USUAL_SHIFT, _USUAL_NIGHTS = 0.1, 2
_LEAST_S = 1e-3


class Seen(NamedTuple):
    """The time of one graded cell."""

    seconds: float
    share: float
    """Of its time limits."""
    run: str


@dataclass(frozen=True)
class Spread:
    """The distribution of a cell's seconds, by their logarithm."""

    group: str
    """Cells of one group share what is not known of the centre."""
    centre: float
    error: float
    """Standard deviation of the centre."""
    residuals: Floats
    """(_POINTS,): equally likely."""
    shift: float
    """Standard deviation between runs."""
    most: float = math.inf
    """Seconds that the limits allow."""


@dataclass(frozen=True)
class Spreads:
    """What history says of times: per exact group (agent, models, case, profile)."""

    logs: Mapping[Group, Floats]
    """Centred by group, without the shifts of the runs, and inflated for the mean that was taken out."""
    centres: Mapping[Group, float]
    pool: Floats
    shift: float

    @classmethod
    def of(cls, seen: Mapping[Group, Sequence[Seen]]) -> Spreads:
        """Learn from times by group."""
        taken = {key: np.log(np.maximum([it.seconds for it in found], _LEAST_S)) for key, found in seen.items()}
        centres = {key: float(values.mean()) for key, values in taken.items()}
        centred = {key: values - centres[key] for key, values in taken.items()}
        shift, shifts = _shifts(centred, {key: [it.run for it in found] for key, found in seen.items()})
        logs = {}
        for key, values in centred.items():
            n = len(values)
            rest = values - np.array([shifts.get(it.run, 0.0) for it in seen[key]])
            logs[key] = (rest - rest.mean()) * math.sqrt(n / (n - 1)) if n > 1 else np.zeros(0)
        usual = [_USUAL_SD * NormalDist().inv_cdf((it + 0.5) / 5) for it in range(5)]
        return cls(logs, centres, np.sort(np.concatenate([usual, *logs.values()])), shift)

    def exact(self, key: Group, whole: float, longest: float) -> Spread:
        """Of a group that was met; whole: its time limits in seconds; longest: that it ever took."""
        own = self.logs[key]
        met = max(1, len(own))
        weight = max(0, met - 1) / (met - 1 + _BORROWED)
        residuals = _mixed(own, self.pool, weight)
        error = math.hypot(float(residuals.std()), self.shift) / math.sqrt(met)
        # Preparing is not under the limits, hence the half on top; limits that were passed bound nothing.
        most = 1.5 * whole if longest <= whole else math.inf
        return Spread(str(key), self.centres[key], error, residuals, self.shift, most)

    def other(self, group: str, like: Sequence[float], whole: float, scale: float = 1.0) -> Spread:
        """Of a case that only others of its kind were `like` (seconds, or shares of `scale` seconds)."""
        logs = np.log(np.maximum(like, _LEAST_S / scale))
        n = len(logs)
        between = float(logs.std(ddof=1)) if n > 2 else _UNKNOWN_CASE_SD
        error = between * math.sqrt(1 + 1 / n)
        residuals = _mixed(np.zeros(0), self.pool, 0.0)
        return Spread(group, float(logs.mean()) + math.log(scale), error, residuals, self.shift, 1.5 * whole)

    def sure(self, group: str, seconds: float) -> Spread:
        """All of its limits, which is the only thing known of a cell that no one met."""
        return Spread(group, math.log(max(seconds, _LEAST_S)), 0.0, np.zeros(_POINTS), 0.0)


def _shifts(centred: Mapping[Group, Floats], runs: Mapping[Group, Sequence[str]]) -> tuple[float, dict[str, float]]:
    """The standard deviation between runs by the method of moments, and each run's shrunken shift."""
    by_run: dict[str, list[float]] = defaultdict(list)
    for key, values in centred.items():
        if len(values) > 1:
            for run, value in zip(runs[key], values, strict=True):
                by_run[run].append(float(value))
    large = {run: np.array(values) for run, values in by_run.items() if len(values) > 1}
    if len(large) < 3:
        return _USUAL_SHIFT, {}
    within = float(np.mean(np.concatenate([(values - values.mean()) ** 2 for values in large.values()])))
    n = len(large)
    moments = np.array([values.mean() ** 2 - within / len(values) for values in large.values()])
    # The runs' shifts were centred with their groups, which costs one of n degrees of freedom.
    variance = max(0.0, float(moments.mean()) * n / (n - 1))
    predicted = math.sqrt((variance * n + _USUAL_SHIFT**2 * _USUAL_NIGHTS) / (n + _USUAL_NIGHTS))
    if variance == 0:
        return predicted, {}
    shifts = {run: float(it.mean()) * variance / (variance + within / len(it)) for run, it in large.items()}
    return predicted, shifts


def _mixed(own: Floats, pool: Floats, weight: float) -> Floats:
    """Quantiles of a mixture: `weight` of the sample `own`, the rest of `pool`."""
    values = np.concatenate([own, pool])
    weights = np.concatenate(
        [np.full(len(own), weight / max(1, len(own))), np.full(len(pool), (1 - weight) / len(pool))]
    )
    order = np.argsort(values)
    places = np.cumsum(weights[order]) - weights[order] / 2
    found: Floats = np.interp((np.arange(_POINTS) + 0.5) / _POINTS, places, values[order])
    centred: Floats = found - found.mean()
    return centred


class Nights:
    """Simulated nights: what is shared between cells is drawn once, whatever machine they are on."""

    def __init__(self) -> None:
        self._shift: Floats = np.random.default_rng([_SEED, 0]).standard_t(8, DRAWS)
        self._errors: dict[str, Floats] = {}

    def finish(self, cells: Sequence[tuple[str, float, Spread | None]], slots: int) -> Floats:
        """(DRAWS,): seconds until the last of `cells` is done, each started in turn when one of `slots` is free.

        cells: name, seconds where nothing is known of their spread, and the spread.
        """
        free = np.zeros((DRAWS, slots))
        rows = np.arange(DRAWS)
        for name, seconds, spread in cells:
            took = self._times(name, spread) if spread is not None else seconds
            if slots == 1:
                free[:, 0] += took
            else:
                free[rows, free.argmin(axis=1)] += took
        last: Floats = free.max(axis=1)
        return last

    def _times(self, name: str, spread: Spread) -> Floats:
        logs = spread.centre + spread.shift * self._shift
        if spread.error:
            logs = logs + spread.error * self._error(spread.group)
        drawn = np.random.default_rng([_SEED, 1, zlib.crc32(name.encode())]).integers(0, _POINTS, DRAWS)
        found: Floats = np.minimum(np.exp(logs + spread.residuals[drawn]), spread.most)
        return found

    def _error(self, group: str) -> Floats:
        if group not in self._errors:
            rng = np.random.default_rng([_SEED, 2, zlib.crc32(group.encode())])
            # Student's t, as the spread itself is an estimate of few cells.
            self._errors[group] = rng.standard_t(8, DRAWS)
        return self._errors[group]


def promised_seconds(finish: Floats) -> float:
    """The time that 95% of the nights keep, even where history was lucky."""
    sure = float(finish.min()) == float(finish.max())
    return float(finish[0] if sure else np.quantile(finish, _AIMED, method="higher"))
