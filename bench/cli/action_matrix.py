"""The verbs of `ml-dev-bench action` that make a matrix: plan it, run one shard, collect what the shards left."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from pydantic import BeforeValidator, Field

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
from bench.formats.shards import RunnerKind
from bench.github import add_summary, annotate_error, annotate_warning, commands_stopped, set_outputs

if TYPE_CHECKING:
    from bench.cli.results_collect import Report
    from bench.formats.plan import PlanFile
    from bench.store import Artifact, Refusal

_SECRET = "MLDB_SEED_SECRET"
_PLAN = "plan.json"
_FIRST = "first.json"
"""Beside the plan of a later round: the plan of all rounds, which the looks need."""
_MOST_NAMED = 5


def _lines(value: object) -> object:
    return [line.strip() for line in value.splitlines() if line.strip()] if isinstance(value, str) else value


class _Branch(Model):
    """Where records are, and where they go."""

    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")

    def open(self, token: str) -> str:
        """The repository, which git reaches with the token from now on."""
        repository = self.results_repository or own_repository()
        use_token(token, repository)
        return repository


class _PlanInputs(_Branch):
    """What is to be planned: an experiment file, or what the other inputs say."""

    experiment: str = ""
    overrides: Annotated[list[str], BeforeValidator(_lines)] = []
    agent: Words = []
    suite: Words = []
    models: Words = []
    trials: int | None = Field(None, ge=1, le=1000)
    missing_from: Path | None = Field(None, alias="missing-from")
    sandbox: Literal["auto", "docker", "bubblewrap", "process"] = "auto"
    runner: RunnerKind = "auto"
    engine: Literal["", "label", "local", "ec2", "batch", "sky"] = ""
    machines: Path | None = None
    """The machines file of that engine, where the plan shall be refused for what only its age says."""


class _ShardInputs(Model):
    plan: Path
    shard: str
    jobs: int | None = Field(None, ge=1, le=256)
    sandbox: Literal["", "auto", "docker", "bubblewrap", "process"] = ""


class _CollectInputs(_Branch):
    plan: Path
    artifacts: Path
    fail_on_lost: bool = Field(True, alias="fail-on-lost")
    machines: Path | None = None
    """The machines file, where shards ran without GitHub: what they left is fetched to `artifacts` first."""
    wait_minutes: float = Field(330.0, ge=0, alias="wait-minutes")
    of_run: str = Field("", alias="of-run", pattern=r"^[0-9]*$")
    """Id of the workflow run whose plan it is; empty: this one."""


@dataclass(frozen=True)
class _Result:
    """What the shards of a plan came to."""

    cells: int
    graded: int
    succeeded: int
    missing: Sequence[str]
    refused: int

    @property
    def lost(self) -> int:
        """Planned cells without a verdict."""
        return self.cells - self.graded


@click.command("plan")
@annotated
def plan_shards() -> None:
    """Divide an experiment into shards: writes plan.json, and the matrix of the jobs that run them."""
    from bench.base.files import write_atomic
    from bench.cli.plan import plan
    from bench.formats.plan import read_plan_file

    # Out of the environment first: nothing that this step starts may inherit it.
    token = os.environ.pop("MLDB_TOKEN", "")
    told = read_inputs(_PlanInputs)
    if told.machines is not None:
        _check_machines(told.engine, told.machines)
    file = work_folder("plan") / _PLAN
    words = ["--out", str(file), "--github-output", "--sandbox", told.sandbox, "--runner", told.runner]
    first = None
    if told.missing_from is not None:
        earlier = plan_in(told.missing_from)
        first = _plan_of_rounds(earlier)
        words += ["--missing-from", str(earlier)] if first is None else ["--next-round", str(first)]
    if told.results_repository != KEEP_LOCAL:
        words += ["--results", told.open(token), "--branch", told.results_branch]
    if not _settle_secret():
        words.append("--no-seed-secret")
        annotate_warning("without the secret MLDB_SEED_SECRET the data's seeds are public, and the results are marked")
    file.unlink(missing_ok=True)
    # After `--`, so that no input passes for an option.
    plan.main([*words, "--", *filter(None, [told.experiment]), *_overrides(told)], standalone_mode=False)
    if not file.is_file():
        set_outputs({"plan": "", "name": "", "artifacts": ""})
        return
    if first is not None:
        write_atomic(file.with_name(_FIRST), first.read_bytes())
    document = read_plan_file(file)
    set_outputs({"plan": str(file.parent), "name": document.name, "artifacts": _artifact_pattern(document)})


def _check_machines(engine: str, machines: Path) -> None:
    """Raise `UserError` for machines that GitHub would give no job: before a plan is made and published for them."""
    from datetime import UTC, datetime

    from bench.machines import read_settings

    read_settings(machines).check_runner_age(engine, datetime.now(UTC).date())


def _plan_of_rounds(earlier: Path) -> Path | None:
    """The plan of all rounds of an experiment that may end early, for an earlier plan of it; None for another one."""
    from bench.formats.plan import read_plan_file

    if all(run.sequential is None for run in read_plan_file(earlier).runs):
        return None
    first = earlier.with_name(_FIRST)
    return first if first.is_file() else earlier


def _artifact_pattern(document: PlanFile) -> str:
    """What the artifacts of the jobs of this matrix are called, and those of other rounds are not."""
    if all(run.sequential is None for run in document.runs):
        return artifact_of(document, "*")
    number, _, _ = document.shards[0].id.partition("-")
    return artifact_of(document, f"{number}-*")


def _overrides(told: _PlanInputs) -> Iterator[str]:
    for key, values in (("agents", told.agent), ("suites", told.suite), ("models", told.models)):
        if values:
            yield f"{key}={','.join(values)}"
    if told.trials is not None:
        yield f"trials={told.trials}"
    for line in told.overrides:
        if "=" not in line:
            raise UserError(f"field `overrides`: {line!r} is not KEY=VALUE", where="action inputs", remedy="correct it")
        yield line


@click.command("run-shard")
@annotated
def run_one_shard() -> None:
    """Run one shard of a plan; outputs are set before it starts, so that what is there is kept however it ends."""
    from bench.cli.run_shard import run_shard
    from bench.formats.plan import read_plan_file

    told = read_inputs(_ShardInputs)
    file = plan_in(told.plan)
    document = read_plan_file(file)
    shard = document.shard(told.shard)
    planned = {run.sandbox for run in document.runs}
    sandbox = told.sandbox or (planned.pop() if len(planned) == 1 else "auto")
    out = work_folder("shards") / artifact_of(document, shard.id)
    _settle_secret()
    set_outputs({"records": str(out), "artifact": out.name})
    words = ["--out", str(out), "--sandbox", sandbox, *(["--jobs", str(told.jobs)] if told.jobs else [])]
    with nothing_left(), commands_stopped():
        run_shard.main([*words, "--", str(file), shard.id], standalone_mode=False)


@click.command("collect")
@annotated
def collect_shards() -> None:
    """Check what the shards of a plan left, as untrusted data, and store it; the only step that writes."""
    from bench.cli.console import Ticker
    from bench.cli.results_collect import Rules, Target, collect_artifacts, show
    from bench.formats.plan import read_plan_file
    from bench.report import render

    token = os.environ.pop("MLDB_TOKEN", "")
    told = read_inputs(_CollectInputs)
    file = plan_in(told.plan)
    document = read_plan_file(file)
    stored = told.results_repository != KEEP_LOCAL
    repository = told.open(token) if stored else KEEP_LOCAL
    attempt = int(os.environ.get("GITHUB_RUN_ATTEMPT") or 1)
    kept = work_folder("kept")
    run_id = told.of_run or runner_variable("GITHUB_RUN_ID")
    run_url = f"{own_repository()}/actions/runs/{run_id}"
    rules = Rules(file, run_url=run_url, attempt=attempt, kept=kept, dry_run=not stored)
    if told.machines is not None:
        from bench.cli.action_batch import fetch_from_machines

        def place(shard: str) -> Path:
            return told.artifacts / artifact_of(document, shard)

        for line in fetch_from_machines(told.machines, run_id, place, 60 * told.wait_minutes):
            annotate_warning(line)
    found = _artifacts_of(document, told.artifacts)
    reports: list[Report] = []
    try:
        with commands_stopped(), Ticker(quiet=False) as ticker:
            reports += collect_artifacts(*found, rules, Target(repository, told.results_branch), ticker)
            show(reports, told.results_branch, dry_run=rules.dry_run, as_json=False)
    finally:
        # Also where the branch refused the first of several runs: what lies there is complete, and not stored.
        pending = _tell_pending(kept, repository, told.results_branch)
    result = _result_of(reports)
    commits = [report.committed.commit for report in reports if report.committed is not None]
    set_outputs(
        {
            "commit": commits[-1] if commits else "",
            "graded": str(result.graded),
            "succeeded": str(result.succeeded),
            "lost": str(result.lost),
            "refused": str(result.refused),
            "checksums": _checksums(reports),
            "decided": str(not stored or _decided(file, repository, told.results_branch)).lower(),
        }
    )
    records = [taken.record for report in reports for taken in report.collected.taken]
    add_summary(render(records, commit=commits[-1] if commits else ""))
    faults = _faults(result, told)
    for fault in faults:
        annotate_error(fault)
    if faults or pending:
        sys.exit(EXIT_FAILED)


def _decided(plan: Path, repository: str, branch: str) -> bool:
    """Whether no round is to follow: the look at the rounds that are stored is made here, by the job that may write."""
    from bench.base.text import escape
    from bench.cli.plan_earlier import make_looks

    first = _plan_of_rounds(plan)
    if first is None:
        return True
    lines, due = make_looks(first, repository, branch)
    for line in lines:
        click.echo(line)
    add_summary("\n".join(["## Looks", "", *(f"- {escape(line, 400)}" for line in lines), "", ""]))
    return not due


def _checksums(reports: Sequence[Report]) -> str:
    """A file with the digest and the path of each file of records that the branch holds now; empty where none is."""
    from bench.base.files import write_atomic

    lines = [f"{file.digest.removeprefix('sha256:')}  {file.path}\n" for it in reports for file in it.stored]
    if not lines:
        return ""
    path = work_folder("checksums") / "records.txt"
    write_atomic(path, "".join(lines).encode())
    return str(path)


def _artifacts_of(document: PlanFile, folder: Path) -> tuple[list[Artifact], list[Refusal]]:
    """The run folders that the shards were to bring, each from the artifact of its own shard; the rest is refused."""
    from bench.store import Artifact, Refusal

    artifacts: list[Artifact] = []
    refused: list[Refusal] = []
    wanted = {
        artifact_of(document, shard.id): {f"{part.run}-{shard.id}" for part in shard.parts} for shard in document.shards
    }
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        parts = wanted.get(path.name)
        if parts is None or path.is_symlink() or not path.is_dir():
            refused.append(Refusal(path.name, "is not the artifact of a planned shard"))
            continue
        for part in sorted(path.iterdir()):
            if part.name in parts and part.is_dir() and not part.is_symlink():
                artifacts.append(Artifact(part.name, part))
            else:
                refused.append(Refusal(f"{path.name}/{part.name}", "was given to another job, or to none"))
    return artifacts, refused


def _result_of(reports: Sequence[Report]) -> _Result:
    records = [taken.record for report in reports for taken in report.collected.taken]
    missing = [cell for report in reports for cell in report.collected.missing]
    graded = [record for record in records if record.outcome == "graded"]
    return _Result(
        cells=len(records) + len(missing),
        graded=len(graded),
        succeeded=sum(bool(record.success) for record in graded),
        missing=missing,
        refused=sum(len(report.refused) + report.collected.untold for report in reports),
    )


def _faults(result: _Result, told: _CollectInputs) -> list[str]:
    """Why the job fails; empty when it does not."""
    faults = []
    if result.refused:
        faults.append(f"{result.refused} files of the shards were refused: the log and the summary name each")
    # What never started is no less lost than what was: without this, a job that was skipped would pass for done.
    if result.missing or (result.lost and told.fail_on_lost):
        named = ", ".join([*result.missing[:_MOST_NAMED], *(["..."] if len(result.missing) > _MOST_NAMED else [])])
        faults.append(
            f"{result.lost} of {result.cells} cells have no verdict; {len(result.missing)} have no record"
            f"{f' ({named})' if named else ''}: start this workflow anew with missing-from "
            f"{runner_variable('GITHUB_RUN_ID')}, which runs just these"
        )
    return faults


def _tell_pending(kept: Path, repository: str, branch: str) -> bool:
    """Name what could not be stored, and the one command that stores it later; whether there is anything."""
    pending = [path for path in kept.iterdir() if (path / "bundle.json").is_file() and not path.name.startswith(".")]
    if not pending:
        return False
    number, attempt = runner_variable("GITHUB_RUN_ID"), os.environ.get("GITHUB_RUN_ATTEMPT") or "1"
    name = f"mldb-kept-{number}-{attempt}"
    set_outputs({"kept": str(kept), "kept-artifact": name})
    own = shlex.quote(runner_variable("GITHUB_REPOSITORY"))
    target = f"--results {shlex.quote(repository)} --branch {shlex.quote(branch)}"
    annotate_error(
        f"the records could not be stored, and are kept in the artifact {name}; resume with: gh run download {number} "
        f"--repo {own} --name {name} --dir {name} && ml-dev-bench results push {name}/* {target}"
    )
    return True


def _settle_secret() -> bool:
    """Take a secret that is empty, or `none`, out of the environment: it is none. Whether there is one."""
    given = os.environ.get(_SECRET, "").strip()
    if given in ("", "none"):
        os.environ.pop(_SECRET, None)
        return False
    return True


def artifact_of(document: PlanFile, shard: str) -> str:
    """The name of a shard's artifact, which no other workflow run and no other attempt at planning gives."""
    return f"{document.name}-{shard}"


def plan_in(path: Path) -> Path:
    """plan.json at `path`, or in the folder that its artifact made; of several attempts at planning the last."""
    if not path.is_dir() or (path / _PLAN).is_file():
        return path / _PLAN if path.is_dir() else path

    def attempt(file: Path) -> int:
        number = file.parent.name.rpartition("-")[2]
        return int(number) if number.isascii() and number.isdigit() else 0

    return max(path.glob(f"*/{_PLAN}"), key=attempt, default=path / _PLAN)


def work_folder(name: str) -> Path:
    folder = Path(runner_variable("RUNNER_TEMP")) / "ml-dev-bench" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
