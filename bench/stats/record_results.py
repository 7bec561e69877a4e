"""`Results` worked out from all records; `bench.index` has the same answers without reading each of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING

from bench.formats.note import Note
from bench.formats.record import CheckResult, Profile, Record
from bench.stats.conditions import Conditions, conditions_of
from bench.stats.entrants import (
    Entrant,
    Installed,
    counted_cells,
    counting_versions,
    repeats,
    unique_cells,
    unknown_case,
)
from bench.stats.improvement import Improvement, improvement_of
from bench.stats.listing import CaseMonth, CellLine, line_of, line_order, months_of
from bench.stats.periods import CasePeriod, Spent, TokenUse, case_periods, spending, token_use
from bench.stats.results import (
    CaseSeen,
    CheckShares,
    Findings,
    Measured,
    Suite,
    Trial,
    Version,
    suite_of_records,
)
from bench.stats.standing import Standing, standings_of
from bench.stats.tally import Tally, tally_of

if TYPE_CHECKING:
    from bench.stats.night_points import NightPoints


_Run = tuple[tuple[str, str, str, int], Entrant, CheckResult]
"""A check of one trial: start, run, cell and place in its list, who ran, and the check."""


class RecordResults:
    """`Results` from records; `suite`: None takes every case that they know, in each profile."""

    def __init__(
        self, records: Iterable[Record], suite: Suite | None = None, installed: Installed = unknown_case
    ) -> None:
        self._records = _different(records)
        self._suite: Suite = suite_of_records(self._records) if suite is None else suite
        self._unique = unique_cells(self._records)
        self._versions = counting_versions(self._unique, installed)
        self._counted = counted_cells(self._unique, self._suite, self._versions)

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
                Measured.of(entrant, name, unit, them) for (name, unit), them in values.items()
            ]
        return found

    def improvements(self) -> Sequence[Improvement]:
        return [
            improvement_of(entrant, case, scale, [it.headline_value for it in own], sum(bool(it.success) for it in own))
            for (entrant, case), records in self._counted.items()
            for own in [[it for it in records if it.outcome == "graded" and it.headline is not None]]
            if own and (scale := max(own, key=lambda it: (it.started, it.cell)).headline) is not None
        ]

    def nights(self, measure: str) -> NightPoints:
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
            Trial(it, id(it) in kept, self._versions.get((it.profile, it.case.id)) == it.case_version)
            for it in self._records
        ]

    def case_months(self) -> Sequence[CaseMonth]:
        return months_of({line_of(record) for record in self._records})

    def lines_of_month(self, month: str) -> Sequence[CellLine]:
        found = {line_of(record) for record in self._records if record.started.startswith(month)}
        return sorted(found, key=line_order)


def standings(records: Iterable[Record], suite: Suite) -> list[Standing]:
    """One standing per entrant; records of cases outside the suite, or of other versions of a case, do not count."""
    unique = unique_cells(records)
    return _standings_of_cells(counted_cells(unique, suite, counting_versions(unique)), suite)


def _standings_of_cells(cells: Mapping[tuple[Entrant, str], Sequence[Record]], suite: Suite) -> list[Standing]:
    groups: dict[tuple[Entrant, bool, str], list[Record]] = defaultdict(list)
    for (entrant, case), records in cells.items():
        for record in records:
            groups[entrant, record.competes, case].append(record)
    return standings_of(_tallies(groups), suite, _tallies(_repeats(groups)))


_Cells = Mapping[tuple[Entrant, bool, str], Sequence[Record]]
"""By entrant, whether they are ranked, and case."""


def _tallies(groups: _Cells) -> dict[tuple[Entrant, bool, str], Tally]:
    return {key: tally_of(records) for key, records in groups.items()}


def _repeats(groups: _Cells) -> _Cells:
    every: dict[tuple[Entrant, bool], list[Record]] = defaultdict(list)
    for (entrant, ranked, _), records in groups.items():
        every[entrant, ranked] += records
    found: dict[tuple[Entrant, bool, str], list[Record]] = defaultdict(list)
    for (entrant, ranked), records in every.items():
        for record in repeats(records):
            found[entrant, ranked, record.case.id].append(record)
    return found


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
