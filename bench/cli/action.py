"""`ml-dev-bench action`: the steps of the root action.yml, which are told everything by `MLDB_` variables."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from pydantic import BeforeValidator, Field

from bench.base.errors import EXIT_FAILED, EXIT_USAGE, UserError
from bench.base.model import Model, ModelT, validate
from bench.cli.options import interrupt_on_sigterm
from bench.formats.record import Profile
from bench.github import add_summary, annotate_error, annotate_warning, commands_stopped, set_outputs
from bench.guest.first_process import end_descendants
from bench.guest.kernel import PR_SET_CHILD_SUBREAPER, Kernel

if TYPE_CHECKING:
    from bench.formats.record import Record

_KEEP_LOCAL = "none"


def _words(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [word.strip() for word in re.split(r"[,\n]", value) if word.strip()]


Words = Annotated[list[str], BeforeValidator(_words)]
"""Words separated by commas or line breaks."""


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


def _annotated(step: Callable[[], None]) -> Callable[[], None]:
    """A user's mistake becomes an annotation of the job."""

    @wraps(step)
    def guarded() -> None:
        try:
            step()
        except UserError as error:
            annotate_error(str(error))
            sys.exit(EXIT_USAGE)

    return guarded


@click.group()
def action() -> None:
    """The steps of the GitHub Action; not meant to be called by hand."""


@action.command()
@_annotated
def run() -> None:
    """Run the cells. This step succeeds with every verdict, so that the next steps can store the records."""
    from bench.base.install import find_data_folders
    from bench.cli.console import Reporter
    from bench.cli.run import open_sandbox, tell_records
    from bench.plan import Request
    from bench.runs import Options, close_drawn, plan_and_run

    secret = _seed_secret()
    inputs = _read(Inputs)
    _check_early(inputs)
    folder = _folder(inputs)
    request = Request(inputs.suite, inputs.agent, inputs.cases, inputs.models, inputs.trials, inputs.profile)
    interrupt_on_sigterm()
    with _nothing_left(), commands_stopped(), Reporter() as reporter:
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


@contextlib.contextmanager
def _nothing_left() -> Iterator[None]:
    """Adopt every process that loses its parent, and end all of them at last: the next step holds a token.

    A sandbox ends what it has started. This is for what gets out of one, or of none.
    """
    Kernel().prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        end_descendants()


@action.command()
@_annotated
def publish() -> None:
    """Commit the records and build the site."""
    from bench.cli.pages import write_site
    from bench.cli.results import suite_cases
    from bench.cli.stored import stored_results
    from bench.formats.run_folder import RunFolder
    from bench.store import publish

    # Out of the environment first: nothing that this step starts may inherit it.
    token = os.environ.pop("MLDB_TOKEN", "")
    told = _read(Publication)
    run_folder = RunFolder(told.records)
    plan, records = run_folder.read_plan(), run_folder.records()
    cases = {*suite_cases(plan.suite), *(record.case.id for record in records)}
    source = str(told.records)
    if told.results_repository != _KEEP_LOCAL:
        source = told.results_repository or _own_repository()
        _use_token(token, source)
        commit = publish(plan, records, source, told.results_branch).commit
        set_outputs({"commit": commit})
        click.echo(f"results: commit {commit} on branch {told.results_branch}")
    if told.site:
        with stored_results(source, told.results_branch) as results_of:
            index = write_site(results_of, sorted(cases), Path(told.site))
        set_outputs({"site": str(index.parent.resolve())})
        click.echo(f"site: {index}")


@action.command()
@_annotated
def report() -> None:
    """Write the step summary, and fail the job where its inputs say so."""
    from bench.formats.run_folder import RunFolder
    from bench.report import render

    told = _read(Outcome)
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


def _read(model: type[ModelT]) -> ModelT:
    """The variables of a step as a validated model; an empty one is one that was not given."""
    names = [field.alias or name for name, field in model.model_fields.items()]
    given = {name: os.environ.get(f"MLDB_{name.upper().replace('-', '_')}", "") for name in names}
    for name, value in given.items():
        # Bytes that are not UTF-8 arrive as surrogates, which no file or page could hold.
        if not value.isascii() and value.encode("utf-8", "replace").decode() != value:
            raise UserError(f"field `{name}`: is not UTF-8", where="action inputs", remedy="write the value in UTF-8")
    return validate({name: value for name, value in given.items() if value.strip()}, model, where="action inputs")


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
        _own_repository()
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
    number = _variable("GITHUB_RUN_ID")
    asked = (os.environ.get("GITHUB_JOB", ""), os.environ.get("MLDB_JOB_INDEX", ""), inputs.model_dump_json())
    digest = hashlib.sha256("\0".join(asked).encode()).hexdigest()[:8]
    base = f"gh-{number}-{digest}"
    out = Path(_variable("RUNNER_TEMP")) / "ml-dev-bench" / "runs"
    name, count = base, 1
    while (out / name).exists():
        count += 1
        name = f"{base}-{count}"
    return out / name


def _own_repository() -> str:
    return f"{_variable('GITHUB_SERVER_URL')}/{_variable('GITHUB_REPOSITORY')}"


def _use_token(token: str, repository: str) -> None:
    """Let git send the token to this GitHub server only; it is never part of an address or of a file."""
    server = os.environ.get("GITHUB_SERVER_URL", "")
    if not token or not server or not repository.startswith(f"{server}/"):
        return
    # Through variables, which no other process can read from a command line; after those that are set already.
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    os.environ[f"GIT_CONFIG_KEY_{count}"] = f"http.{server}/.extraheader"
    os.environ[f"GIT_CONFIG_VALUE_{count}"] = f"AUTHORIZATION: basic {secret}"
    os.environ["GIT_CONFIG_COUNT"] = str(count + 1)


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise UserError("is not set", where=name, remedy="call this command from a job of GitHub Actions only")
    return value
