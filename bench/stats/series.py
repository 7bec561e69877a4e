"""Nightly series: one value a run, made comparable from night to night."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from bench.record import Record
from bench.stats.draws import Floats
from bench.stats.measures import Measure
from bench.stats.standing import Entrant, entrant_of, unique_cells

LEAST_COVERAGE = 0.8
"""The share of the cases that a night must have graded to be a point of the series."""


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
    digest: str
    mean: float
    """Over graded trials."""
    trials: int


def case_nights(records: Iterable[Record], measure: Measure, runs: str = "*") -> list[CaseNight]:
    """The graded cells of ranked agents in runs whose name matches the pattern `runs`, summed up by run and case."""
    groups: dict[tuple[Entrant, str, str, str, str, str], list[Record]] = defaultdict(list)
    for record in unique_cells(record for record in records if fnmatchcase(record.provenance.run, runs)):
        if record.agent.ranked and record.outcome == "graded":
            said = record.provenance
            key = (entrant_of(record), said.suite, said.suite_version, said.run, record.case.id, record.case.digest)
            groups[key].append(record)
    found = []
    for (who, suite, version, run, case, digest), group in groups.items():
        values = [value for record in group if (value := measure.value(record)) is not None]
        if values:
            ends = group[0].started, group[-1].started
            found.append(CaseNight(who, suite, version, run, *ends, case, digest, float(np.mean(values)), len(values)))
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
    return [point for point in points if point.digest == newest[point.case].digest]


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
