"""From an experiment to its plan: the cells that are to run, chosen and packed into shards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from bench.base.errors import UserError
from bench.cli.plan_earlier import refuse_sequential, with_designs, with_rounds
from bench.cli.plan_sandbox import decided_sandbox
from bench.cli.plan_text import show_skipped

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.cli.plan_budget import Goal
    from bench.formats.plan import Cell, PlanFile, SkippedCell
    from bench.formats.record import Record
    from bench.formats.seeds import SeedSecret
    from bench.formats.shards import RunnerKind
    from bench.plan import Experiment, History, PackedShard, RunCells


@dataclass(frozen=True)
class Past:
    """The stored results from which times and costs are estimated, and what is wanted of the plan besides."""

    repository: str
    branch: str
    run_folders: Sequence[Path]
    runner: RunnerKind
    budget: float | None
    detect: float
    check: bool


@dataclass(frozen=True)
class Wanted:
    """What is to be planned, where and when."""

    experiment: Experiment
    folders: DataFolders
    past: Past
    earlier: Path | None
    """A run or a plan whose missing cells alone are wanted."""
    due: Mapping[str, int] | None
    """The trial that is due of each run, after a look."""
    day: date
    sandbox: str
    secret: SeedSecret
    where: str
    """Of the experiment, for messages."""
    quiet: bool
    elsewhere: bool
    """Shards run on other machines."""

    @property
    def is_sequential(self) -> bool:
        return self.experiment.until_decided


def plan_wanted(wanted: Wanted) -> tuple[PlanFile, str] | None:
    """The plan, and the matrix of its first round; None where nothing is left to run. Raises `UserError`."""
    from bench import plan as planning

    if wanted.is_sequential:
        wanted = replace(wanted, experiment=with_rounds(wanted.experiment))
    goal = _goal(wanted)
    # Finding what is missing needs the records themselves, and so does choosing.
    indexed = None if wanted.earlier or goal else _from_index(wanted.past, wanted.quiet)
    records = [] if indexed else _records(wanted.past)
    history = indexed or planning.History.of(records)
    if goal is not None and wanted.experiment.trials is None:
        from bench.cli.plan_budget import MOST_TRIALS

        wanted = replace(wanted, experiment=wanted.experiment.model_copy(update={"trials": MOST_TRIALS}))
    experiment = wanted.experiment
    mode, period = experiment.mode, experiment.period_days
    parts = _parts(wanted, records)
    kept = [replace(part, cells=planning.select_cells(part.cells, mode, history, wanted.day, period)) for part in parts]
    asked = _cells_in(kept)
    skipped = planning.skipped_cells(asked, experiment.machines)
    kept = _without({it.cell for it in skipped}, kept)
    _require_ready(_cells_in(kept), wanted.sandbox if wanted.past.check else "")
    if not kept:
        show_skipped(skipped)
        return None
    detection = None
    if goal is not None:
        from bench.cli.plan_budget import chosen_cells

        kept, detection = chosen_cells(kept, goal, experiment, history, records)
        most = detection.trials
        skipped = planning.skipped_cells([cell for cell in asked if cell.trial <= most], experiment.machines)
    rounds = _packed(kept, history, wanted, goal)
    document = _document(kept, rounds, skipped, wanted).model_copy(update={"detection": detection})
    # Of several rounds the first: whether there is another one, a look decides.
    return document, planning.github_matrix(rounds[0], wanted.past.runner)


def _cells_in(parts: Sequence[RunCells]) -> list[Cell]:
    return [cell for part in parts for cell in part.cells]


def _parts(wanted: Wanted, records: Sequence[Record]) -> list[RunCells]:
    """All cells of the experiment, or those that an earlier run or plan lacks."""
    from bench import plan as planning

    due = wanted.due
    if wanted.earlier is None:
        return planning.expand_arms(wanted.experiment, wanted.folders)
    refuse_sequential(wanted.earlier, looked=due is not None)
    parts = planning.missing_cells(wanted.earlier, records, wanted.folders)
    if due is None:
        return parts
    return [replace(it, cells=[cell for cell in it.cells if cell.trial == due.get(it.run)]) for it in parts]


def _packed(kept: Sequence[RunCells], history: History, wanted: Wanted, goal: Goal | None) -> list[list[PackedShard]]:
    """The shards of each round, within the limits of jobs and of the budgets."""
    from bench import plan as planning

    experiment, runner = wanted.experiment, wanted.past.runner
    jobs = [
        planning.PlannedJob(part.run, index, cell, history.estimate(cell))
        for part in kept
        for index, cell in enumerate(part.cells)
    ]
    if wanted.is_sequential or wanted.due is not None:
        rounds = planning.packed_rounds(jobs, experiment, runner)
    else:
        rounds = [planning.packed_shards(jobs, experiment, runner)]
    made = [batch for one in rounds for batch in one]
    planning.check_job_limits(made, runner, wanted.where)
    expected = planning.expected_of(made)
    planning.check_budget(expected, experiment.budget)
    if goal is not None:
        planning.check_budget(expected, experiment.budget.model_copy(update={"usd": goal.budget}))
    return rounds


def _document(
    kept: Sequence[RunCells], rounds: Sequence[Sequence[PackedShard]], skipped: Sequence[SkippedCell], wanted: Wanted
) -> PlanFile:
    from bench import plan as planning

    sandbox = wanted.sandbox
    if wanted.earlier is None:
        sandbox = decided_sandbox(sandbox, _cells_in(kept), elsewhere=wanted.elsewhere)
    made = [batch for one in rounds for batch in one]
    document = planning.plan_document(
        wanted.experiment, kept, made, sandbox, wanted.secret, skipped, wanted.past.runner
    )  # fmt: skip
    return with_designs(document, kept) if wanted.is_sequential else document


def _without(gone: Collection[str], parts: Sequence[RunCells]) -> list[RunCells]:
    """The parts without these cells, by id, and none that has no other."""
    left = [replace(part, cells=[cell for cell in part.cells if cell.id not in gone]) for part in parts]
    return [part for part in left if part.cells]


def _require_ready(cells: Sequence[Cell], sandbox: str) -> None:
    """Raise `UserError` where something is missing; sandbox: of this machine, empty for shards on another one."""
    from bench.runs import require_files, require_ready
    from bench.sandbox import choose_sandbox

    if sandbox:
        require_ready(cells, choose_sandbox(sandbox), None)
    else:
        require_files(cells)


def _goal(wanted: Wanted) -> Goal | None:
    """What --budget asks for; None without it."""
    from bench.cli.plan_budget import Goal

    past = wanted.past
    if past.budget is None:
        return None
    if wanted.earlier is not None or wanted.experiment.mode == "changed":
        other = "--missing-from" if wanted.earlier is not None else "mode=changed"
        raise UserError(f"cannot be combined with {other}", where="plan --budget", remedy="leave one of them out")
    if not past.repository and not past.run_folders:
        raise UserError("needs a history", where="plan --budget", remedy="name one with --results or --runs")
    return Goal(past.budget, past.detect)


def _records(past: Past) -> list[Record]:
    from bench.formats.run_folder import RunFolder

    records = [record for folder in past.run_folders for record in RunFolder(folder).records()]
    if past.repository:
        from bench.store import ResultsBranch

        records += ResultsBranch(past.repository, past.branch).records()
    return records


def _from_index(past: Past, quiet: bool) -> History | None:
    """The history of --results alone, from its index; None where run folders are asked for too, or it is missing."""
    # History is made of either an index or records; those of folders are not in the index.
    if not past.repository or past.run_folders:
        return None
    from bench.cli.stored import indexed
    from bench.index import cell_history

    with indexed(past.repository, past.branch, quiet=quiet, may_be_new=True) as index:
        return cell_history(index) if index is not None else None
