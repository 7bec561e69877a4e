"""`ml-dev-bench run-shard`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.base.text import counted
from bench.cli import options
from bench.cli.interrupts import interrupt_on_sigterm
from bench.cli.options import CASES, PATH, RUN_FOLDERS
from bench.cli.printing import tell_ready
from bench.cli.run import observed
from bench.cli.run_text import warn_of_conditions

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.plan import PlanFile, RunPlan
    from bench.formats.shards import ShardPart
    from bench.formats.step_snapshots import SnapshotRule
    from bench.sandbox import Sandbox


@click.command("run-shard")
@click.argument("plan", type=PATH)
@click.argument("shard")
@RUN_FOLDERS
@click.option("--jobs", type=click.IntRange(1, 256), help="Cells side by side; default: as planned.")
@options.sandbox("auto: the one of the plan. Another one is refused.")
@click.option("--no-cost-limit", is_flag=True, help="No dollar limit: for models without a known price.")
@click.option("--keep-workspaces", is_flag=True, help="Keep what each agent left, beside its trace.")
@options.SNAPSHOTS
@options.EVENTS
@options.CHECK
@CASES
def run_shard(
    plan: Path,
    shard: str,
    out: Path,
    jobs: int | None,
    sandbox: str,
    no_cost_limit: bool,
    keep_workspaces: bool,
    snapshots: SnapshotRule,
    events: Path | None,
    check: bool,
    folders: DataFolders,
) -> None:
    """Run one shard of a plan made by `plan --out`; started again, it goes on where it stopped.

    Each run of which the shard has cells gets a folder RUN-SHARD, for `results collect`.

    Exit status: 0 every cell has a verdict (whatever it is); 1 cells were lost to infrastructure or skipped;
    2 nothing was started; 130 interrupted, call it again.
    """
    from bench.cli.reporter import Reporter
    from bench.formats.plan import read_plan_file
    from bench.formats.run_folder import RunFolder
    from bench.plan import cells_of
    from bench.runs import Options, require_ready, run_plan, secret_beside
    from bench.sandbox import choose_sandbox

    interrupt_on_sigterm()
    document = read_plan_file(plan)
    chosen = document.shard(shard)
    box = choose_sandbox(_sandbox_of(document, out, sandbox))
    how = Options(
        jobs=jobs or chosen.jobs,
        keep_workspaces=keep_workspaces,
        cost_limited=not no_cost_limit,
        secret_file=secret_beside(plan),
        looks=False,
        snapshots=snapshots,
    )
    lost = 0
    parts = [(part, _shard_plan(document, part, out / f"{part.run}-{chosen.id}", box)) for part in chosen.parts]
    cells = {part.run: cells_of(stored, folders) for part, stored in parts}
    for part, _ in parts:
        folder = out / f"{part.run}-{chosen.id}"
        left = [cell for cell in cells[part.run] if RunFolder(folder).finished(cell) is None]
        require_ready(left, box, folder, cache=folders.cache, cost_limited=how.cost_limited)
    if check:
        tell_ready(sum(map(len, cells.values())))
        return
    for part, stored in parts:
        folder = out / f"{part.run}-{chosen.id}"
        if not (folder / "run.json").is_file():
            RunFolder(folder).write_plan(stored)
        with Reporter(shard=chosen.id) as reporter, observed(reporter, events) as observer:
            records = run_plan(stored, cells[part.run], folder, folders, box, how, observer)
        warn_of_conditions(records, folder, "", "")
        lost += sum(record.outcome != "graded" for record in records)
    if lost:
        click.echo(f"{counted(lost, 'cell')} without a verdict", err=True)
        sys.exit(EXIT_FAILED)


def _sandbox_of(document: PlanFile, out: Path, asked: str) -> str:
    """The one that the experiment has: of its plan, else of the first of its shards on this machine, else `asked`.

    Raises `UserError` where another one is asked for: the records would not be the plan's.
    """
    from bench.formats.plan import ANY_SANDBOX
    from bench.formats.run_folder import RunFolder

    decided = document.runs[0].sandbox
    if decided == ANY_SANDBOX:
        begun = [path.parent for run in document.runs for path in sorted(out.glob(f"{run.run}-*/run.json"))]
        decided = RunFolder(begun[0]).read_plan().sandbox if begun else asked
    if ANY_SANDBOX not in (asked, decided) and asked != decided:
        remedy = f"drop the option, or plan again with `plan --sandbox {asked}`"
        raise UserError(f"the plan's cells run in {decided}, not in {asked}", where="--sandbox", remedy=remedy)
    return decided


def _shard_plan(document: PlanFile, part: ShardPart, folder: Path, sandbox: Sandbox) -> RunPlan:
    """The plan of a shard's part of a run: as an earlier start has stored it, else new and not stored yet."""
    from bench.formats.run_folder import RunFolder

    if (folder / "run.json").is_file():
        return RunFolder(folder).read_plan()
    return document.part(part).model_copy(update={"sandbox": sandbox.name})
