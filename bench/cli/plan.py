"""`ml-dev-bench plan`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.base.errors import UserError

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.plan import PlanFile
    from bench.formats.record import Record
    from bench.plan import Experiment, History, RunCells

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("words", metavar="[EXPERIMENT.yaml] [KEY=VALUE]...", nargs=-1)
@click.option("--results", metavar="REPOSITORY", help="Measured times and costs from this results branch.")
@click.option("--branch", default="mldb-results", show_default=True, help="Branch of --results.")
@click.option("--runs", "run_folders", multiple=True, type=_PATH, help="Measured times and costs from this run folder.")
@click.option(
    "--missing-from",
    type=_PATH,
    metavar="RUN",
    help="Plan only what has no verdict: of a run folder, or of a plan.json among the records of --results or --runs.",
)
@click.option("--date", "day", help="Day of mode=rotating, YYYY-MM-DD; default: today, UTC.")
@click.option("--sandbox", default="auto", show_default=True, help="What the shards are to run in.")
@click.option("--out", type=_PATH, help="Write plan.json here, for `run --plan`.")
@click.option("--github-output", is_flag=True, help="Also write `matrix` and `shards` to the file $GITHUB_OUTPUT.")
@click.option("--cases", "case_root", type=_PATH, help="Folder of cases; default: those that ship with the benchmark.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(words: tuple[str, ...], **options: Any) -> None:
    """Turn an experiment into shards of cells, and say what they will take and cost before anything runs.

    An experiment file names suites, agents, models, settings, profiles, trials, machines and a budget; each may be
    given or changed on the command line, as in `plan nightly.yaml trials=5 agents=react,aide budget.usd=40`.

    Exit status: 0 planned; 2 nothing was planned: a mistake, or more than the budget.
    """
    from bench.base.install import find_data_folders
    from bench.plan import load_experiment

    file = Path(words[0]) if words and "=" not in words[0] else None
    experiment = load_experiment(file, words[1:] if file is not None else words)
    made = _make(experiment, options, find_data_folders(cases=options["case_root"]))
    if made is None:
        click.echo("nothing to run: every cell has a verdict already, or no case has its turn")
        _tell_github(options, '{"include":[]}', 0)
        return
    document, matrix = made
    if options["out"] is not None:
        from bench.base.files import write_atomic

        write_atomic(options["out"], document.model_dump_json(by_alias=True, indent=1).encode() + b"\n")
    _tell_github(options, matrix, len(document.shards))
    if options["as_json"]:
        click.echo(document.model_dump_json(by_alias=True, indent=1))
    else:
        _show(document)


def _make(experiment: Experiment, options: dict[str, Any], places: DataFolders) -> tuple[PlanFile, str] | None:
    from bench.plan import (
        History,
        PlannedJob,
        check_budget,
        expand_experiment,
        expected_of,
        github_matrix,
        missing_cells,
        packed_shards,
        plan_document,
        select_cells,
    )

    indexed = _from_index(options)
    records = [] if indexed else _records(options)
    history = indexed or History(records)
    today = _day(options["day"])
    if options["missing_from"] is not None:
        parts = missing_cells(options["missing_from"], records, places)
    else:
        parts = expand_experiment(experiment, places)
    mode, period = experiment.mode, experiment.period_days
    kept = [_with_cells(part, select_cells(part.cells, mode, history, today, period)) for part in parts]
    kept = [part for part in kept if part.cells]
    if not kept:
        return None
    jobs = [
        PlannedJob(part.run, index, cell, estimate)
        for part in kept
        for index, (cell, estimate) in enumerate(zip(part.cells, history.estimates(part.cells), strict=True))
    ]
    made = packed_shards(jobs, experiment)
    check_budget(expected_of(made), experiment.budget)
    return plan_document(experiment, kept, made, options["sandbox"]), github_matrix(made)


def _with_cells(part: RunCells, cells: list[Any]) -> RunCells:
    from dataclasses import replace

    return replace(part, cells=cells)


def _records(options: dict[str, Any]) -> list[Record]:
    from bench.formats.run_folder import RunFolder

    records = [record for folder in options["run_folders"] for record in RunFolder(folder).records()]
    if options["results"]:
        from bench.store import ResultsBranch

        records += ResultsBranch(options["results"], options["branch"]).records()
    return records


def _from_index(options: dict[str, Any]) -> History | None:
    """The history of --results alone, from its index; None where records themselves are asked for, or it is missing."""
    if not options["results"] or options["run_folders"] or options["missing_from"]:
        return None
    from bench.cli.stored import indexed
    from bench.index import cell_history
    from bench.plan import History

    with indexed(options["results"], options["branch"], quiet=options["as_json"]) as index:
        return History.of(cell_history(index)) if index is not None else None


def _day(text: str | None) -> Any:
    if text is None:
        return datetime.now(UTC).date()
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise UserError(f"{text!r} is no day", where="--date", remedy="write YYYY-MM-DD") from None


def _tell_github(options: dict[str, Any], matrix: str, shards: int) -> None:
    if not options["github_output"]:
        return
    import os

    place = os.environ.get("GITHUB_OUTPUT")
    if not place:
        raise UserError("is not set", where="GITHUB_OUTPUT", remedy="drop --github-output outside of GitHub's jobs")
    with open(place, "a", encoding="utf-8") as file:
        file.write(f"matrix={matrix}\nshards={shards}\n")


def _show(document: PlanFile) -> None:
    expected = document.expected
    click.echo(
        f"{expected.cells} cells in {expected.shards} shards, {expected.wall_s / 60:.0f} minutes to the last one"
    )
    by_machine: dict[str, list[Any]] = {}
    for shard in document.shards:
        by_machine.setdefault(shard.machine, []).append(shard)
    for name, shards in sorted(by_machine.items()):
        cells = sum(len(part.cells) for shard in shards for part in shard.parts)
        hours = sum(shard.seconds for shard in shards) / 3600
        usd = sum(shard.machine_usd for shard in shards)
        beside = f"{len(shards)} shards with {shards[0].jobs} side by side"
        click.echo(f"  {name}: {cells} cells, {beside}, {hours:.1f} hours, {usd:.2f} USD")
    click.echo(f"models    {expected.model_usd:.2f} USD{_unpriced(expected.unpriced_cells)}")
    click.echo(f"machines  {expected.machine_usd:.2f} USD, {expected.gpu_hours:.1f} GPU hours")
    named = {
        "measured": "measured before",
        "agent": "from the agent's other cases",
        "case": "from other agents",
        "limit": "from limits alone",
    }
    sources = ", ".join(f"{expected.sources[key]} {text}" for key, text in named.items() if key in expected.sources)
    click.echo(f"estimates {sources}")


def _unpriced(count: int) -> str:
    return f", and {count} cells without a known price" if count else ""
