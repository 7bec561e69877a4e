"""`ml-dev-bench run`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.cli import options
from bench.cli.ask import helper_of
from bench.cli.interrupts import Interrupted, continuing, interrupt_on_sigterm
from bench.cli.options import CASES, PATH, RUN_FOLDERS, gathered
from bench.cli.printing import tell_ready
from bench.cli.run_text import tell_records, warn_of_conditions
from bench.report import render

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.step_snapshots import SnapshotRule
    from bench.plan import Request
    from bench.runs import Arms, Options, RunObserver
    from bench.sandbox import Sandbox

_BEGINS = frozenset(
    {
        "suite",
        "experiment",
        "agents",
        "cases",
        "models",
        "base",
        "trials",
        "until_decided",
        "profile",
        "out",
        "name",
        "resume",
    }
) | {"no_seed_secret", "check"}
"""Parameters of `run` that only begin one."""


@click.command()
@click.argument("folder", metavar="RUN_FOLDER", type=PATH)
def summary(folder: Path) -> None:
    """A run as Markdown: agents, cells, and the evidence where a cell did not succeed."""
    from bench.formats.run_folder import RunFolder

    run = RunFolder(folder)
    # Refuses a folder that is not a run's; without it an empty page would be printed.
    run.read_plan()
    click.echo(render(run.records()), nl=False)


def _how(
    jobs: int,
    keep_workspaces: bool,
    no_cost_limit: bool,
    max_run_cost: float | None,
    max_run_tokens: int | None,
    max_run_calls: int | None,
    max_run_minutes: float | None,
    no_seed_secret: bool,
    snapshots: SnapshotRule,
    ask: str,
) -> Options:
    from bench.base.model import validate
    from bench.formats.run_limits import RunLimits
    from bench.runs import Options

    # From the start of the command, so that time spent on planning and images counts.
    deadline = None if max_run_minutes is None else time.monotonic() + 60 * max_run_minutes
    limits = {"cost_usd": max_run_cost, "tokens": max_run_tokens, "calls": max_run_calls, "deadline": deadline}
    checked = validate(limits, RunLimits, where="limits of the run")
    secret = "" if no_seed_secret else None
    return Options(
        jobs, keep_workspaces, not no_cost_limit, checked, secret, helper=helper_of(ask), snapshots=snapshots
    )


def _arms(base: str | None, until_decided: bool) -> Arms | None:
    from bench.runs import Arms

    if until_decided and base is None:
        raise UserError("needs two arms", where="--until-decided", remedy="name the other agent with --base")
    return None if base is None else Arms(base, until_decided)


@click.command()
@click.option(
    "--suite",
    default="smoke",
    show_default=True,
    shell_complete=options.suite_names,
    help="Cases to run, by the name of a suite.",
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    shell_complete=options.agent_names,
    help="An agent's id, its folder, or an agent.yaml. May be repeated.",
)
@click.option(
    "--case",
    "cases",
    multiple=True,
    shell_complete=options.case_names,
    help="Only this case; also a pattern, tag:NAME, category:NAME, canonical or open-ended. May be repeated.",
)
@click.option(
    "--model", "models", multiple=True, help="provider/name or role=provider/name, in place of the agent's own."
)
@click.option(
    "--experiment",
    default="",
    metavar="FILE",
    help="Suite, agents, models and settings of an experiment file, or of one that ships: paper/react-gpt-4o.",
)
@click.option(
    "--base", metavar="AGENT", help="Compare --agent, the head, with this one: two arms, in turns, on the same data."
)
@click.option("--trials", type=click.IntRange(1, 1000), help="Repetitions; default: the suite's.")
@click.option(
    "--until-decided",
    is_flag=True,
    help="With --base: look after each round of trials, and stop when the verdict is clear; --trials is the most.",
)
@options.profile("Default: the suite's.")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Cells side by side.")
@options.sandbox("auto: the strongest that works here. process does not isolate.")
@RUN_FOLDERS
@click.option(
    "--name", callback=options.safe_name, help="Name of the run, which no other run has; default: from the time."
)
@click.option("--resume", type=PATH, metavar="RUN_FOLDER", help="Go on with this run: what is finished is kept.")
@options.repository("Commit the records to this git repository (path or URL).")
@options.branch("Branch of --results.")
@click.option("--keep-workspaces", is_flag=True, help="Keep what each agent left, beside its trace.")
@options.SNAPSHOTS
@click.option(
    "--ask",
    default="",
    metavar="person|FILE",
    help="Who answers agents' questions: you at this terminal, or a file of rules. Such trials are never ranked.",
)
@click.option(
    "--no-cost-limit", is_flag=True, help="No dollar limit: the only way to run a model without a known price."
)
@click.option("--max-run-cost", type=options.Number(min=0), metavar="USD", help="Over all cells of the run.")
@click.option("--max-run-tokens", type=click.IntRange(min=0), metavar="N", help="Over all cells of the run.")
@click.option("--max-run-calls", type=click.IntRange(min=0), metavar="N", help="Model calls over all cells of the run.")
@click.option("--max-run-minutes", type=options.Number(min=0), metavar="N", help="No model is called later than this.")
@options.NO_SEED_SECRET
@CASES
@options.EVENTS
@click.option("--require-success", is_flag=True, help="Exit with 1 unless every graded cell succeeded.")
@options.CHECK
@options.as_json("Print the records as JSON.")
@gathered("request", "bench.plan:Request", "suite agents cases models trials profile experiment")
@gathered("how", _how)
@gathered("arms", _arms)
def run(
    request: Request,
    how: Options,
    arms: Arms | None,
    sandbox: str,
    out: Path,
    name: str | None,
    resume: Path | None,
    repository: str,
    branch: str,
    folders: DataFolders,
    events: Path | None,
    require_success: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Run agents on cases, each in a fresh sandbox, and judge what they leave.

    Before the first cell, what is missing is told at once: a command's file, an interpreter, a key, a price, a provider
    that does not answer, a sandbox, a folder for the records.

    With --base there are two arms, in the order base, head, head, base: `ml-dev-bench compare RUN_FOLDER` says what
    differs.

    The seeds of the data derive from MLDB_SEED_SECRET, else from a secret that is drawn and kept in the run's folder.

    Exit status: 0 every cell has a verdict (whatever it is); 1 cells were lost to infrastructure or skipped;
    2 nothing was started; 130 interrupted, go on with --resume.
    """
    from bench.base.text import printable_json
    from bench.cli.reporter import Reporter
    from bench.formats.run_folder import RunFolder, new_run_name
    from bench.runs import check_run, plan_and_run, run_plan
    from bench.store import ResultsBranch, publish

    interrupt_on_sigterm()
    opened = partial(open_sandbox, sandbox, quiet=as_json)
    if repository:
        ResultsBranch(repository, branch).require_usable()
    if check:
        if resume is not None:
            raise UserError("the run has begun", where="--check", remedy="drop --resume")
        tell_ready(check_run(request, out / (name or "check"), folders, opened, how, arms))
        return
    folder = resume or out / (name or _run_name() or new_run_name())
    with _interruptible(folder), Reporter(quiet=as_json) as reporter, observed(reporter, events) as observer:
        if resume is None:
            stored, records = plan_and_run(request, folder, folders, opened, how, observer, arms)
        else:
            _require_nothing_new(request, arms)
            stored = RunFolder(folder).read_plan()
            box = open_sandbox(sandbox if sandbox != "auto" else stored.sandbox, quiet=as_json)
            records = run_plan(stored, None, folder, folders, box, how, observer)
    warn_of_conditions(records, folder, repository, branch)
    commit = publish(stored, records, repository, branch, folder) if repository else None
    if as_json:
        click.echo(printable_json(json.dumps([json.loads(record.to_line()) for record in records], indent=1)))
    else:
        tell_records(folder, records)
        if commit is not None:
            click.echo(f"results: {'commit' if commit.new else 'already stored in commit'} {commit.commit[:12]}")
    lost = any(record.outcome != "graded" for record in records)
    if lost or (require_success and not all(record.success for record in records)):
        sys.exit(EXIT_FAILED)


def _require_nothing_new(request: Request, arms: Arms | None) -> None:
    """Raise `UserError` where a run that goes on is told what to run."""
    if request.agents or request.cases or request.models or request.trials or request.experiment or arms:
        raise UserError(
            "the run itself says what to run",
            where="--resume",
            remedy="drop --agent, --base, --case, --experiment, --model, --trials and --until-decided",
        )


@contextlib.contextmanager
def _interruptible(folder: Path) -> Iterator[None]:
    """Tell with an interrupt the command that goes on with the run, once there is one in `folder`."""
    try:
        yield
    except KeyboardInterrupt:
        if not (folder / "run.json").is_file():
            raise
        raise Interrupted(continuing(folder, _BEGINS)) from None


def observed(reporter: RunObserver, events: Path | None) -> AbstractContextManager[RunObserver]:
    """The observer of a run: `reporter`, behind a file of events where one is asked for."""
    from bench.runs import EventLog

    return nullcontext(reporter) if events is None else EventLog(events, reporter)


def open_sandbox(name: str, *, quiet: bool = False) -> Sandbox:
    """The sandbox of a run, named on standard error unless `quiet`."""
    from bench.sandbox import choose_sandbox

    chosen = choose_sandbox(name)
    if not quiet:
        click.echo(f"sandbox: {chosen.name}{'' if chosen.isolated else ', which does not isolate: no rank'}", err=True)
    return chosen


def _run_name() -> str:
    """The id of GitHub's workflow run, so that a record can be traced to it; empty elsewhere."""
    number = os.environ.get("GITHUB_RUN_ID", "")
    return f"gh-{number}" if number.isdigit() else ""
