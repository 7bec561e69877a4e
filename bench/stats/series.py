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
from bench.stats.standing import Entrant, current, entrant_of, unique_cells

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


def nightly(records: Iterable[Record], measure: Measure, runs: str = "*", most: int = 90) -> list[Series]:
    """The series of every ranked agent, from runs whose name matches the pattern `runs`, the last `most` of each.

    Another version of the suite begins another series, and only results of the newest version of each case count.
    """
    groups: dict[tuple[Entrant, str], list[Record]] = defaultdict(list)
    for record in unique_cells(record for record in records if fnmatchcase(record.provenance.run, runs)):
        if record.agent.ranked and record.outcome == "graded":
            groups[entrant_of(record), record.provenance.suite].append(record)
    return [_series(who, suite, group, measure, most) for (who, suite), group in sorted(groups.items())]


def _series(entrant: Entrant, suite: str, records: list[Record], measure: Measure, most: int) -> Series:
    version = records[-1].provenance.suite_version
    by_run: dict[str, list[Record]] = defaultdict(list)
    for record in current([it for it in records if it.provenance.suite_version == version]):
        by_run[record.provenance.run].append(record)
    runs = sorted(by_run, key=lambda run: (by_run[run][0].started, run))[-most:]
    cases = sorted({record.case.id for run in runs for record in by_run[run]})
    table = np.array([_rates(by_run[run], cases, measure) for run in runs])
    full = np.isfinite(table).mean(axis=1) >= LEAST_COVERAGE
    kept = [run for run, enough in zip(runs, full, strict=True) if enough]
    values = adjusted(table[full])
    nights = [
        Night(run, by_run[run][0].started, float(value), len({r.case.id for r in by_run[run]}), len(by_run[run]))
        for run, value in zip(kept, values, strict=True)
    ]
    return Series(entrant, suite, version, nights, [run for run in runs if run not in set(kept)])


def _rates(records: Sequence[Record], cases: Sequence[str], measure: Measure) -> list[float]:
    values: dict[str, list[float]] = defaultdict(list)
    for record in records:
        value = measure.value(record)
        if value is not None:
            values[record.case.id].append(value)
    return [float(np.mean(values[case])) if case in values else np.nan for case in cases]


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
