"""`ml-dev-bench action`: the steps of the root action.yml, which are told everything by `MLDB_` variables."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.cli.action_inputs import (
    KEEP_LOCAL,
    Inputs,
    Outcome,
    Publication,
    Wanted,
    annotated,
    nothing_left,
    own_repository,
    read_inputs,
    runner_variable,
    use_token,
)
from bench.cli.groups import LazyGroup
from bench.cli.interrupts import interrupt_on_sigterm
from bench.github import add_summary, annotate_error, annotate_warning, commands_stopped, set_outputs

if TYPE_CHECKING:
    from bench.formats.plan import Cell, RunPlan
    from bench.formats.record import Record
    from bench.formats.run_limits import RunLimits

_VERBS = {
    "collect": ("bench.cli.action_collect", "collect_shards", "Store what the shards of a plan left."),
    "plan": ("bench.cli.action_matrix", "plan_shards", "Divide an experiment into shards."),
    "provision": ("bench.cli.action_machines", "provision", "Say and check what machines a plan wants."),
    "refuse-rerun": ("bench.cli.action_machines", "refuse_rerun", "Fail an attempt whose runners are gone."),
    "release": ("bench.cli.action_machines", "release", "Give back what a plan's shards used."),
    "runner-job": ("bench.cli.action_batch", "runner_job", "Be the runner of one job, on AWS Batch."),
    "shard-job": ("bench.cli.action_batch", "shard_job", "Run one shard on AWS Batch, without GitHub."),
    "run-shard": ("bench.cli.action_matrix", "run_one_shard", "Run one shard of a plan."),
    "site": ("bench.cli.action_machines", "build_site", "Build the leaderboard from the results branch."),
    "sweep": ("bench.cli.action_machines", "sweep", "Find what earlier runs left behind."),
    "comment": ("bench.cli.action_comment", "comment", "Tell a pull request what its gate has found."),
    "compare": ("bench.cli.action_gate", "compare", "Compare two commits of an agent, or a run with stored ones."),
    "extras": ("bench.cli.action", "extras", "Print the extras of ml-dev-bench that the cells and the site need."),
    "issues": ("bench.cli.action_issues", "issues", "Keep GitHub issues about drops in the nights."),
    "publish": ("bench.cli.action", "publish", "Commit the records and build the site."),
    "report": ("bench.cli.action", "report", "Write the step summary, and fail the job where its inputs say so."),
    "run": ("bench.cli.action", "run", "Run the cells."),
    "smoke": ("bench.cli.action_smoke", "smoke_step", "Prove without a key what can be proven."),
}
_NEVER_STARTED = frozenset({"setup_error", "needs_missing", "environment_error", "cassette_miss"})
"""Causes of a cell without a verdict whose agent was not started."""


@click.group(cls=LazyGroup, commands_of=_VERBS)
def action() -> None:
    """The steps of the GitHub Action; not meant to be called by hand."""


@click.command()
@annotated
def extras() -> None:
    """Print the extras of ml-dev-bench that cells and site need, and this environment lacks, as `gateway,ml`."""
    from bench.formats.case import missing_modules
    from bench.formats.seeds import is_replayed

    told = read_inputs(Wanted)
    cells = _wanted_cells(told)
    wanted = {"gateway" for cell in cells for role, name in cell.models.items() if not is_replayed({role: name})}
    wanted |= {"ml" for cell in cells if missing_modules(cell.case.spec.needs.python)}
    wanted |= {"site"} if told.site else set()
    click.echo(",".join(sorted(wanted)))


def _wanted_cells(told: Wanted) -> list[Cell]:
    from bench.base.install import find_data_folders
    from bench.formats.plan import read_plan_file
    from bench.plan import cells_of, expand_experiment, load_experiment, make_arms, make_plan

    folders = find_data_folders()
    if told.plan is not None:
        document = read_plan_file(told.plan)
        shards = [document.shard(told.shard)] if told.shard else document.shards
        return [cell for shard in shards for part in shard.parts for cell in cells_of(document.part(part), folders)]
    if told.experiment is not None:
        # Of head, as it is checked out: it decides what is installed, and nothing else.
        if not told.experiment.is_file():
            return []
        rules = load_experiment(told.experiment, [])
        return [cell for part in expand_experiment(rules, folders) for cell in part.cells]
    if not told.agent:
        return []
    plan = make_arms(told.request(), told.base, "check", folders) if told.base else None
    return (plan or make_plan(told.request(), "check", folders)).cells


@click.command()
@annotated
def run() -> None:
    """Run the cells. This step succeeds with every verdict, so that the next steps can store the records."""
    from bench.base.install import find_data_folders
    from bench.cli.reporter import Reporter
    from bench.cli.run import open_sandbox
    from bench.cli.run_text import tell_records
    from bench.runs import Arms, Options, close_drawn, plan_and_run

    # From the start of the step, so that time spent on planning and images counts.
    began = time.monotonic()
    secret = _seed_secret()
    inputs = read_inputs(Inputs)
    _check_early(inputs)
    folder = _folder(inputs)
    arms = Arms(inputs.base, inputs.until_decided) if inputs.base else None
    interrupt_on_sigterm()
    with nothing_left(), commands_stopped(), Reporter() as reporter:
        opened = partial(open_sandbox, inputs.sandbox)
        options = Options(inputs.jobs, run_limits=_run_limits(inputs, began), seed_secret=secret)
        _, records = plan_and_run(inputs.request(), folder, find_data_folders(), opened, options, reporter, arms)
        tell_records(folder, records)
    # Before the folder's name is told: artifacts are public, and no later job could go on with this run.
    close_drawn(folder)
    graded = [record for record in records if record.outcome == "graded"]
    set_outputs(
        {
            "run": folder.name,
            "records": str(folder),
            "graded": str(len(graded)),
            "succeeded": str(sum(bool(record.success) for record in graded)),
            "lost": str(len(records) - len(graded)),
        }
    )


def _run_limits(inputs: Inputs, began: float) -> RunLimits:
    from bench.formats.run_limits import RunLimits

    deadline = None if inputs.max_run_minutes is None else began + 60 * inputs.max_run_minutes
    return RunLimits(cost_usd=inputs.max_run_cost, deadline=deadline)


@click.command()
@annotated
def publish() -> None:
    """Commit the records and build the site."""
    from bench.cli.pages import write_site
    from bench.cli.results import suite_cases
    from bench.cli.stored import stored_results
    from bench.formats.run_folder import RunFolder

    # Out of the environment first: nothing that this step starts may inherit it.
    token = os.environ.pop("MLDB_TOKEN", "")
    told = read_inputs(Publication)
    run_folder = RunFolder(told.records)
    plan, records = run_folder.read_plan(), run_folder.records()
    _require_started(records)
    cases = {*suite_cases(plan.suite), *(record.case.id for record in records)}
    source = str(told.records)
    if told.results_repository != KEEP_LOCAL:
        source = told.results_repository or own_repository()
        use_token(token, source)
        _commit(plan, records, source, told.results_branch)
    if told.site:
        with stored_results(source, told.results_branch, may_be_new=True) as results_of:
            index = write_site(results_of, sorted(cases), Path(told.site))
        set_outputs({"site": str(index.parent.resolve())})
        click.echo(f"site: {index}")


def _require_started(records: Sequence[Record]) -> None:
    """Raise `UserError` where nothing was measured, and nothing was tried: there is nothing to store."""
    if records and all(record.cause in _NEVER_STARTED for record in records):
        causes = ", ".join(sorted({record.cause for record in records}))
        raise UserError(f"no cell could start ({causes}), so nothing was committed: {records[0].error[:600]}")


def _commit(plan: RunPlan, records: Sequence[Record], repository: str, branch: str) -> None:
    """Store the records; what could not be stored is the output `kept`, and the annotation says how to resume."""
    from bench.store import digests_of_pending, publish

    keep = Path(runner_variable("RUNNER_TEMP")) / "ml-dev-bench" / "kept" / plan.run
    # Told beforehand: a killed step tells nothing.
    set_outputs({"kept": str(keep)})
    try:
        commit = publish(plan, records, repository, branch, keep=keep).commit
    except UserError as error:
        name = f"mldb-kept-{plan.run}-{os.environ.get('GITHUB_RUN_ATTEMPT') or 1}"
        download = shlex.join(["gh", "run", "download", runner_variable("GITHUB_RUN_ID"), "-n", name, "-D", "kept"])
        digests = [f"--digest={it}" for it in digests_of_pending(keep)]
        push = shlex.join([*digests, "--results", repository, "--branch", branch])
        raise UserError(
            f"{error}; the records are kept in the artifact {name}",
            remedy=f"when that is fixed: `{download} && ml-dev-bench results push kept/* {push}`",
        ) from None
    set_outputs({"kept": "", "commit": commit})
    click.echo(f"results: commit {commit} on branch {branch}")


@click.command()
@annotated
def report() -> None:
    """Write the step summary, and fail the job where its inputs say so."""
    from bench.formats.run_folder import RunFolder
    from bench.report import render

    told = read_inputs(Outcome)
    records = RunFolder(told.records).records()
    add_summary(render(records, commit=told.commit))
    faults = verdict(records, told)
    for fault in faults:
        annotate_error(fault)
    if faults:
        sys.exit(EXIT_FAILED)


def verdict(records: Sequence[Record], told: Outcome) -> list[str]:
    """Why the job fails; empty when it does not."""
    graded = [record for record in records if record.outcome == "graded"]
    lost = [record for record in records if record.outcome != "graded"]
    failed = [record for record in graded if not record.success]
    faults = []
    if told.fail_on_lost and lost:
        causes = ", ".join(sorted({record.cause for record in lost}))
        faults.append(f"{len(lost)} of {len(records)} cells have no verdict ({causes}): fail-on-lost")
    if told.require_success and failed:
        faults.append(f"{len(failed)} of {len(graded)} graded cells did not succeed: require-success")
    if told.require_success and not graded:
        faults.append("no cell was graded: require-success")
    return faults


def _check_early(inputs: Inputs) -> None:
    """Check what would otherwise fail only after hours of work."""
    from bench.store import is_branch_name

    if not is_branch_name(inputs.results_branch):
        raise UserError(
            f"field `results-branch`: {inputs.results_branch!r} is not a branch name",
            where="action inputs",
            remedy="give a name that git accepts, such as mldb-results",
        )
    if not inputs.results_repository:
        own_repository()
    if inputs.until_decided and not inputs.base:
        raise UserError("field `until-decided`: needs two arms", where="action inputs", remedy="name the other in base")
    # A token in .git/config lies in the workspace, where agents without isolation could read it.
    kept = subprocess.run(
        ["git", "config", "--get-regexp", r"^http\..*\.extraheader$"], capture_output=True, check=False
    )
    if kept.returncode == 0:
        annotate_warning("actions/checkout left its token in the workspace: give it `persist-credentials: false`")


def _seed_secret() -> str | None:
    """The secret of the seeds, taken out of the environment; None: one is to be drawn, empty: `none` was asked for.

    An empty variable is a repository without the secret, or the pull request of a fork.
    """
    given = os.environ.pop("MLDB_SEED_SECRET", "").strip()
    return "" if given == "none" else given or None


def _folder(inputs: Inputs) -> Path:
    """The run's folder, whose name is the run's; two jobs of a workflow run or two steps of a job never share one."""
    number = runner_variable("GITHUB_RUN_ID")
    asked = (os.environ.get("GITHUB_JOB", ""), os.environ.get("MLDB_JOB_INDEX", ""), inputs.model_dump_json())
    digest = hashlib.sha256("\0".join(asked).encode()).hexdigest()[:8]
    base = f"gh-{number}-{digest}"
    out = Path(runner_variable("RUNNER_TEMP")) / "ml-dev-bench" / "runs"
    name, count = base, 1
    while (out / name).exists():
        count += 1
        name = f"{base}-{count}"
    return out / name
