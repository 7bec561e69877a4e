"""`ml-dev-bench action`: the steps of the root action.yml, which are told everything by `MLDB_` variables."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from pydantic import Field

from bench.base.errors import EXIT_FAILED, UserError
from bench.base.model import Model
from bench.cli.action_inputs import (
    KEEP_LOCAL,
    Words,
    annotated,
    nothing_left,
    own_repository,
    read_inputs,
    runner_variable,
    use_token,
)
from bench.cli.options import LazyGroup, interrupt_on_sigterm
from bench.formats.record import Profile
from bench.github import add_summary, annotate_error, annotate_warning, commands_stopped, set_outputs

if TYPE_CHECKING:
    from bench.formats.record import Record

_VERBS = {
    "publish": ("bench.cli.action", "publish", "Commit the records and build the site."),
    "report": ("bench.cli.action", "report", "Write the step summary, and fail the job where its inputs say so."),
    "run": ("bench.cli.action", "run", "Run the cells."),
    "smoke": ("bench.cli.smoke", "smoke_step", "Prove without a key what can be proven."),
}


class _Destination(Model):
    """Where records and pages go."""

    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")
    site: str = ""


class _Demands(Model):
    """What must be so for the job to succeed."""

    require_success: bool = Field(False, alias="require-success")
    fail_on_lost: bool = Field(True, alias="fail-on-lost")


class Inputs(_Destination, _Demands):
    """The inputs of the action, under their own names."""

    agent: Words = Field(min_length=1)
    suite: str = "smoke"
    cases: Words = []
    models: Words = []
    trials: int | None = Field(None, ge=1, le=1000)
    jobs: int = Field(1, ge=1, le=256)
    profile: Profile | None = None
    sandbox: Literal["auto", "docker", "bubblewrap", "process"] = "auto"


class Outcome(_Demands):
    """What the last step is told."""

    records: Path
    commit: str = ""
    site: str = ""


class Publication(_Destination):
    """What the committing step is told."""

    records: Path


@click.group(cls=LazyGroup, commands_of=_VERBS)
def action() -> None:
    """The steps of the GitHub Action; not meant to be called by hand."""


@click.command()
@annotated
def run() -> None:
    """Run the cells. This step succeeds with every verdict, so that the next steps can store the records."""
    from bench.base.install import find_data_folders
    from bench.cli.console import Reporter
    from bench.cli.run import open_sandbox, tell_records
    from bench.plan import Request
    from bench.runs import Options, close_drawn, plan_and_run

    secret = _seed_secret()
    inputs = read_inputs(Inputs)
    _check_early(inputs)
    folder = _folder(inputs)
    request = Request(inputs.suite, inputs.agent, inputs.cases, inputs.models, inputs.trials, inputs.profile)
    interrupt_on_sigterm()
    with nothing_left(), commands_stopped(), Reporter() as reporter:
        opened, options = partial(open_sandbox, inputs.sandbox), Options(jobs=inputs.jobs, seed_secret=secret)
        _, records = plan_and_run(request, folder, find_data_folders(), opened, options, reporter)
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


@click.command()
@annotated
def publish() -> None:
    """Commit the records and build the site."""
    from bench.cli.pages import write_site
    from bench.cli.results import suite_cases
    from bench.cli.stored import stored_results
    from bench.formats.run_folder import RunFolder
    from bench.store import publish

    # Out of the environment first: nothing that this step starts may inherit it.
    token = os.environ.pop("MLDB_TOKEN", "")
    told = read_inputs(Publication)
    run_folder = RunFolder(told.records)
    plan, records = run_folder.read_plan(), run_folder.records()
    cases = {*suite_cases(plan.suite), *(record.case.id for record in records)}
    source = str(told.records)
    if told.results_repository != KEEP_LOCAL:
        source = told.results_repository or own_repository()
        use_token(token, source)
        commit = publish(plan, records, source, told.results_branch).commit
        set_outputs({"commit": commit})
        click.echo(f"results: commit {commit} on branch {told.results_branch}")
    if told.site:
        with stored_results(source, told.results_branch) as results_of:
            index = write_site(results_of, sorted(cases), Path(told.site))
        set_outputs({"site": str(index.parent.resolve())})
        click.echo(f"site: {index}")


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
