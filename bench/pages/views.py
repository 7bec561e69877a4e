"""What the page of a case and the page of an agent show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.formats.case_metric import Headline
from bench.formats.record import CheckResult, Profile
from bench.pages.board import Board, CaseInfo, Row
from bench.pages.costs import cost_of, cost_per_success
from bench.pages.entries import Entry, counted_trials, newest_cells
from bench.pages.news import Trend, news_of
from bench.pages.own_count import Compared, own_counts
from bench.stats import (
    CheckShares,
    Entrant,
    Estimate,
    Findings,
    Improvement,
    Measured,
    Moved,
    OverCases,
    Results,
    Tally,
    Version,
    estimate,
    over_cases,
)


@dataclass(frozen=True)
class Details:
    """What the pages of cases and agents are made from, beside the board."""

    checks: Mapping[tuple[Profile, str], Sequence[CheckShares]]
    metrics: Mapping[tuple[Profile, str], Sequence[Measured]]
    findings: Mapping[tuple[Entrant, str], Findings]
    versions: Mapping[Entrant, Sequence[Version]]
    cells: Mapping[str, Sequence[Entry]]
    trials: Mapping[tuple[Entrant, str], Sequence[Entry]]
    trends: Mapping[Entrant, Trend]
    improvements: Mapping[tuple[Entrant, str], Improvement]


def details_of(results: Results, board: Board, trends: Mapping[Entrant, Trend]) -> Details:
    """`results`: those of the board."""
    return Details(
        results.checks(),
        results.metrics(),
        results.findings(),
        results.versions(),
        cells=newest_cells(board.entries, board.listed),
        trials=counted_trials(board.entries, board.listed),
        trends=trends,
        improvements={(it.entrant, it.case): it for it in results.improvements()},
    )


@dataclass(frozen=True)
class Solver:
    """An agent on one case: nothing of what it does on others, so that the page stays where that alone changes."""

    who: Entrant
    ranked: bool
    tally: Tally
    usd: float | None
    """For a cell."""
    per_success: float | None
    findings: Findings | None


@dataclass(frozen=True)
class CheckRow:
    """A check, with the share of each entrant's trials that passed it: None where it was never run."""

    check: CheckResult
    rates: Sequence[float | None]
    """By entrant, in the order of the section's results."""
    mean: float | None
    """Of the competitors that met it, or of the references where none did."""
    agents: int
    """Behind `mean`."""


@dataclass(frozen=True)
class CaseSection:
    """A case in one profile."""

    profile: Profile
    results: Mapping[Entrant, Tally]
    """In the order of the board, references last."""
    solvers: Sequence[Solver]
    """Competitors, those that solve it most often first, and the cheapest of equals; then references."""
    checks: Sequence[CheckRow]
    metrics: Sequence[Measured]
    headline: Headline | None
    """Of the case as it is now."""
    improvements: Sequence[Improvement]
    """In the order of `results`."""


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
        # Those that compete come last: a reference of the same name does not stand in their place.
        ends = {row.standing.entrant: row for row in reversed(section.everyone) if case.id in row.standing.cases}
        results = {who: row.standing.cases[case.id] for who, row in reversed(ends.items())}
        if results:
            key = section.profile, case.id
            rivals = [row.standing.entrant for row in section.charted]
            checks = [_check_row(row, list(results), rivals) for row in details.checks.get(key, ())]
            order = {entrant: position for position, entrant in enumerate(results)}
            metrics = sorted(details.metrics.get(key, ()), key=lambda row: (row.name, order[row.entrant], row.unit))
            solvers = [_solver(row, case.id, details) for row in section.everyone if case.id in row.standing.cases]
            solvers.sort(key=_solved)
            improved = [it for who in results if (it := details.improvements.get((who, case.id)))]
            held = case.headlines.get(section.profile)
            sections.append(CaseSection(section.profile, results, solvers, checks, metrics, held, improved))
    cells = details.cells.get(case.id, ())
    seen = board.seen.get(case.id)
    more = seen.results - len(cells) if seen else 0
    return CaseView(case, case.id in board.retired, sections, cells, more)


def _check_row(row: CheckShares, results: Sequence[Entrant], rivals: Sequence[Entrant]) -> CheckRow:
    known = [share for who in rivals if (share := row.shares.get(who)) is not None]
    mean = math.fsum(known) / len(known) if known else None
    return CheckRow(row.check, [row.shares.get(who) for who in results], mean, len(known))


def _solver(row: Row, case: str, details: Details) -> Solver:
    tally = row.standing.cases[case]
    usd = cost_of(tally)
    share = Estimate(tally.success, tally.graded, None) if tally.success is not None else None
    found = details.findings.get((row.standing.entrant, case))
    return Solver(row.standing.entrant, row.standing.ranked, tally, usd, cost_per_success(usd, share), found)


def _solved(it: Solver) -> tuple[bool, float, float]:
    usd = float("inf") if it.usd is None else it.usd
    return not it.ranked, -(it.tally.success if it.tally.success is not None else -1.0), usd


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
    improvement: Improvement | None


@dataclass(frozen=True)
class AgentSection:
    """An agent in one profile."""

    row: Row
    rivals: int
    """Agents with a rank."""
    rows: Sequence[CaseRow]
    trend: Trend | None
    steps: Sequence[Moved]
    """The cases of the last confirmed step that moved most."""
    categories: Mapping[str, Estimate]
    """Success in each, over its cases."""
    improved: OverCases | None
    """None: no case with a continuous metric was graded."""
    modes: Mapping[str, int]
    stops: Mapping[str, int]
    own_counts: Sequence[Compared]
    """Of the listed trials whose program reports its use."""


@dataclass(frozen=True)
class AgentView:
    entrant: Entrant
    ranked: bool
    versions: Sequence[Version]
    """Different versions of the agent among the counted cells."""
    sections: Sequence[AgentSection]


def agent_view(board: Board, entrants: Sequence[Entrant], details: Details) -> AgentView:
    """`entrants`: the same agent and model in each profile."""
    parts = [
        _agent_section(board, row, len(section.ranked), details)
        for section in board.sections
        for row in section.everyone
        if row.standing.entrant in entrants
    ]
    rows = [part.row for part in parts]
    versions = {version.digest: version for row in rows for version in details.versions.get(row.standing.entrant, ())}
    return AgentView(entrants[0], any(row.standing.ranked for row in rows), list(versions.values()), parts)


def _agent_section(board: Board, row: Row, rivals: int, details: Details) -> AgentSection:
    who = row.standing.entrant
    cases = [_row(case, row, details) for case in board.cases.values() if who.profile in case.profiles]
    found = [it.findings for it in cases if it.findings]
    trend = details.trends.get(who)
    news = news_of(trend) if trend else None
    return AgentSection(
        row=row,
        rivals=rivals,
        rows=cases,
        trend=trend,
        steps=news.step_cases if news else (),
        categories=_by_category(cases),
        improved=next(iter(over_cases([it.improvement for it in cases if it.improvement])), None),
        modes=_sum([it.failure_modes for it in found]),
        stops=_sum([it.stops for it in found]),
        own_counts=own_counts(trial.record for case in cases for trial in case.trials),
    )


def _by_category(rows: Sequence[CaseRow]) -> dict[str, Estimate]:
    means: dict[str, list[float]] = {}
    for row in rows:
        if row.result is not None and row.result.success is not None:
            means.setdefault(row.case.category, []).append(row.result.success)
    return {name: found for name, values in sorted(means.items()) if (found := estimate(values)) is not None}


def _sum(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The most frequent first."""
    names = {name for them in counts for name in them}
    total = {name: sum(them.get(name, 0) for them in counts) for name in names}
    return dict(sorted(total.items(), key=lambda it: (-it[1], it[0])))


def _row(case: CaseInfo, row: Row, details: Details) -> CaseRow:
    key = row.standing.entrant, case.id
    result = row.standing.cases.get(case.id)
    trials = details.trials.get(key, ())
    earlier = result.cells - len(trials) if result else 0
    return CaseRow(case, result, trials, earlier, details.findings.get(key), details.improvements.get(key))
