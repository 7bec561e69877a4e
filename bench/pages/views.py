"""What the page of a case shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.formats.record import CheckResult, Profile
from bench.pages.board import Board, CaseInfo, Entry
from bench.stats import CheckShares, Entrant, Findings, Measured, RankedStanding, Tally, Version


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


@dataclass(frozen=True)
class CaseFacts:
    """What the pages of all cases are made from, beside the board."""

    checks: Mapping[tuple[Profile, str], Sequence[CheckShares]]
    metrics: Mapping[tuple[Profile, str], Sequence[Measured]]
    cells: Mapping[str, Sequence[Entry]]


def case_view(board: Board, case: CaseInfo, facts: CaseFacts) -> CaseView:
    sections = []
    for section in board.sections:
        results = {
            place.standing.entrant: place.standing.cases[case.id]
            for place in section.places
            if case.id in place.standing.cases
        }
        if results:
            key = section.profile, case.id
            checks = [
                CheckRow(row.check, [row.shares.get(entrant) for entrant in results])
                for row in facts.checks.get(key, ())
            ]
            places = {entrant: place for place, entrant in enumerate(results)}
            metrics = sorted(facts.metrics.get(key, ()), key=lambda row: (row.name, places[row.entrant], row.unit))
            sections.append(CaseSection(section.profile, results, checks, metrics))
    cells = facts.cells.get(case.id, ())
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
    """The last ones, in order of time."""
    earlier: int
    """Trials before them."""
    findings: Findings | None


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
    versions: Sequence[Version]
    """Different versions of the agent among the counted cells."""
    sections: Sequence[AgentSection]


@dataclass(frozen=True)
class AgentFacts:
    """What the pages of all agents are made from, beside the board."""

    findings: Mapping[tuple[Entrant, str], Findings]
    versions: Mapping[Entrant, Sequence[Version]]
    trials: Mapping[tuple[Entrant, str], Sequence[Entry]]


def agent_view(board: Board, entrants: Sequence[Entrant], facts: AgentFacts) -> AgentView:
    """`entrants`: the same agent and model in each profile."""
    places = [place for section in board.sections for place in section.places if place.standing.entrant in entrants]
    versions = {
        version.digest: version for place in places for version in facts.versions.get(place.standing.entrant, ())
    }
    ranked = all(place.standing.ranked for place in places)
    return AgentView(entrants[0], ranked, list(versions.values()), [_section(board, place, facts) for place in places])


def _section(board: Board, place: RankedStanding, facts: AgentFacts) -> AgentSection:
    profile = place.standing.entrant.profile
    rows = [_row(case, place, facts) for case in board.cases.values() if profile in case.profiles]
    found = [row.findings for row in rows if row.findings]
    return AgentSection(place, rows, sum(it.overclaims for it in found), sum(it.flagged for it in found))


def _row(case: CaseInfo, place: RankedStanding, facts: AgentFacts) -> CaseRow:
    key = place.standing.entrant, case.id
    result = place.standing.cases.get(case.id)
    trials = facts.trials.get(key, ())
    return CaseRow(case, result, trials, result.cells - len(trials) if result else 0, facts.findings.get(key))
