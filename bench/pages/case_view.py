"""What the page of a case shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.pages.model import Board, CaseInfo, Entry
from bench.record import CheckResult, Profile
from bench.stats import CaseResult, Entrant

MOST_CELLS = 300


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


@dataclass(frozen=True)
class CheckRow:
    """A check, with the share of each entrant's trials that passed it: None where it was never run."""

    check: CheckResult
    rates: Sequence[float | None]


@dataclass(frozen=True)
class CaseSection:
    """A case in one profile."""

    profile: Profile
    results: Mapping[Entrant, CaseResult]
    """The best first, references last."""
    checks: Sequence[CheckRow]
    metrics: Sequence[Measured]


@dataclass(frozen=True)
class CaseView:
    case: CaseInfo
    retired: bool
    sections: Sequence[CaseSection]
    cells: Sequence[Entry]
    """The newest first."""
    more: int
    """Cells that are not listed for want of room."""


def case_view(board: Board, case: CaseInfo, cells: Sequence[Entry]) -> CaseView:
    """`cells`: every entry of this case."""
    sections = []
    for section in board.sections:
        results = {
            place.standing.entrant: place.standing.cases[case.id]
            for place in section.places
            if case.id in place.standing.cases
        }
        if results:
            sections.append(CaseSection(section.profile, results, _checks(results), _metrics(results)))
    more = max(0, len(cells) - MOST_CELLS)
    return CaseView(case, case.id in board.retired, sections, cells[:MOST_CELLS], more)


def _checks(results: Mapping[Entrant, CaseResult]) -> list[CheckRow]:
    newest: dict[str, CheckResult] = {}
    passed: dict[tuple[str, Entrant], list[bool]] = defaultdict(list)
    for entrant, result in results.items():
        for record in result.graded:
            for check in record.checks:
                newest[check.id] = check
                passed[check.id, entrant].append(check.passed)
    return [
        CheckRow(check, [fmean(passed[name, entrant]) if passed[name, entrant] else None for entrant in results])
        for name, check in newest.items()
    ]


def _metrics(results: Mapping[Entrant, CaseResult]) -> list[Measured]:
    rows = []
    for entrant, result in results.items():
        values: dict[tuple[str, str], list[float]] = defaultdict(list)
        for record in result.graded:
            for metric in record.metrics:
                values[metric.name, metric.unit].append(metric.value)
        rows += [
            Measured(entrant, name, unit, fmean(found), min(found), max(found), len(found))
            for (name, unit), found in values.items()
        ]
    return sorted(rows, key=lambda row: row.name)
