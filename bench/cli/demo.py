"""`ml-dev-bench demo`: run, store and publish on this machine, offline and without a key."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED
from bench.cli.interrupts import interrupt_on_sigterm
from bench.cli.options import PATH, case_names, sandbox, suite_names
from bench.cli.printing import print_text

if TYPE_CHECKING:
    from bench.formats.record import Record
    from bench.sandbox import Sandbox


_PROVING = {"oracle": True, "nop": False, "wrong": False}
"""The agents that prove the cases, and whether they succeed."""


@click.command()
@click.option("--suite", default="demo", show_default=True, shell_complete=suite_names, help="Whose cases to run.")
@click.option("--case", "cases", multiple=True, shell_complete=case_names, help="Only this case; may be repeated.")
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
def demo(suite: str, cases: tuple[str, ...], out: Path, jobs: int | None, example_year: bool, sandbox: str) -> None:
    """Run a suite, commit the records to a local results branch, build the site.

    The agents are all ours. The suite `demo` has oracle and nop, which prove the cases, and react, whose model turns
    are replayed from hand-written cassettes. Of another suite each case meets oracle, nop and one of its own wrong
    answers. Only the demo runs agents without isolation where no sandbox works.

    Exit status: 0 every cell has a verdict, and it is success for oracle alone of those three; 1 otherwise.
    """
    from bench.base.install import find_data_folders
    from bench.cli.pages import write_example, write_site
    from bench.cli.reporter import Reporter
    from bench.cli.stored import counted_cases
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
    asked = load_suite(folders.cases, suite)
    opened = _sandbox if sandbox == "auto" else partial(choose_sandbox, sandbox)
    folder = out / "runs" / new_run_name()
    options = Options(jobs=jobs or len(os.sched_getaffinity(0)))
    with Reporter() as reporter:
        request = Request(suite, agents=() if asked.entries else list(_PROVING), cases=cases)
        stored, records = plan_and_run(request, folder, folders, opened, options, reporter)
    repository = out / "results.git"
    committed = publish(stored, records, str(repository), "mldb-results", folder)
    everything = list(ResultsBranch(repository).records())
    counted = counted_cases(suite, folders)
    traces = FolderTraces(lambda run: out / "runs" / run)
    index = write_site(partial(RecordResults, everything), asked.cases, out / "site", suite=suite, traces=traces)
    click.echo("")
    print_text(leaderboard(RecordResults(everything, counted)))
    click.echo("")
    click.echo(f"results: commit {committed.commit[:12]} on branch mldb-results of {repository}")
    click.echo(f"site:    {index.resolve().as_uri()}")
    if example_year:
        click.echo(f"example: {write_example(out / 'example-year').resolve().as_uri()}  (made-up results)")
    click.echo(f"took {time.monotonic() - began:.0f} s")
    tell_what_is_proven(records)


def tell_what_is_proven(records: Sequence[Record]) -> None:
    """How the agents fared that prove the cases, and exit with 1 where one did not; react's way is its own affair."""
    for agent in _PROVING:
        if own := [record for record in records if record.agent.id == agent]:
            click.echo(f"{agent}: {sum(bool(record.success) for record in own)} of {len(own)} succeeded")
    lost = [record for record in records if record.outcome != "graded"]
    unlike = [
        record
        for record in records
        if record.outcome == "graded" and record.success != _PROVING.get(record.agent.id, record.success)
    ]
    if lost or unlike:
        for record in (*lost, *unlike):
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
