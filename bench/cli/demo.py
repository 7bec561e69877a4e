"""`ml-dev-bench demo`: the whole way on this machine, offline and without a key."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED

if TYPE_CHECKING:
    from bench.sandbox import Sandbox


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Gets runs/, results.git and site/.",
)
@click.option("--jobs", type=click.IntRange(1, 64), help="Cells side by side; default: one a core.")
@click.option(
    "--sandbox", default="auto", show_default=True, type=click.Choice(["auto", "docker", "bubblewrap", "process"])
)
def demo(out: Path, jobs: int | None, sandbox: str) -> None:
    """Run the demo suite, commit the records to a local results branch, build the site.

    The demo's agents are all ours: oracle and nop, which prove the cases, and react, whose model turns are replayed
    from hand-written cassettes. Only the demo runs them without isolation where no sandbox works.
    """
    from bench.base.install import find_data_folders
    from bench.cli.console import Reporter
    from bench.cli.pages import write_site
    from bench.cli.run import _interrupt
    from bench.formats.run_folder import new_run_name
    from bench.plan import Request, make_plan
    from bench.report import leaderboard
    from bench.runs import Options, run_plan, write_plan
    from bench.sandbox import choose_sandbox
    from bench.stats import RecordResults
    from bench.store import ResultsBranch, publish

    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    places = find_data_folders()
    chosen = _sandbox() if sandbox == "auto" else choose_sandbox(sandbox)
    plan = make_plan(Request(suite="demo"), places)
    name = new_run_name()
    click.echo(f"demo run {name}: {len(plan.cells)} cells, sandbox {chosen.name}", err=True)
    stored = write_plan(plan, out / "runs" / name, name, chosen)
    options = Options(jobs=jobs or len(os.sched_getaffinity(0)))
    records = run_plan(stored, plan.cells, out / "runs" / name, places, chosen, options, Reporter())
    repository = out / "results.git"
    committed = publish(stored, records, str(repository), "mldb-results", out / "runs" / name)
    everything = list(ResultsBranch(repository).records())
    index = write_site(partial(RecordResults, everything), plan.suite.cases, out / "site")
    click.echo("")
    click.echo(leaderboard(RecordResults(everything, {"mini": plan.suite.cases, "full": plan.suite.cases})))
    click.echo("")
    click.echo(f"results: commit {committed.commit[:12]} on branch mldb-results of {repository}")
    click.echo(f"site:    {index.resolve().as_uri()}")
    click.echo(f"took {time.monotonic() - began:.0f} s")
    lost = [record for record in records if record.outcome != "graded"]
    wrong = [
        record
        for record in records
        if record.agent.id in ("oracle", "nop") and record.success != (record.agent.id == "oracle")
    ]
    if lost or wrong:
        for record in (*lost, *wrong):
            click.echo(f"error: {record.cell}: {record.cause or 'not what the case proves'}", err=True)
        sys.exit(EXIT_FAILED)


def _sandbox() -> Sandbox:
    from bench.base.errors import UserError
    from bench.sandbox import choose_sandbox

    try:
        return choose_sandbox("auto")
    except UserError as error:
        click.echo(f"note: the demo runs without isolation, since its agents are ours: {error}", err=True)
        return choose_sandbox("process")
