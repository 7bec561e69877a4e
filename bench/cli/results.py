"""`ml-dev-bench results`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.errors import UserError

if TYPE_CHECKING:
    from bench.effort import Cost
    from bench.record import Record
    from bench.stats import Estimate, Place


@click.group()
def results() -> None:
    """Show stored results."""


@results.command()
@click.argument("source", metavar="REPOSITORY|RUN_FOLDER")
@click.option("--branch", default="mldb-results", show_default=True, help="Branch of a repository.")
@click.option("--suite", default="", help="Count coverage over this suite; default: over the cases in the records.")
@click.option("--cells", is_flag=True, help="Every cell instead of the table of agents.")
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON lines.")
def show(source: str, branch: str, suite: str, cells: bool, as_json: bool) -> None:
    """Agents by success, with intervals, from a results repository or the folder of one run."""
    from bench.cli.progress import outcome_line

    records = read_records(source, branch)
    if as_json:
        for record in records:
            click.echo(record.to_line())
    elif cells:
        for record in records:
            click.echo(outcome_line(record))
    else:
        click.echo(leaderboard(records, suite_cases(suite, records)))


def read_records(source: str, branch: str) -> list[Record]:
    """All records of a run folder or of a results branch; raises `UserError`."""
    from bench.rundir import RunFolder
    from bench.store.branch import ResultsBranch
    from bench.store.place import is_remote

    path = Path(source)
    if (path / "run.json").is_file():
        return RunFolder(path).records()
    if not is_remote(source) and not path.exists():
        raise UserError(
            "no such repository or run folder", where=source, remedy="name what `run --results` or --out made"
        )
    return list(ResultsBranch(source, branch).records())


def suite_cases(suite: str, records: list[Record]) -> list[str]:
    """The cases that coverage is counted over."""
    from bench.places import find_places
    from bench.suite import load_suite

    if suite:
        return load_suite(find_places().cases, suite).cases
    return sorted({record.case.id for record in records})


def leaderboard(records: list[Record], cases: list[str]) -> str:
    """The table of agents as text: ranked ones first, references after them."""
    from bench.stats import rank, standings

    places = rank(standings(records, {"mini": cases, "full": cases}))
    header = ("", "agent", "model", "success", "score", "cost/cell", "steps", "cases")
    rows = [header, *(_row(place) for place in places)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    infra = sum(record.outcome != "graded" for record in records)
    lines.append(f"n = cases; 95 % intervals; {len(records)} records, {infra} without a verdict (never scored)")
    return "\n".join(lines)


def _row(place: Place) -> tuple[str, ...]:
    standing = place.standing
    reference = "" if standing.ranked else " (reference)"
    steps = standing.effort.steps
    return (
        f"{place.rank}." if place.rank is not None else "-",
        standing.entrant.agent + reference,
        standing.entrant.model,
        _estimate(standing.success),
        _estimate(standing.score),
        _cost(standing.cost),
        f"{steps:.1f}" if steps is not None else "-",
        f"{standing.covered}/{standing.suite_size}",
    )


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    interval = estimate.interval
    span = f" [{interval.low:.2f}, {interval.high:.2f}]" if interval is not None else ""
    return f"{estimate.mean:.2f}{span} n={estimate.n}"


def _cost(cost: Cost) -> str:
    if cost.replayed_usd is not None:
        return f"${cost.replayed_usd:.4f} (replayed)"
    return f"${cost.mean_usd:.4f}" if cost.mean_usd is not None else f"unknown ({cost.unknown})"
