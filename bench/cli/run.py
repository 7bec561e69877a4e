"""`ml-dev-bench run`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.report import render

_PATH = click.Path(path_type=Path)
_PLAN = click.Path(path_type=Path)


@click.command()
@click.argument("folder", metavar="RUN_FOLDER", type=click.Path(path_type=Path))
def summary(folder: Path) -> None:
    """A run as Markdown: agents, cells, and the evidence where a cell did not succeed."""
    from bench.formats.run_folder import RunFolder

    run = RunFolder(folder)
    run.read_plan()
    click.echo(render(run.records()), nl=False)


def _safe_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The name becomes a folder and a file of the results branch."""
    from pydantic import TypeAdapter, ValidationError

    from bench.formats.record import Name

    try:
        return None if value is None else TypeAdapter(Name).validate_python(value)
    except ValidationError:
        message = f"{value!r} is not 1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit"
        raise click.BadParameter(message, context, parameter) from None


@click.command()
@click.option("--suite", default="smoke", show_default=True, help="Cases to run, by the name of a suite.")
@click.option("--agent", "agents", multiple=True, help="An agent's id, or the path of an agent.yaml. May be repeated.")
@click.option("--case", "chosen", multiple=True, help="Only this case. May be repeated.")
@click.option(
    "--model", "models", multiple=True, help="provider/name or role=provider/name, in place of the agent's own."
)
@click.option("--trials", type=click.IntRange(1, 1000), help="Repetitions; default: the suite's.")
@click.option("--profile", type=click.Choice(["mini", "full"]), help="Default: the suite's.")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Cells side by side.")
@click.option(
    "--sandbox",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "docker", "bubblewrap", "process"]),
    help="auto: the strongest that works here. process does not isolate.",
)
@click.option("--out", type=_PATH, default=Path("runs"), show_default=True, help="Folder of run folders.")
@click.option("--name", callback=_safe_name, help="Name of the run, which no other run has; default: from the time.")
@click.option("--resume", type=_PATH, metavar="RUN_FOLDER", help="Go on with this run: what is finished is kept.")
@click.option("--results", metavar="REPOSITORY", help="Commit the records to this git repository (path or URL).")
@click.option("--branch", default="mldb-results", show_default=True, help="Branch of --results.")
@click.option("--keep-workspaces", is_flag=True, help="Keep what each agent left, beside its trace.")
@click.option(
    "--no-cost-limit", is_flag=True, help="No dollar limit: the only way to run a model without a known price."
)
@click.option("--max-run-cost", type=click.FloatRange(min=0), metavar="USD", help="Over all cells of the run.")
@click.option("--max-run-tokens", type=click.IntRange(min=0), metavar="N", help="Over all cells of the run.")
@click.option("--max-run-calls", type=click.IntRange(min=0), metavar="N", help="Model calls over all cells of the run.")
@click.option(
    "--max-run-minutes", type=click.FloatRange(min=0), metavar="N", help="No model is called later than this."
)
@click.option("--cases", "case_root", type=_PATH, help="Folder of cases; default: those that ship with the benchmark.")
@click.option("--require-success", is_flag=True, help="Exit with 1 unless every graded cell succeeded.")
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON.")
def run(**options: Any) -> None:
    """Run agents on cases, each in a fresh sandbox, and judge what they leave.

    Exit status: 0 every cell has a verdict (whatever it is); 1 cells were lost to infrastructure or skipped;
    2 nothing was started; 130 interrupted, go on with --resume.
    """
    from bench.base.install import find_data_folders
    from bench.sandbox import choose_sandbox

    signal.signal(signal.SIGTERM, _interrupt)
    places = find_data_folders(cases=options["case_root"])
    quiet = options["as_json"]
    sandbox = choose_sandbox(options["sandbox"])
    if not quiet:
        click.echo(f"sandbox: {sandbox.name}{'' if sandbox.isolated else ', which does not isolate'}", err=True)
    folder, stored, records = _carry_out(options, places, sandbox)
    commit = None
    if options["results"]:
        from bench.store import publish

        commit = publish(stored, records, options["results"], options["branch"], folder)
    _report(folder, records, commit, quiet)
    if any(record.outcome != "graded" for record in records):
        sys.exit(EXIT_FAILED)
    if options["require_success"] and not all(record.success for record in records):
        sys.exit(EXIT_FAILED)


def _run_limits(options: dict[str, Any]) -> Any:
    from bench.base.model import validate
    from bench.formats.plan import RunLimits

    minutes = options["max_run_minutes"]
    limits = {
        "cost_usd": options["max_run_cost"],
        "tokens": options["max_run_tokens"],
        "calls": options["max_run_calls"],
        "deadline": None if minutes is None else time.monotonic() + 60 * minutes,
    }
    return validate(limits, RunLimits, where="limits of the run")


def _carry_out(options: dict[str, Any], places: Any, sandbox: Any) -> tuple[Path, Any, Any]:
    from bench.cli.console import Reporter
    from bench.formats.run_folder import RunFolder, new_run_name
    from bench.plan import Request, make_plan
    from bench.runs import Options, run_plan, write_plan

    how = Options(
        jobs=options["jobs"],
        keep_workspaces=options["keep_workspaces"],
        cost_limited=not options["no_cost_limit"],
        run_limits=_run_limits(options),
    )
    reporter = Reporter(quiet=options["as_json"])
    if options["resume"] is not None:
        if options["agents"] or options["chosen"] or options["models"] or options["trials"]:
            raise UserError(
                "takes what to run from the run itself",
                where="--resume",
                remedy="drop --agent, --case, --model and --trials",
            )
        folder = options["resume"]
        stored = RunFolder(folder).read_plan()
        return folder, stored, run_plan(stored, None, folder, places, sandbox, how, reporter)
    request = Request(
        suite=options["suite"],
        agents=options["agents"],
        cases=options["chosen"],
        models=options["models"],
        trials=options["trials"],
        profile=options["profile"],
    )
    plan = make_plan(request, places)
    name = options["name"] or _run_name() or new_run_name()
    folder = options["out"] / name
    if (folder / "run.json").exists():
        raise UserError("holds a run already", where=folder, remedy="go on with --resume, or choose another --name")
    stored = write_plan(plan, folder, name, sandbox)
    if not options["as_json"]:
        click.echo(f"run {name}: {len(plan.cells)} cells in {folder}", err=True)
    return folder, stored, run_plan(stored, plan.cells, folder, places, sandbox, how, reporter)


def _run_name() -> str:
    """On GitHub, the workflow run's own id, so that a record can be traced to it."""
    number = os.environ.get("GITHUB_RUN_ID", "")
    return f"gh-{number}" if number.isdigit() else ""


def _report(folder: Path, records: Any, commit: Any, quiet: bool) -> None:
    if quiet:
        from bench.base.text import printable_json

        click.echo(printable_json(json.dumps([json.loads(record.to_line()) for record in records], indent=1)))
        return
    graded = [record for record in records if record.outcome == "graded"]
    succeeded = sum(bool(record.success) for record in graded)
    click.echo(
        f"{succeeded} of {len(graded)} graded cells succeeded; {len(records) - len(graded)} without a verdict; "
        f"records in {folder / 'cells'}"
    )
    if commit is not None:
        click.echo(f"results: {'commit' if commit.new else 'already stored in commit'} {commit.commit[:12]}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


@click.command("run-shard")
@click.argument("plan", type=_PLAN)
@click.argument("shard")
@click.option("--out", type=_PLAN, default=Path("runs"), show_default=True, help="Folder of run folders.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Cells side by side; default: as planned.")
@click.option("--sandbox", default="auto", show_default=True, help="auto: the strongest that works here.")
@click.option("--no-cost-limit", is_flag=True, help="No dollar limit: for models without a known price.")
@click.option("--keep-workspaces", is_flag=True, help="Keep what each agent left, beside its trace.")
@click.option("--cases", "case_root", type=_PLAN, help="Folder of cases; default: those that ship with the benchmark.")
def run_shard(plan: Path, shard: str, **options: Any) -> None:
    """Run one shard of a plan made by `plan --out`; started again, it goes on where it stopped.

    Each run of which the shard has cells gets a folder RUN-SHARD, for `results collect`.

    Exit status: 0 every cell has a verdict (whatever it is); 1 cells were lost to infrastructure or skipped;
    2 nothing was started; 130 interrupted, call it again.
    """
    from bench.base.install import find_data_folders
    from bench.cli.console import Reporter
    from bench.formats.plan import read_plan_file
    from bench.formats.run_folder import RunFolder
    from bench.runs import Options, run_plan
    from bench.sandbox import choose_sandbox

    signal.signal(signal.SIGTERM, _interrupt_shard)
    document = read_plan_file(plan)
    chosen = document.shard(shard)
    places, sandbox = find_data_folders(cases=options["case_root"]), choose_sandbox(options["sandbox"])
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
        records = run_plan(stored, None, folder, places, sandbox, how, Reporter(quiet=False))
        lost += sum(record.outcome != "graded" for record in records)
    if lost:
        click.echo(f"{lost} cells have no verdict", err=True)
        sys.exit(EXIT_FAILED)


def _interrupt_shard(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
