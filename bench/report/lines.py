"""`ml-dev-bench results`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bench.base.text import printable
from bench.formats.record import Record

if TYPE_CHECKING:
    from bench.stats import Cost, Estimate, Passes, RankedStanding, Results


def leaderboard(results: Results) -> str:
    """The table of agents as text: ranked ones first, references after them."""
    from bench.stats import rank

    seen = results.cases().values()
    places = rank(results.standings())
    return standings_table(places, sum(case.results for case in seen), sum(case.ungraded for case in seen))


def standings_table(places: Sequence[RankedStanding], total: int, lost: int) -> str:
    from bench.report.tables import table

    header = ("", "agent", "model", "success", "score", "several tries", "cost/cell", "steps", "cases", "lost")
    rows = [_row(place) for place in places]
    return (
        f"{table(rows, header=header)}\n"
        "n = cases; 95 % intervals over cases; ranks in brackets: what success leaves open; "
        f"{total} records, {lost} without a verdict (never scored)"
    )


def _row(place: RankedStanding) -> tuple[str, ...]:
    standing = place.standing
    reference = "" if standing.ranked else " (reference)"
    steps = standing.effort.steps
    return (
        f"{place.rank}. ({place.best}-{place.worst})" if place.rank is not None else "-",
        standing.entrant.agent + reference,
        standing.entrant.model,
        estimate_text(standing.success),
        estimate_text(standing.score),
        _passes(standing.passes),
        cost_text(standing.cost),
        f"{steps:.1f}" if steps is not None else "-",
        f"{standing.covered}/{standing.suite_size}",
        str(standing.lost),
    )


def _passes(rows: Sequence[Passes]) -> str:
    """pass@k and pass^k for the largest k that some case has."""
    if not rows:
        return "-"
    row = rows[-1]
    return f"pass@{row.k} {row.at.mean:.2f}, pass^{row.k} {row.hat.mean:.2f} n={row.at.n}"


def estimate_text(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    interval = estimate.interval
    span = f" [{interval.low:.2f}, {interval.high:.2f}]" if interval is not None else ""
    return f"{estimate.mean:.2f}{span} n={estimate.n}"


def cost_text(cost: Cost) -> str:
    if cost.replayed_usd is not None:
        return f"${cost.replayed_usd:.4f} (replayed)"
    return f"${cost.mean_usd:.4f}" if cost.mean_usd is not None else f"unknown ({cost.unknown})"


def outcome_line(record: Record) -> str:
    """One line about a record: never more than a terminal can take, never a control character of the agent's."""
    seconds = sum(phase.seconds for phase in record.phases)
    head = f"{record.agent.id} on {record.case.id}, trial {record.trial}"
    if record.outcome != "graded":
        first = printable(record.error.splitlines()[0] if record.error else "")
        return f"{head}: {click.style(record.outcome, fg='yellow')} ({record.cause}): {first[:200]}"
    assert record.score is not None
    verdict = click.style("success", fg="green") if record.success else click.style("no success", fg="red")
    modes = ", ".join(note.name for note in record.failure_modes)
    flags = ", ".join(note.name for note in record.flags)
    return (
        f"{head}: {verdict}, score {record.score:.2f}, {seconds:.1f} s"
        f"{', ' + modes if modes else ''}{'; flags: ' + flags if flags else ''}"
    )
