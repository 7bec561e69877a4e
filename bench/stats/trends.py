"""Nightly series: one value a run, made comparable from night to night."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from bench.formats.record import Record
from bench.stats.intervals import SEED, Floats
from bench.stats.pairing import Measure
from bench.stats.standing import Entrant, entrant_of, unique_cells

LEAST_COVERAGE = 0.8
"""The share of the cases that a night must have graded to be a point of the series."""
LEAST_NIGHTS = 2
"""On each side of a step. One bad night is not a step: a second one must confirm it."""
ALPHA = 0.005
"""The level of each look. A series is looked at every night, so it is stricter than that of one comparison."""
MARGIN = 0.05
# With the series itself 5,000: the smallest p-value is a 25th of ALPHA.
_DRAWS = 4_999


@dataclass(frozen=True)
class Night:
    """One point."""

    run: str
    started: str
    value: float
    """Mean over cases, adjusted for those that this night lacks."""
    cases: int
    trials: int
    """Graded cells."""


@dataclass(frozen=True)
class Series:
    """One agent with its models on one version of a suite."""

    entrant: Entrant
    suite: str
    version: str
    nights: Sequence[Night]
    """In order of time."""
    thin: Sequence[str]
    """Runs that graded too few of the cases to be a point."""

    @property
    def values(self) -> Floats:
        return np.array([night.value for night in self.nights], dtype=np.float64)


@dataclass(frozen=True)
class CaseNight:
    """What one agent with its models did on one case in one run."""

    entrant: Entrant
    suite: str
    version: str
    """Of the suite."""
    run: str
    first: str
    """Start of its first trial."""
    last: str
    case: str
    case_version: str
    """See `Record.case_version`."""
    mean: float
    """Over graded trials."""
    trials: int


def case_nights(records: Iterable[Record], measure: Measure, runs: str = "*") -> list[CaseNight]:
    """The graded cells of ranked agents in runs whose name matches the pattern `runs`, summed up by run and case."""
    groups: dict[tuple[Entrant, str, str, str, str, str], list[Record]] = defaultdict(list)
    for record in unique_cells(record for record in records if fnmatchcase(record.provenance.run, runs)):
        if record.agent.ranked and record.outcome == "graded":
            said = record.provenance
            key = (entrant_of(record), said.suite, said.suite_version, said.run, record.case.id, record.case_version)
            groups[key].append(record)
    found = []
    for (who, suite, version, run, case, case_version), group in groups.items():
        values = [value for record in group if (value := measure.value(record)) is not None]
        if values:
            ends = group[0].started, group[-1].started
            mean = float(np.mean(values))
            found.append(CaseNight(who, suite, version, run, *ends, case, case_version, mean, len(values)))
    return found


def nightly(points: Iterable[CaseNight], most: int = 90) -> list[Series]:
    """The series of every agent, the last `most` nights of each.

    Another version of the suite begins another series, and only results of the newest version of each case count.
    """
    groups: dict[tuple[Entrant, str], list[CaseNight]] = defaultdict(list)
    for point in points:
        groups[point.entrant, point.suite].append(point)
    return [_series(who, suite, group, most) for (who, suite), group in sorted(groups.items())]


def _series(entrant: Entrant, suite: str, points: list[CaseNight], most: int) -> Series:
    version = max(points, key=lambda it: (it.last, it.run)).version
    by_run: dict[str, list[CaseNight]] = defaultdict(list)
    for point in _current([it for it in points if it.version == version]):
        by_run[point.run].append(point)
    started = {run: min(it.first for it in group) for run, group in by_run.items()}
    runs = sorted(by_run, key=lambda run: (started[run], run))[-most:]
    cases = sorted({it.case for run in runs for it in by_run[run]})
    rates = [{it.case: it.mean for it in by_run[run]} for run in runs]
    table = np.array([[rate.get(case, np.nan) for case in cases] for rate in rates])
    full = np.isfinite(table).mean(axis=1) >= LEAST_COVERAGE
    kept = [run for run, enough in zip(runs, full, strict=True) if enough]
    values = adjusted(table[full])
    nights = [
        Night(run, started[run], float(value), len(by_run[run]), sum(it.trials for it in by_run[run]))
        for run, value in zip(kept, values, strict=True)
    ]
    return Series(entrant, suite, version, nights, [run for run in runs if run not in set(kept)])


def _current(points: list[CaseNight]) -> list[CaseNight]:
    """Those of the newest version of each case."""
    newest: dict[str, CaseNight] = {}
    for point in points:
        if point.case not in newest or point.last > newest[point.case].last:
            newest[point.case] = point
    return [point for point in points if point.case_version == newest[point.case].case_version]


def adjusted(table: Floats) -> Floats:
    """(nights,): the mean of each night over cases, from `table`, shape (nights, cases), with NaN for what is missing.

    A night without a hard case would look better than it was. So each case's own mean over the nights is taken away
    before averaging, and the mean of those means is given back: two-way analysis without interaction, one step.
    """
    if not len(table):
        return np.zeros(0)
    table = table[:, np.isfinite(table).any(axis=0)]
    usual = np.nanmean(table, axis=0)
    values: Floats = np.nanmean(table - usual, axis=1) + usual.mean()
    return values


@dataclass(frozen=True)
class Step:
    """A change of level: the nights before `at`, as far back as the last step, against those from `at` on."""

    at: int
    """Index of the first night on the new level."""
    p: float


@dataclass(frozen=True)
class Level:
    """Nights without a step between them: those from `first` up to but not including `end`."""

    first: int
    end: int
    mean: float
    p: float
    """Of the step that began it; 1 for the first level."""


@dataclass(frozen=True)
class Drop:
    """A confirmed step down that has not been made good since."""

    since: int
    """Index of the first night after the step."""
    before: float
    now: float
    p: float


def find_steps(values: Floats, alpha: float = ALPHA) -> list[Step]:
    """The steps of a series, shape (nights,).

    Binary segmentation (Scott and Knott, Biometrics 30, 1974; Vostrikova, 1981): the split with the largest CUSUM
    statistic sqrt(k (n - k) / n) |mean before - mean after| (Page, Biometrika 42, 1955) is a step when fewer than
    alpha of the series' permutations have as large a one (Antoch and Huskova, Statistics and Probability Letters 53,
    2001), and both sides are then searched alike. It is what E-divisive does (Matteson and James, JASA 109, 2014, in
    continuous integration: Daly et al., ICPE 2020), for changes of the mean alone. Taking the largest over all splits
    is part of what is permuted, so having looked at every night costs nothing in validity. Nights are taken to be
    independent.
    """
    found = _segment(values, 0, len(values), alpha)
    return sorted(found, key=lambda step: step.at)


def find_levels(values: Floats, found: Sequence[Step]) -> list[Level]:
    """The stretches between the steps."""
    starts = [0, *(step.at for step in found)]
    ends = [*starts[1:], len(values)]
    chances = [1.0, *(step.p for step in found)]
    return [
        Level(first, end, float(values[first:end].mean()), p)
        for first, end, p in zip(starts, ends, chances, strict=True)
        if end > first
    ]


def standing_drop(stretches: Sequence[Level], margin: float = MARGIN) -> Drop | None:
    """The drop by `margin` or more that still stands at the end of the series.

    A drop lasts until the level is back within `margin` of where it was before. Smaller changes of level move the
    reference along.
    """
    drop: Drop | None = None
    usual = stretches[0].mean if stretches else 0.0
    for level in stretches[1:]:
        if drop is None and level.mean <= usual - margin:
            drop = Drop(level.first, usual, level.mean, level.p)
        elif drop is None or level.mean > drop.before - margin:
            drop, usual = None, level.mean
        else:
            drop = Drop(drop.since, drop.before, level.mean, drop.p)
    return drop


def _segment(values: Floats, first: int, end: int, alpha: float) -> list[Step]:
    part = values[first:end]
    if len(part) < 2 * LEAST_NIGHTS or np.ptp(part) == 0:
        return []
    split, statistic = _best_split(part[None, :])
    # Seeded by where it is, so that a stretch gives the same p-value whatever was found around it.
    rng = np.random.default_rng([SEED, first, end])
    others = _best_split(rng.permuted(np.tile(part, (_DRAWS, 1)), axis=1))[1]
    p = (1 + int((others >= statistic[0] - 1e-12).sum())) / (1 + _DRAWS)
    if p >= alpha:
        return []
    at = first + int(split[0])
    return [*_segment(values, first, at, alpha), Step(at, p), *_segment(values, at, end, alpha)]


def _best_split(rows: Floats) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], Floats]:
    """For each row of (rows, nights): where the CUSUM is largest, and how large."""
    n = rows.shape[1]
    k = np.arange(LEAST_NIGHTS, n - LEAST_NIGHTS + 1)
    sums = np.cumsum(rows, axis=1)
    before = sums[:, k - 1]
    total = sums[:, -1:]
    size = np.abs(before / k - (total - before) / (n - k)) * np.sqrt(k * (n - k) / n)
    best = size.argmax(axis=1)
    return k[best], size[np.arange(len(rows)), best]
