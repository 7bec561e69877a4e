"""What the page of a case shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.formats.record import AgentRef, CheckResult, Note, Profile
from bench.pages.board import Board, CaseInfo, Entry
from bench.stats import CaseResult, Entrant, RankedStanding

MOST_CELLS = 300
MOST_TRIALS = 12


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


@dataclass(frozen=True)
class CaseRow:
    """One row of the matrix."""

    case: CaseInfo
    result: CaseResult | None
    """None: the case was never tried."""
    trials: Sequence[Entry]
    """The last ones, in order of time."""
    earlier: int
    """Trials before them."""
    failure_modes: Mapping[str, int]
    flags: Mapping[str, int]
    claims: int
    overclaims: int


@dataclass(frozen=True)
class AgentSection:
    """An agent in one profile."""

    place: RankedStanding
    rows: Sequence[CaseRow]
    overclaims: int
    flagged: int
    """Cells with a flag."""


@dataclass(frozen=True)
class AgentView:
    entrant: Entrant
    ranked: bool
    versions: Sequence[AgentRef]
    """Different versions of the agent among the counted cells."""
    sections: Sequence[AgentSection]


def agent_view(board: Board, entrants: Sequence[Entrant], addresses: Mapping[int, Entry]) -> AgentView:
    """`entrants`: the same agent and model in each profile; `addresses`: entries by the identity of their record."""
    places = [
        (section.profile, place)
        for section in board.sections
        for place in section.places
        if place.standing.entrant in entrants
    ]
    sections = [_section(board, place, addresses) for _, place in places]
    versions: dict[str, AgentRef] = {}
    for _, place in places:
        for result in place.standing.cases.values():
            versions.update((record.agent.digest, record.agent) for record in result.records)
    ranked = all(place.standing.ranked for _, place in places)
    return AgentView(entrants[0], ranked, list(versions.values()), sections)


def _section(board: Board, place: RankedStanding, addresses: Mapping[int, Entry]) -> AgentSection:
    profile = place.standing.entrant.profile
    cases = [case for case in board.cases.values() if profile in case.profiles]
    rows = [_row(case, place.standing.cases.get(case.id), addresses) for case in cases]
    flagged = sum(bool(record.flags) for result in place.standing.cases.values() for record in result.records)
    return AgentSection(place, rows, sum(row.overclaims for row in rows), flagged)


def _row(case: CaseInfo, result: CaseResult | None, addresses: Mapping[int, Entry]) -> CaseRow:
    records = result.records if result else []
    return CaseRow(
        case=case,
        result=result,
        trials=[addresses[id(record)] for record in records[-MOST_TRIALS:]],
        earlier=max(0, len(records) - MOST_TRIALS),
        failure_modes=_counted(note for record in records for note in record.failure_modes),
        flags=_counted(note for record in records for note in record.flags),
        claims=sum(len(record.claims) for record in records),
        overclaims=sum(record.overclaims for record in records),
    )


def _counted(notes: Iterable[Note]) -> dict[str, int]:
    return dict(sorted(Counter(note.name for note in notes).items()))
