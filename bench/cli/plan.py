"""`ml-dev-bench plan`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import (
    CASES,
    CHECK,
    NO_SEED_SECRET,
    PATH,
    as_json,
    branch,
    gathered,
    print_text,
    repository,
    tell_ready,
)

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.cli.plan_budget import Goal
    from bench.formats.plan import Cell, PlanFile, Shard, SkippedCell
    from bench.formats.record import Record
    from bench.formats.seeds import SeedSecret
    from bench.plan import Experiment, History

_MOST_SKIPPED = 20
_DAY = click.DateTime(["%Y-%m-%d"])


@dataclass(frozen=True)
class _Past:
    """The stored results from which times and costs are estimated, and what is wanted of the plan besides."""

    repository: str
    branch: str
    run_folders: Sequence[Path]
    runner: str
    budget: float | None
    detect: float
    check: bool


@click.command()
@click.argument("words", metavar="[EXPERIMENT.yaml] [KEY=VALUE]...", nargs=-1)
@repository("Measured times and costs from this results branch.")
@branch("Branch of --results.")
@click.option("--runs", "run_folders", multiple=True, type=PATH, help="Measured times and costs from this run folder.")
@click.option(
    "--missing-from",
    type=PATH,
    metavar="RUN",
    help="Plan only what has no verdict: of a run folder, or of a plan.json among the records of --results or --runs.",
)
@click.option("--date", "day", type=_DAY, metavar="YYYY-MM-DD", help="Day of mode=rotating; default: today, UTC.")
@click.option("--sandbox", default="auto", show_default=True, help="What the shards are to run in.")
@click.option(
    "--runner",
    type=click.Choice(["auto", "hosted", "self-hosted", "local"]),
    default="auto",
    show_default=True,
    help="What ends a shard: hosted after 6 hours, self-hosted after 5 days, local: nothing. auto: self-hosted for "
    "machines with that label, else hosted.",
)
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    default=None,
    metavar="USD",
    help="Choose trials and cases for the best chance of a verdict at this price, which needs --results or --runs.",
)
@click.option(
    "--detect",
    type=click.FloatRange(0, 100, min_open=True),
    default=10.0,
    show_default=True,
    metavar="POINTS",
    help="With --budget: the drop of the mean success that the verdict must show.",
)
@click.option("--out", type=PATH, help="Write plan.json here, for `run --plan`.")
@click.option("--github-output", is_flag=True, help="Also write `matrix` and `shards` to the file $GITHUB_OUTPUT.")
@NO_SEED_SECRET
@CHECK
@CASES
@as_json("Print the plan as JSON.")
@gathered("past", _Past)
def plan(
    words: tuple[str, ...],
    past: _Past,
    missing_from: Path | None,
    day: datetime | None,
    sandbox: str,
    out: Path | None,
    github_output: bool,
    no_seed_secret: bool,
    folders: DataFolders,
    as_json: bool,
) -> None:
    """Turn an experiment into shards of cells, and say what they will take and cost before anything runs.

    An experiment file names suites, agents, models, settings, profiles, trials, machines and a budget; each may be
    given or changed on the command line, as in `plan nightly.yaml trials=5 agents=react,aide budget.usd=40`.

    `plan --budget 20 --detect 10 agents=mine --results R` chooses trials, and cases within strata of category,
    difficulty and length, by the chance of a verdict per dollar. It says price and chance with intervals, for the
    chosen cases.

    Times are promised for 95 of 100 such plans. A shard that GitHub would end before that is split, or refused
    (--runner).

    The seeds of the data derive from MLDB_SEED_SECRET. Where it is not set, --out draws a secret and keeps it beside
    the plan, for `run-shard` on this machine. Shards on other machines, as on GitHub, need it set for plan and shards.

    Exit status: 0 planned; 2 nothing was planned: a mistake, or more than the budget.
    """
    from bench.github import set_outputs
    from bench.plan import load_experiment

    file = Path(words[0]) if words and "=" not in words[0] else None
    experiment = load_experiment(file, words[1:] if file is not None else words)
    today = (day or datetime.now(UTC)).date()
    secret = _secret(no_seed_secret, elsewhere=github_output or out is None, earlier=missing_from)
    made = _make(
        experiment, folders, past, missing_from, today, sandbox, secret, where=str(file or "plan"), quiet=as_json
    )
    if made is None:
        click.echo("nothing to run: every cell has a verdict already, or no case has its turn")
        if github_output:
            set_outputs({"matrix": '{"include":[]}', "shards": "0"})
        return
    document, matrix = made
    if past.check:
        tell_ready(document.expected.cells)
        return
    if out is not None:
        from bench.base.files import write_atomic

        _keep_secret(secret, out, missing_from)
        write_atomic(out, document.model_dump_json(by_alias=True, indent=1).encode() + b"\n")
    if github_output:
        set_outputs({"matrix": matrix, "shards": str(len(document.shards))})
    if as_json:
        click.echo(document.model_dump_json(by_alias=True, indent=1))
    else:
        _show(document)


def _make(
    experiment: Experiment,
    folders: DataFolders,
    past: _Past,
    missing_from: Path | None,
    day: date,
    sandbox: str,
    secret: SeedSecret,
    *,
    where: str,
    quiet: bool,
) -> tuple[PlanFile, str] | None:
    from bench import plan as planning

    goal = _goal(past, experiment, missing_from)
    # Finding what is missing needs the records themselves, and so does choosing.
    indexed = None if missing_from or goal else _from_index(past, quiet)
    records = [] if indexed else _records(past)
    history = indexed or planning.History.of(records)
    if goal is not None and experiment.trials is None:
        from bench.cli.plan_budget import MOST_TRIALS

        experiment = experiment.model_copy(update={"trials": MOST_TRIALS})
    if missing_from is None:
        parts = planning.expand_arms(experiment, folders)
    else:
        _refuse_sequential(missing_from)
        parts = planning.missing_cells(missing_from, records, folders)
    mode, period = experiment.mode, experiment.period_days
    kept = [replace(part, cells=planning.select_cells(part.cells, mode, history, day, period)) for part in parts]
    asked = [cell for part in kept for cell in part.cells]
    skipped = planning.skipped_cells(asked, experiment.machines)
    gone = {it.cell for it in skipped}
    kept = [replace(part, cells=[cell for cell in part.cells if cell.id not in gone]) for part in kept]
    kept = [part for part in kept if part.cells]
    _require_ready([cell for part in kept for cell in part.cells], sandbox if past.check else "")
    if not kept:
        _show_skipped(skipped)
        return None
    detection = None
    if goal is not None:
        from bench.cli.plan_budget import chosen_cells

        kept, detection = chosen_cells(kept, goal, experiment, history, records)
        most = detection.trials
        skipped = planning.skipped_cells([cell for cell in asked if cell.trial <= most], experiment.machines)
    jobs = [
        planning.PlannedJob(part.run, index, cell, history.estimate(cell))
        for part in kept
        for index, cell in enumerate(part.cells)
    ]
    made = planning.packed_shards(jobs, experiment, past.runner)
    planning.check_job_limits(made, past.runner, where)
    planning.check_budget(planning.expected_of(made), experiment.budget)
    if goal is not None:
        planning.check_budget(planning.expected_of(made), experiment.budget.model_copy(update={"usd": goal.budget}))
    document = planning.plan_document(experiment, kept, made, sandbox, secret, skipped)
    return document.model_copy(update={"detection": detection}), planning.github_matrix(made, past.runner)


def _require_ready(cells: Sequence[Cell], sandbox: str) -> None:
    """Raise `UserError` where something is missing; sandbox: of this machine, empty for shards on another one."""
    from bench.runs import require_files, require_ready
    from bench.sandbox import choose_sandbox

    if sandbox:
        require_ready(cells, choose_sandbox(sandbox), None)
    else:
        require_files(cells)


def _goal(past: _Past, experiment: Experiment, missing_from: Path | None) -> Goal | None:
    """What --budget asks for; None without it."""
    from bench.base.errors import UserError
    from bench.cli.plan_budget import Goal

    if past.budget is None:
        return None
    if missing_from is not None or experiment.mode == "changed":
        other = "--missing-from" if missing_from is not None else "mode=changed"
        raise UserError(f"cannot be combined with {other}", where="plan --budget", remedy="leave one of them out")
    if not past.repository and not past.run_folders:
        raise UserError("needs a history", where="plan --budget", remedy="name one with --results or --runs")
    return Goal(past.budget, past.detect)


def _refuse_sequential(earlier: Path) -> None:
    """Raise `UserError` for a run that looks after each round: shards cannot, and what is missing may be spared."""
    from bench.base.errors import UserError
    from bench.formats.run_folder import RunFolder

    if earlier.is_dir() and RunFolder(earlier).read_plan().sequential is not None:
        remedy = "go on with `run --resume`, on its machine"
        raise UserError("stops when decided, between rounds of one job", where=earlier, remedy=remedy)


def _secret(refused: bool, *, elsewhere: bool, earlier: Path | None) -> SeedSecret:
    """The secret of a new plan; elsewhere: it could not be kept where the shards run. Missing cells keep their own."""
    from bench.formats.seeds import SeedSecret
    from bench.runs import new_secret

    if earlier is not None:
        return SeedSecret()
    # On GitHub shards are jobs, which share nothing but artifacts, and these are public.
    elsewhere = elsewhere or bool(os.environ.get("GITHUB_ACTIONS"))
    secret = new_secret("" if refused else None, draw=not elsewhere)
    if not secret.secret and not refused:
        click.echo("note: without MLDB_SEED_SECRET, the data's seeds are public, and the results are marked", err=True)
    return secret


def _keep_secret(secret: SeedSecret, out: Path, earlier: Path | None) -> None:
    """Keep a drawn secret beside the plan, also that of the plan or run whose missing cells it has."""
    from bench.formats.run_folder import SECRET
    from bench.runs import keep_secret, secret_beside

    if earlier is None:
        keep_secret(secret, out)
        return
    kept = earlier / SECRET if earlier.is_dir() else secret_beside(earlier)
    if kept.is_file():
        from bench.base.files import write_atomic

        write_atomic(secret_beside(out), kept.read_bytes(), 0o600)


def _records(past: _Past) -> list[Record]:
    from bench.formats.run_folder import RunFolder

    records = [record for folder in past.run_folders for record in RunFolder(folder).records()]
    if past.repository:
        from bench.store import ResultsBranch

        records += ResultsBranch(past.repository, past.branch).records()
    return records


def _from_index(past: _Past, quiet: bool) -> History | None:
    """The history of --results alone, from its index; None where run folders are asked for too, or it is missing."""
    # History is made of either an index or records; those of folders are not in the index.
    if not past.repository or past.run_folders:
        return None
    from bench.cli.stored import indexed
    from bench.index import cell_history

    with indexed(past.repository, past.branch, quiet=quiet) as index:
        return cell_history(index) if index is not None else None


def _show(document: PlanFile) -> None:
    from bench.report import table

    expected = document.expected
    print_text(
        f"{expected.cells} cells in {expected.shards} shards, {expected.wall_s / 60:.0f} minutes to the last one "
        "(in 95 of 100 such plans)"
    )
    by_machine: dict[str, list[Shard]] = defaultdict(list)
    for shard in document.shards:
        by_machine[shard.machine].append(shard)
    rows = [
        (
            name,
            str(sum(len(part.cells) for shard in shards for part in shard.parts)),
            str(len(shards)),
            str(shards[0].jobs),
            f"{sum(shard.seconds for shard in shards) / 3600:.1f}",
            f"{sum(shard.machine_usd for shard in shards):.2f}",
        )
        for name, shards in sorted(by_machine.items())
    ]
    header = ("machine", "cells", "shards", "side by side", "hours", "USD")
    click.echo(table(rows, header=header, right=range(1, 6)))
    unpriced = f", and {expected.unpriced_cells} cells without a known price" if expected.unpriced_cells else ""
    print_text(f"models    {expected.model_usd:.2f} USD{unpriced}")
    print_text(f"machines  {expected.machine_usd:.2f} USD, {expected.gpu_hours:.1f} GPU hours")
    named = {
        "measured": "measured before",
        "agent": "from the agent's other cases",
        "case": "from other agents",
        "limit": "from limits alone",
    }
    sources = ", ".join(f"{expected.sources[key]} {text}" for key, text in named.items() if key in expected.sources)
    print_text(f"estimates {sources}")
    if document.detection is not None:
        from bench.cli.plan_budget import detection_text

        cells = [cell for run in document.runs for cell in run.cells]
        cases = len({cell.case for cell in cells})
        print_text(detection_text(document.detection, len(cells) // (cases * document.detection.trials)))
    _show_skipped(document.skipped)


def _show_skipped(skipped: Sequence[SkippedCell]) -> None:
    for it in skipped[:_MOST_SKIPPED]:
        click.echo(f"skipped   {it.cell}: {it.cause}", err=True)
    if len(skipped) > _MOST_SKIPPED:
        click.echo(f"skipped   {len(skipped) - _MOST_SKIPPED} more cells", err=True)
