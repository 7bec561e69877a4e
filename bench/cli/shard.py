"""`ml-dev-bench run-shard`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import click

from bench.errors import EXIT_FAILED

_PATH = click.Path(path_type=Path)


@click.command("run-shard")
@click.argument("plan", type=_PATH)
@click.argument("shard")
@click.option("--out", type=_PATH, default=Path("runs"), show_default=True, help="Folder of run folders.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Cells side by side; default: as planned.")
@click.option("--sandbox", default="auto", show_default=True, help="auto: the strongest that works here.")
@click.option("--no-cost-limit", is_flag=True, help="No dollar limit: for models without a known price.")
@click.option("--keep-workspaces", is_flag=True, help="Keep what each agent left, beside its trace.")
@click.option("--cases", "case_root", type=_PATH, help="Folder of cases; default: those that ship with the benchmark.")
def run_shard(plan: Path, shard: str, **options: Any) -> None:
    """Run one shard of a plan made by `plan --out`; started again, it goes on where it stopped.

    Each run of which the shard has cells gets a folder RUN-SHARD, for `results collect`.

    Exit status: 0 every cell has a verdict (whatever it is); 1 cells were lost to infrastructure or skipped;
    2 nothing was started; 130 interrupted, call it again.
    """
    from bench.cli.progress import Reporter
    from bench.execute import Options, carry_out
    from bench.places import find_places
    from bench.plan.document import read_plan_file
    from bench.rundir import RunFolder
    from bench.sandbox.choice import choose_sandbox

    signal.signal(signal.SIGTERM, _interrupt)
    document = read_plan_file(plan)
    chosen = document.shard(shard)
    places, sandbox = find_places(cases=options["case_root"]), choose_sandbox(options["sandbox"])
    how = Options(
        jobs=options["jobs"] or chosen.jobs,
        keep_workspaces=options["keep_workspaces"],
        cost_limited=not options["no_cost_limit"],
    )
    lost = 0
    for part in chosen.parts:
        folder = options["out"] / f"{part.run}-{chosen.id}"
        run = RunFolder(folder)
        if (folder / "run.json").is_file():
            stored = run.read_plan()
        else:
            stored = document.part(part).model_copy(update={"sandbox": sandbox.name})
            run.write_plan(stored)
        click.echo(f"shard {chosen.id} of run {stored.run}: {len(stored.cells)} cells in {folder}", err=True)
        records = carry_out(stored, None, folder, places, sandbox, how, Reporter(quiet=False))
        lost += sum(record.outcome != "graded" for record in records)
    if lost:
        click.echo(f"{lost} cells have no verdict", err=True)
        sys.exit(EXIT_FAILED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
