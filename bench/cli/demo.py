"""`ml-dev-bench demo`: run, store and publish on this machine, offline and without a key."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED
from bench.cli.options import PATH, interrupt_on_sigterm, print_text, sandbox

if TYPE_CHECKING:
    from bench.sandbox import Sandbox


@click.command()
@click.option(
    "--out",
    type=PATH,
    default=Path("demo"),
    show_default=True,
    help="Gets runs/, results.git and site/.",
)
@click.option("--jobs", type=click.IntRange(1, 64), help="Cells side by side; default: one a core.")
@click.option("--example-year", is_flag=True, help="Also make example-year/: a board of made-up results, to look at.")
@sandbox()
def demo(out: Path, jobs: int | None, example_year: bool, sandbox: str) -> None:
    """Run the demo suite, commit the records to a local results branch, build the site.

    The demo's agents are all ours: oracle and nop, which prove the cases, and react, whose model turns are replayed
    from hand-written cassettes. Only the demo runs them without isolation where no sandbox works.
    """
    from bench.base.install import find_data_folders
    from bench.cli.console import Reporter
    from bench.cli.pages import write_example, write_site
    from bench.cli.results import counted_cases
    from bench.formats.run_folder import new_run_name
    from bench.formats.suite import load_suite
    from bench.pages import FolderTraces
    from bench.plan import Request
    from bench.report import leaderboard
    from bench.runs import Options, plan_and_run
    from bench.sandbox import choose_sandbox
    from bench.stats import RecordResults
    from bench.store import ResultsBranch, publish

    interrupt_on_sigterm()
    began = time.monotonic()
    folders = find_data_folders()
    opened = _sandbox if sandbox == "auto" else partial(choose_sandbox, sandbox)
    folder = out / "runs" / new_run_name()
    options = Options(jobs=jobs or len(os.sched_getaffinity(0)))
    with Reporter() as reporter:
        stored, records = plan_and_run(Request(suite="demo"), folder, folders, opened, options, reporter)
    repository = out / "results.git"
    committed = publish(stored, records, str(repository), "mldb-results", folder)
    everything = list(ResultsBranch(repository).records())
    cases = load_suite(folders.cases, "demo").cases
    counted = counted_cases("demo", folders)
    traces = FolderTraces(lambda run: out / "runs" / run)
    index = write_site(partial(RecordResults, everything), cases, out / "site", traces=traces)
    click.echo("")
    print_text(leaderboard(RecordResults(everything, counted)))
    click.echo("")
    click.echo(f"results: commit {committed.commit[:12]} on branch mldb-results of {repository}")
    click.echo(f"site:    {index.resolve().as_uri()}")
    if example_year:
        click.echo(f"example: {write_example(out / 'example-year').resolve().as_uri()}  (made-up results)")
    click.echo(f"took {time.monotonic() - began:.0f} s")
    # The two agents that prove the cases must do so; how react fares is its own affair.
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
