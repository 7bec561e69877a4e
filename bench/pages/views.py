"""What the page of a case and the page of an agent show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.formats.record import CheckResult, Profile
from bench.pages.board import Board, CaseInfo, Entry
from bench.stats import CheckShares, Entrant, Findings, Measured, RankedStanding, Tally, Version


@dataclass(frozen=True)
class Details:
    """What the pages of cases and agents are made from, beside the board."""

    checks: Mapping[tuple[Profile, str], Sequence[CheckShares]]
    metrics: Mapping[tuple[Profile, str], Sequence[Measured]]
    findings: Mapping[tuple[Entrant, str], Findings]
    versions: Mapping[Entrant, Sequence[Version]]
    cells: Mapping[str, Sequence[Entry]]
    trials: Mapping[tuple[Entrant, str], Sequence[Entry]]


@dataclass(frozen=True)
class CheckRow:
    """A check, with the share of each entrant's trials that passed it: None where it was never run."""

    check: CheckResult
    rates: Sequence[float | None]


@dataclass(frozen=True)
class CaseSection:
    """A case in one profile."""

    profile: Profile
    results: Mapping[Entrant, Tally]
    """In the order of the board, references last."""
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
    """Cells beyond those that are listed."""


def case_view(board: Board, case: CaseInfo, details: Details) -> CaseView:
    sections = []
    for section in board.sections:
        results = {
            row.standing.entrant: row.standing.cases[case.id]
            for row in section.everyone
            if case.id in row.standing.cases
        }
        if results:
            key = section.profile, case.id
            checks = [
                CheckRow(row.check, [row.shares.get(entrant) for entrant in results])
                for row in details.checks.get(key, ())
            ]
            order = {entrant: position for position, entrant in enumerate(results)}
            metrics = sorted(details.metrics.get(key, ()), key=lambda row: (row.name, order[row.entrant], row.unit))
            sections.append(CaseSection(section.profile, results, checks, metrics))
    cells = details.cells.get(case.id, ())
    seen = board.seen.get(case.id)
    more = seen.results - len(cells) if seen else 0
    return CaseView(case, case.id in board.retired, sections, cells, more)


@dataclass(frozen=True)
class CaseRow:
    """One row of the matrix."""

    case: CaseInfo
    result: Tally | None
    """None: the case was never tried."""
    trials: Sequence[Entry]
    """The last ones, the oldest first."""
    earlier: int
    """Trials before them."""
    findings: Findings | None


@dataclass(frozen=True)
class AgentSection:
    """An agent in one profile."""

    ranked: RankedStanding
    rows: Sequence[CaseRow]


@dataclass(frozen=True)
class AgentView:
    entrant: Entrant
    ranked: bool
    versions: Sequence[Version]
    """Different versions of the agent among the counted cells."""
    sections: Sequence[AgentSection]


def agent_view(board: Board, entrants: Sequence[Entrant], details: Details) -> AgentView:
    """`entrants`: the same agent and model in each profile."""
    rows = [row for section in board.sections for row in section.everyone if row.standing.entrant in entrants]
    versions = {version.digest: version for row in rows for version in details.versions.get(row.standing.entrant, ())}
    sections = [AgentSection(row, _rows(board, row, details)) for row in rows]
    return AgentView(entrants[0], all(row.standing.ranked for row in rows), list(versions.values()), sections)


def _rows(board: Board, ranked: RankedStanding, details: Details) -> list[CaseRow]:
    profile = ranked.standing.entrant.profile
    return [_row(case, ranked, details) for case in board.cases.values() if profile in case.profiles]


def _row(case: CaseInfo, ranked: RankedStanding, details: Details) -> CaseRow:
    key = ranked.standing.entrant, case.id
    result = ranked.standing.cases.get(case.id)
    trials = details.trials.get(key, ())
    return CaseRow(case, result, trials, result.cells - len(trials) if result else 0, details.findings.get(key))
