"""Stored results, as tables and pages ask for them: worked out from records here, from the index in `bench.index`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, Protocol

from bench.formats.record import CheckResult, Note, Profile, Record
from bench.stats.conditions import Conditions, conditions_of
from bench.stats.improvement import Improvement, improvement_of
from bench.stats.listing import CaseMonth, CellLine, line_of, months_of
from bench.stats.periods import CasePeriod, Spent, TokenUse, case_periods, spending, token_use
from bench.stats.standing import (
    PROFILES,
    Entrant,
    Standing,
    counted_cells,
    newest_versions,
    standings_of,
    unique_cells,
)
from bench.stats.tally import tally_of

if TYPE_CHECKING:
    from bench.stats.trends import CaseNight

Suite = Mapping[Profile, Collection[str]]
"""The cases that count, for each profile."""


@dataclass(frozen=True)
class CaseSeen:
    """A case as its newest result names it, with the number of its results, those that do not count too."""

    category: str
    title: str
    results: int
    ungraded: int


@dataclass(frozen=True)
class Trial:
    """A result with what decides whether it counts in the standings."""

    record: Record
    kept: bool
    """False: of several attempts at this cell another one counts."""
    current: bool
    """Is it of the newest version of its case?"""


@dataclass(frozen=True)
class Version:
    """A version of an agent."""

    digest: str
    commit: str


@dataclass(frozen=True)
class Findings:
    """What was noted of one entrant on one case, in lost cells too: how often each name came, and how many claims."""

    failure_modes: Mapping[str, int]
    flags: Mapping[str, int]
    flagged: int
    """Cells with a flag."""
    claims: int
    overclaims: int
    stops: Mapping[str, int]
    """How the agent's part of the graded cells ended, and how often."""
    last: str
    """Start of the newest cell, to the second."""


@dataclass(frozen=True)
class CheckShares:
    """A check as the newest graded trial shows it, with the share of each entrant's trials that passed it."""

    check: CheckResult
    shares: dict[Entrant, float]


@dataclass(frozen=True)
class Measured:
    """A metric over the trials of one entrant."""

    entrant: Entrant
    name: str
    unit: str
    mean: float
    low: float
    high: float
    n: int


class Results(Protocol):
    """Results that the ledger of decisions has not withdrawn, measured against one suite.

    All but `cases` and `trials` know only what counts in the standings.
    """

    def standings(self) -> list[Standing]:
        """One for each entrant."""

    def cases(self) -> Mapping[str, CaseSeen]:
        """Every case that has a result, in the suite or not."""

    def versions(self) -> Mapping[Entrant, Sequence[Version]]:
        """Of each entrant's agent."""

    def conditions(self) -> Mapping[Entrant, Conditions]:
        """Under which the graded cells of each entrant were measured."""

    def findings(self) -> Mapping[tuple[Entrant, str], Findings]:
        """By entrant and case."""

    def checks(self) -> Mapping[tuple[Profile, str], Sequence[CheckShares]]:
        """By profile and case, in the order of the newest trials."""

    def metrics(self) -> Mapping[tuple[Profile, str], Sequence[Measured]]:
        """By profile and case, in no order."""

    def improvements(self) -> Sequence[Improvement]:
        """Of each entrant on each case whose records say what its metric is held against, in the order of both."""

    def nights(self, measure: str) -> Sequence[CaseNight]:
        """What `nightly` makes series of, for a name of `MEASURES`: all suites and cases."""

    def case_periods(self) -> Sequence[CasePeriod]:
        """By profile, case and day; further back by weeks."""

    def token_use(self) -> Mapping[Entrant, TokenUse]:
        """Of the graded cells of each entrant."""

    def spending(self) -> Sequence[Spent]:
        """By profile and day; further back by weeks."""

    def trials(self, of_case: int, of_entrant: int) -> Sequence[Trial]:
        """At least the newest `of_case` results of each case, and the last `of_entrant` that count of each entrant on
        each case; in no order."""

    def case_months(self) -> Sequence[CaseMonth]:
        """By case and month: all results, counted or not."""

    def lines_of_month(self, month: str) -> Sequence[CellLine]:
        """Of all cases, in no order; `month`: as `CaseMonth` has it."""


def suite_of(cases: Iterable[tuple[str, Iterable[Profile]]]) -> Suite:
    """What counts, of cases with the profiles that each has: the one rule of coverage."""
    found: dict[Profile, list[str]] = {profile: [] for profile in PROFILES}
    for case, profiles in sorted((case, set(profiles)) for case, profiles in cases):
        for profile in PROFILES:
            if profile in profiles:
                found[profile].append(case)
    return found


def suite_of_records(records: Iterable[Record]) -> Suite:
    """Every case that has a record, in the profiles in which it has one."""
    return suite_of(_grouped((record.case.id, record.profile) for record in records).items())


def _grouped(pairs: Iterable[tuple[str, Profile]]) -> dict[str, set[Profile]]:
    found: dict[str, set[Profile]] = defaultdict(set)
    for case, profile in pairs:
        found[case].add(profile)
    return found


_Run = tuple[tuple[str, str, str, int], Entrant, CheckResult]
"""A check of one trial: start, run, cell and place in its list, who ran, and the check."""


class RecordResults:
    """`Results` from records; `suite`: None takes every case that they know, in each profile."""

    def __init__(self, records: Iterable[Record], suite: Suite | None = None) -> None:
        self._records = _different(records)
        self._suite: Suite = suite_of_records(self._records) if suite is None else suite
        self._unique = unique_cells(self._records)
        self._newest = newest_versions(self._unique)
        self._counted = counted_cells(self._unique, self._suite)

    def standings(self) -> list[Standing]:
        return _standings_of_cells(self._counted, self._suite)

    def cases(self) -> Mapping[str, CaseSeen]:
        found: dict[str, list[Record]] = defaultdict(list)
        for record in sorted(self._records, key=lambda record: (record.started, record.cell)):
            found[record.case.id].append(record)
        return {case: _seen(records) for case, records in found.items()}

    def versions(self) -> Mapping[Entrant, Sequence[Version]]:
        found: dict[Entrant, dict[str, Version]] = defaultdict(dict)
        for (entrant, _), records in self._counted.items():
            for record in records:
                found[entrant][record.agent.digest] = Version(record.agent.digest, record.agent.commit)
        return {entrant: list(versions.values()) for entrant, versions in found.items()}

    def conditions(self) -> Mapping[Entrant, Conditions]:
        return conditions_of(self._counted)

    def findings(self) -> Mapping[tuple[Entrant, str], Findings]:
        return {key: _findings(records) for key, records in self._counted.items()}

    def checks(self) -> Mapping[tuple[Profile, str], Sequence[CheckShares]]:
        runs: dict[tuple[Profile, str], dict[str, list[_Run]]] = defaultdict(lambda: defaultdict(list))
        for (entrant, case), records in self._counted.items():
            for record in records:
                for place, check in enumerate(record.checks if record.outcome == "graded" else ()):
                    when = record.started, record.provenance.run, record.cell, place
                    runs[entrant.profile, case][check.id].append((when, entrant, check))
        return {key: _shares(by_check) for key, by_check in runs.items()}

    def metrics(self) -> Mapping[tuple[Profile, str], Sequence[Measured]]:
        found: dict[tuple[Profile, str], list[Measured]] = defaultdict(list)
        for (entrant, case), records in self._counted.items():
            values: dict[tuple[str, str], list[float]] = defaultdict(list)
            for record in records:
                for metric in record.metrics if record.outcome == "graded" else ():
                    values[metric.name, metric.unit].append(metric.value)
            found[entrant.profile, case] += [
                Measured(entrant, name, unit, fmean(them), min(them), max(them), len(them))
                for (name, unit), them in values.items()
            ]
        return found

    def improvements(self) -> Sequence[Improvement]:
        return [
            improvement_of(entrant, case, scale, [it.headline_value for it in own], sum(bool(it.success) for it in own))
            for (entrant, case), records in self._counted.items()
            for own in [[it for it in records if it.outcome == "graded" and it.headline is not None]]
            if own and (scale := max(own, key=lambda it: (it.started, it.cell)).headline) is not None
        ]

    def nights(self, measure: str) -> Sequence[CaseNight]:
        from bench.stats.pairing import MEASURES
        from bench.stats.trends import case_nights

        return case_nights(self._records, MEASURES[measure])

    def case_periods(self) -> Sequence[CasePeriod]:
        return case_periods(self._counted)

    def token_use(self) -> Mapping[Entrant, TokenUse]:
        return token_use(self._counted)

    def spending(self) -> Sequence[Spent]:
        return spending(self._counted)

    def trials(self, of_case: int, of_entrant: int) -> Sequence[Trial]:
        kept = {id(record) for record in self._unique}
        return [
            Trial(it, id(it) in kept, self._newest.get((it.profile, it.case.id)) == it.case_version)
            for it in self._records
        ]

    def case_months(self) -> Sequence[CaseMonth]:
        return months_of({line_of(record) for record in self._records})

    def lines_of_month(self, month: str) -> Sequence[CellLine]:
        return list({line_of(record) for record in self._records if record.started.startswith(month)})


def standings(records: Iterable[Record], suite: Suite) -> list[Standing]:
    """One standing per entrant; records of cases outside the suite, or of older versions of a case, do not count."""
    return _standings_of_cells(counted_cells(unique_cells(records), suite), suite)


def _standings_of_cells(cells: Mapping[tuple[Entrant, str], Sequence[Record]], suite: Suite) -> list[Standing]:
    tallies = {key: (tally_of(records), all(it.agent.ranked for it in records)) for key, records in cells.items()}
    return standings_of(tallies, suite)


def _different(records: Iterable[Record]) -> list[Record]:
    """Without those that are stored twice, word for word; in an order that does not depend on that of `records`."""
    by_cell: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_cell[record.provenance.run, record.cell].append(record)
    return [
        record
        for _, group in sorted(by_cell.items())
        for record in (group if len(group) == 1 else dict(sorted((it.to_line(), it) for it in group)).values())
    ]


def _seen(records: Sequence[Record]) -> CaseSeen:
    newest = records[-1].case
    ungraded = sum(record.outcome != "graded" for record in records)
    return CaseSeen(newest.category, newest.title, len(records), ungraded)


def _shares(by_check: Mapping[str, Sequence[_Run]]) -> list[CheckShares]:
    found = []
    newest = {name: max(runs, key=itemgetter(0)) for name, runs in by_check.items()}
    for name in sorted(newest, key=lambda name: (newest[name][0][-1], name)):
        passed: dict[Entrant, list[bool]] = defaultdict(list)
        for _, entrant, check in by_check[name]:
            passed[entrant].append(check.passed)
        found.append(CheckShares(newest[name][2], {who: fmean(values) for who, values in passed.items()}))
    return found


def _findings(records: Sequence[Record]) -> Findings:
    return Findings(
        failure_modes=_counted(note for record in records for note in record.failure_modes),
        flags=_counted(note for record in records for note in record.flags),
        flagged=sum(bool(record.flags) for record in records),
        claims=sum(len(record.claims) for record in records),
        overclaims=sum(record.overclaims for record in records),
        stops=dict(sorted(Counter(str(it.stop_reason) for it in records if it.outcome == "graded").items())),
        last=f"{max(record.started for record in records)[:19]}Z",
    )


def _counted(notes: Iterable[Note]) -> dict[str, int]:
    return dict(sorted(Counter(note.name for note in notes).items()))
