"""Nightly series: one value a night, made comparable from one to the next, and the levels between their steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase

import numpy as np

from bench.formats.record import Record
from bench.stats.entrants import Entrant, entrant_of, unique_cells
from bench.stats.intervals import Floats
from bench.stats.night_points import CaseNight, NightPoints
from bench.stats.night_sums import Ints
from bench.stats.nights import number_nights
from bench.stats.pairing import Measure
from bench.stats.steps import MARGIN, Step

LEAST_COVERAGE = 0.8
"""The share of the cases that a night must have graded to be a point of the series."""


@dataclass(frozen=True)
class Night:
    """One point."""

    run: str
    """Of several in one night, the one that began first."""
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
    cases: Sequence[str]
    """Identifiers, in their order: the columns of `table`."""
    categories: Sequence[str]
    """Of each case."""
    from_start: bool
    """Is its first night here? Otherwise older nights were left out."""
    table: Floats = field(compare=False, repr=False)
    """(nights, cases): each case's mean, NaN where it was not graded."""
    trials: Floats = field(compare=False, repr=False)
    """(nights, cases): its graded trials."""

    @property
    def values(self) -> Floats:
        return np.array([night.value for night in self.nights], dtype=np.float64)

    @property
    def cells(self) -> Floats:
        """(nights,): graded trials of all cases."""
        found: Floats = self.trials.sum(axis=1)
        return found


def case_nights(records: Iterable[Record], measure: Measure, runs: str = "*") -> NightPoints:
    """The graded cells of ranked agents in runs whose name matches the pattern `runs`, summed up by run and case.

    Of a run whose arms are two versions of one agent, head alone counts: it is what the agent has become, and the mean
    of both would show half of every step. Where both arms are one version, both count.
    """
    groups: dict[tuple[Entrant, str, str, str, str, str], list[Record]] = defaultdict(list)
    unique = unique_cells(record for record in records if fnmatchcase(record.provenance.run, runs))
    heads: dict[tuple[str, Entrant], set[str]] = defaultdict(set)
    for record in unique:
        if record.arm == "head":
            heads[record.provenance.run, entrant_of(record)].add(record.agent.digest)
    for record in unique:
        of_head = heads.get((record.provenance.run, entrant_of(record)), set()) if record.arm == "base" else set()
        if record.competes and record.outcome == "graded" and (not of_head or record.agent.digest in of_head):
            said = record.provenance
            key = (entrant_of(record), said.suite, said.suite_version, said.run, record.case.id, record.case_version)
            groups[key].append(record)
    found = []
    for (who, suite, version, run, case, case_version), group in groups.items():
        values = [value for record in group if (value := measure.value(record)) is not None]
        if values:
            ends = group[0].started, group[-1].started
            mean = float(np.mean(values))
            category = group[-1].case.category
            found.append(CaseNight(who, suite, version, run, *ends, case, case_version, mean, len(values), category))
    return NightPoints.of(found)


def nightly(points: NightPoints, most: int = 90) -> list[Series]:
    """The series of every agent, from the last `most` runs of each.

    Another version of the suite begins another series, and only results of the newest version of each case count. Runs
    of one night, as `compare` tells nights (`number_nights`), are one point: what is bad about a night is bad for all
    of them, so that a second run of it confirms no step.
    """
    return [_series(them, most) for them in points.by_series()]


def _series(every: NightPoints, most: int) -> Series:
    """`every`: of one entrant on one suite."""
    newest = np.lexsort((every.run.at, every.last))[-1]
    points = _current(every.rows(every.version.at == every.version.at[newest]))
    # Run by run in the order of time; of two that began together by name.
    runs, place = np.unique(points.run.at, return_inverse=True)
    started, ended = np.full(len(runs), np.iinfo(np.int64).max), np.zeros(len(runs), dtype=np.int64)
    np.minimum.at(started, place, points.first)
    np.maximum.at(ended, place, points.last)
    chosen = np.lexsort((runs, started))[-most:]
    night_of = _nights_of(points, started[chosen], ended[chosen])
    first = np.unique(night_of, return_index=True)[1]
    row_of_run = np.full(len(runs), -1)
    row_of_run[chosen] = night_of
    rows = row_of_run[place]
    points, rows = points.rows(rows >= 0), rows[rows >= 0]
    cases, columns = np.unique(points.case.at, return_inverse=True)
    table, trials = _means(points, rows, columns, (len(first), len(cases)))
    full = np.isfinite(table).mean(axis=1) >= LEAST_COVERAGE
    names = [points.run.texts[it] for it in runs[chosen[first]]]
    starts = [points.instant(it) for it in started[chosen[first]].tolist()]
    graded, sums = np.isfinite(table).sum(axis=1).tolist(), trials.sum(axis=1).tolist()
    kept = zip(np.flatnonzero(full).tolist(), adjusted(table[full]).tolist(), strict=True)
    return Series(
        every.entrants[every.entrant[0]],
        every.suite[0],
        every.version[newest],
        [Night(names[it], starts[it], value, graded[it], int(sums[it])) for it, value in kept],
        thin=[name for name, enough in zip(names, full, strict=True) if not enough],
        cases=[points.case.texts[it] for it in cases],
        categories=_categories(every, cases),
        from_start=len(chosen) < most,
        table=table[full],
        trials=trials[full],
    )


def _nights_of(points: NightPoints, started: Ints, ended: Ints) -> Ints:
    """The night of each run, from 0 on; by their first and last starts, in the order of the first."""
    spans = [
        (datetime.fromisoformat(points.instant(start)), datetime.fromisoformat(points.instant(end)))
        for start, end in zip(started.tolist(), ended.tolist(), strict=True)
    ]
    return np.array(number_nights(spans), dtype=np.int64)


def _means(points: NightPoints, rows: Ints, columns: Ints, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """(nights, cases), each: the mean over trials, NaN without one; their number."""
    table, trials = np.zeros(shape), np.zeros(shape)
    np.add.at(trials, (rows, columns), points.trials)
    np.add.at(table, (rows, columns), points.mean * (points.trials / trials[rows, columns]))
    table[trials == 0] = np.nan
    return table, trials


def _current(points: NightPoints) -> NightPoints:
    """Those of the newest version of each case; of versions as new as each other that which comes first."""
    order = np.lexsort((-np.arange(len(points)), points.last))
    newest = np.zeros(len(points.case.texts), dtype=np.int64)
    newest[points.case.at[order]] = points.case_version.at[order]  # the last one stays
    return points.rows(points.case_version.at == newest[points.case.at])


def _categories(points: NightPoints, cases: Ints) -> list[str]:
    """Of each case as its last point has it."""
    order = np.argsort(points.last, kind="stable")
    newest = np.zeros(len(points.case.texts), dtype=np.int64)
    newest[points.case.at[order]] = points.category.at[order]
    return [points.category.texts[it] for it in newest[cases]]


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
