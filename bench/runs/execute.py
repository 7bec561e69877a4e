"""A run from its plan to its records: made ready, written down, and gone on with where a killed runner stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from bench.base.errors import InfraError, UserError
from bench.base.files import write_atomic
from bench.base.install import DataFolders
from bench.cell import CellContext, Helper, RunShares, SourceCache, agent_python, this_machine, wanted_sources
from bench.formats.agent import Agent
from bench.formats.agent_files import CASSETTES
from bench.formats.help import HelpOffer
from bench.formats.plan import Cell, RunPlan
from bench.formats.provenance import Sequential
from bench.formats.record import Record
from bench.formats.run_folder import SECRET, RunFolder
from bench.formats.run_limits import RunLimits
from bench.formats.step_snapshots import SnapshotRule
from bench.plan import Request, RunCells, cells_of, make_arms, make_plan
from bench.runs.context import context_of
from bench.runs.observer import RunObserver
from bench.runs.pool import run_cells
from bench.runs.preflight import require_ready, too_little_memory
from bench.runs.rounds import design_of, rounds_of, run_rounds
from bench.runs.seeds import find_secret, new_secret, require_open
from bench.sandbox import Sandbox, end_orphans

_MOST_NAMED = 8
"""Files in one line of output."""


@dataclass(frozen=True)
class Options:
    """How a run is carried out."""

    jobs: int = 1
    keep_workspaces: bool = False
    cost_limited: bool = True
    run_limits: RunLimits = field(default_factory=RunLimits)
    seed_secret: str | None = field(default=None, repr=False)
    """Of the seeds of the data; empty: none. None: that of the environment or of the plan, for a new run one is drawn.
    """
    secret_file: Path | None = None
    """Where the secret of a plan.json is kept."""
    looks: bool = True
    """Whether a run that may end early looks after each round; a shard has a part of one, and is looked at later."""
    helper: Helper | None = None
    """Who answers agents' questions; None: they cannot ask."""
    snapshots: SnapshotRule = field(default_factory=SnapshotRule)
    """When workspaces are copied while their agents work, to be judged later."""


@dataclass(frozen=True)
class Arms:
    """A run that compares its agent with another one, in two arms."""

    base: str
    """The other agent: id, or path of an agent.yaml or its folder."""
    until_decided: bool = False
    """Look after each round of trials, and end when that decides."""


def write_plan(
    plan: RunCells,
    folder: Path,
    sandbox: Sandbox,
    seed_secret: str | None = None,
    sequential: Sequential | None = None,
    offer: HelpOffer | None = None,
) -> RunPlan:
    """Write the plan into `folder` before anything runs, and with it the secret of its seeds where one is drawn.

    Raises `UserError` when the folder holds a run already.
    """
    secret = new_secret(seed_secret)
    facts = {**secret.facts(len(plan.cells)), "sequential": sequential, "help": offer}
    stored = plan.plan(sandbox.name).model_copy(update=facts)
    RunFolder(folder).write_plan(stored, secret.secret if secret.drawn else b"")
    return stored


def plan_and_run(
    request: Request,
    folder: Path,
    folders: DataFolders,
    open_sandbox: Callable[[], Sandbox],
    options: Options,
    progress: RunObserver,
    arms: Arms | None = None,
) -> tuple[RunPlan, list[Record]]:
    """Plan what is asked for, write it down in `folder`, whose name is the run's, and run it.

    Raises `NotReady` before anything is written, when something is missing.
    """
    plan, sequential = _planned(request, folder, folders, arms)
    offer = options.helper.offer if options.helper is not None else None
    if offer is not None:
        plan = replace(plan, cells=[replace(cell, helped=True) for cell in plan.cells])
    # After the plan, so that a mistake in the request is reported on a machine without a sandbox, too.
    sandbox = open_sandbox()
    _require_ready(plan.cells, sandbox, folder, folders, options)
    stored = write_plan(plan, folder, sandbox, options.seed_secret, sequential, offer)
    return stored, run_plan(stored, plan.cells, folder, folders, sandbox, options, progress)


def check_run(
    request: Request,
    folder: Path,
    folders: DataFolders,
    open_sandbox: Callable[[], Sandbox],
    options: Options,
    arms: Arms | None = None,
) -> int:
    """What `plan_and_run` does before the first cell, without writing anything; returns the number of cells."""
    plan, _ = _planned(request, folder, folders, arms)
    _require_ready(plan.cells, open_sandbox(), folder, folders, options)
    return len(plan.cells)


def _planned(
    request: Request, folder: Path, folders: DataFolders, arms: Arms | None
) -> tuple[RunCells, Sequential | None]:
    if arms is None:
        return make_plan(request, folder.name, folders), None
    asked = replace(request, trials=rounds_of(request.trials)) if arms.until_decided else request
    plan = make_arms(asked, arms.base, folder.name, folders)
    return plan, design_of(plan.cells) if arms.until_decided else None


def _is_finished(run: RunFolder, cell: Cell) -> bool:
    # A damaged record is put aside later, and its cell runs again.
    with contextlib.suppress(UserError):
        return run.finished(cell) is not None
    return False


def _require_ready(
    cells: Sequence[Cell], sandbox: Sandbox, folder: Path, folders: DataFolders, options: Options
) -> None:
    limited, limits = options.cost_limited, options.run_limits
    require_ready(cells, sandbox, folder, cache=folders.cache, cost_limited=limited, run_limits=limits)


def run_plan(
    stored: RunPlan,
    cells: Sequence[Cell] | None,
    folder: Path,
    folders: DataFolders,
    sandbox: Sandbox,
    options: Options,
    progress: RunObserver,
) -> list[Record]:
    """Run what is not finished yet; `cells` None: those of the stored plan, after a look at what is missing for them.

    Returns all records.
    """
    if stored.sandbox != sandbox.name:
        raise UserError(
            f"the run began in the {stored.sandbox} sandbox, not in {sandbox.name}",
            where="--sandbox",
            remedy=f"resume with --sandbox {stored.sandbox}",
        )
    _require_same_help(stored, options)
    require_open(folder)
    files = [folder / SECRET, *([options.secret_file] if options.secret_file else [])]
    secret = find_secret(stored, files, options.seed_secret)
    run = RunFolder(folder)
    if cells is None:
        cells = cells_of(stored, folders)
        left = [cell for cell in cells if not _is_finished(run, cell)]
        _require_ready(left, sandbox, folder, folders, options)
    context = context_of(stored, cells, folder, folders, sandbox, secret.key)
    context = replace(
        context,
        keep_workspaces=options.keep_workspaces,
        cost_limited=options.cost_limited,
        run_limits=options.run_limits,
        shares=RunShares(cells, run.tries(), elsewhere=_others_elsewhere(stored, cells)),
        snapshots=options.snapshots,
        helper=options.helper,
        watch=progress,
    )
    progress.start(stored, folder)
    progress.expect(len(cells))
    if crowded := too_little_memory(cells, options.jobs, this_machine().memory_mb):
        progress.note(crowded)
    with run.locked(end_orphans):
        _mark_cache(folders.cache)
        _fetch_data([cell for cell in cells if not _is_finished(run, cell)], context, progress)
        _prepare_agents(cells, context, progress)
        run_some = partial(run_cells, context=context, folder=run, jobs=options.jobs, progress=progress)
        if stored.sequential is None or not options.looks:
            return run_some(cells)
        return run_rounds(cells, stored.sequential, run, run_some, progress.note)


def _others_elsewhere(stored: RunPlan, cells: Sequence[Cell]) -> bool:
    """Whether cells of other agents of the run are in other shards."""
    here = {cell.id for cell in cells}
    mine = {cell.agent.digest for cell in cells}
    return any(planned.cell not in here and planned.agent_digest not in mine for planned in stored.cells)


def _require_same_help(stored: RunPlan, options: Options) -> None:
    offer = options.helper.offer if options.helper is not None else None
    if offer != stored.help:
        began = "without --ask" if stored.help is None else f"with help, {stored.help.by}"
        remedy = "drop --ask" if stored.help is None else "give --ask as the run began, with the same file of rules"
        raise UserError(f"the run began {began}", where="--ask", remedy=remedy)


def _mark_cache(cache: Path) -> None:
    """Say that it is one: it holds hidden data, and an agent whose folder it lies in must not see it."""
    if not (cache / "CACHEDIR.TAG").exists():
        write_atomic(cache / "CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55\n")


def _fetch_data(cells: Sequence[Cell], context: CellContext, progress: RunObserver) -> None:
    """Have the published data of the cells here before any clock runs; raises `UserError` where it cannot be had."""
    if wanted := wanted_sources(cells, context.gpu_roots):
        came = SourceCache.below(context.folders.cache).fetch(wanted, progress.fetching)
        for name, origin in came.items():
            progress.note(f"fetched {name} from {origin}")


def _prepare_agents(cells: Sequence[Cell], context: CellContext, progress: RunObserver) -> None:
    """Copy the agents and build what they need before any clock runs, and say what an agent does not see of its folder.

    Raises `UserError` when an interpreter is missing, or an agent asks for more than it may have.
    """
    for cell in _one_each(cells):
        if line := _left_out(cell.agent):
            progress.note(line)
        # A failure is not reported here: each cell of the agent tries again and records what failed.
        try:
            context.staged(cell.agent)
            agent_python(cell.agent, context)
        except InfraError as error:
            progress.note(f"agent {cell.agent.id}: {error}")


def _left_out(agent: Agent) -> str:
    """A line about what is in the agent's folder and not shown to it; empty when there is nothing."""
    files = agent.files
    # The conversations that the gateway replays are meant to be out of sight.
    names = [name for name in files.left_out if name != f"{CASSETTES}/"]
    count = files.count_left_out - (len(files.left_out) - len(names))
    if not count:
        return ""
    more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
    return f"agent {agent.id}: not shown to it: {', '.join(names[:_MOST_NAMED])}{more}"


def _one_each(cells: Sequence[Cell]) -> list[Cell]:
    """One cell of every agent."""
    return list({cell.agent.digest: cell for cell in cells}.values())
