"""`ml-dev-bench action plan` and `run-shard`: the matrix of an experiment, and one job of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from pydantic import BeforeValidator, Field

from bench.base.errors import UserError
from bench.base.model import Model
from bench.cli.action_inputs import (
    KEEP_LOCAL,
    Words,
    annotated,
    nothing_left,
    read_inputs,
)
from bench.cli.action_shards import (
    FIRST,
    PLAN,
    BranchInputs,
    PlanDigest,
    artifact_of,
    plan_digest,
    plan_in,
    plan_of_rounds,
    settle_secret,
    work_folder,
)
from bench.formats.shards import RunnerKind
from bench.github import annotate_warning, commands_stopped, set_outputs

if TYPE_CHECKING:
    from bench.formats.plan import PlanFile


def _lines(value: object) -> object:
    return [line.strip() for line in value.splitlines() if line.strip()] if isinstance(value, str) else value


class _PlanInputs(BranchInputs):
    """What is to be planned: an experiment file, or what the other inputs say."""

    experiment: str = ""
    overrides: Annotated[list[str], BeforeValidator(_lines)] = []
    agent: Words = []
    suite: Words = []
    models: Words = []
    trials: int | None = Field(None, ge=1, le=1000)
    missing_from: Path | None = Field(None, alias="missing-from")
    missing_from_digest: PlanDigest = Field("", alias="missing-from-digest")
    sandbox: Literal["auto", "docker", "bubblewrap", "process"] = "auto"
    runner: RunnerKind = "auto"
    engine: Literal["", "label", "local", "ec2", "batch", "sky"] = ""
    machines: Path | None = None
    """The machines file of that engine, where the plan shall be refused for what only its age says."""


class _ShardInputs(Model):
    plan: Path
    plan_digest: PlanDigest = Field("", alias="plan-digest")
    shard: str
    jobs: int | None = Field(None, ge=1, le=256)
    sandbox: Literal["", "auto", "docker", "bubblewrap", "process"] = ""


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
    file = work_folder("plan") / PLAN
    words = ["--out", str(file), "--github-output", "--sandbox", told.sandbox, "--runner", told.runner]
    first = None
    if told.missing_from is not None:
        earlier = plan_in(told.missing_from, told.missing_from_digest)
        first = plan_of_rounds(earlier)
        words += ["--missing-from", str(earlier)] if first is None else ["--next-round", str(first)]
    if told.results_repository != KEEP_LOCAL:
        words += ["--results", told.open(token), "--branch", told.results_branch]
    if not settle_secret():
        words.append("--no-seed-secret")
        annotate_warning("without the secret MLDB_SEED_SECRET the data's seeds are public, and the results are marked")
    file.unlink(missing_ok=True)
    # After `--`, so that no input passes for an option.
    plan.main([*words, "--", *filter(None, [told.experiment]), *_overrides(told)], standalone_mode=False)
    if not file.is_file():
        set_outputs({"plan": "", "name": "", "digest": "", "artifacts": ""})
        return
    if first is not None:
        write_atomic(file.with_name(FIRST), first.read_bytes())
    document = read_plan_file(file)
    outputs = {"name": document.name, "digest": plan_digest(file), "artifacts": _artifact_pattern(document)}
    set_outputs({"plan": str(file.parent), **outputs})


def _check_machines(engine: str, machines: Path) -> None:
    """Raise `UserError` for machines that GitHub would give no job: before a plan is made and published for them."""
    from datetime import UTC, datetime

    from bench.machines import read_settings

    read_settings(machines).check_runner_age(engine, datetime.now(UTC).date())


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
    file = plan_in(told.plan, told.plan_digest)
    document = read_plan_file(file)
    shard = document.shard(told.shard)
    planned = {run.sandbox for run in document.runs}
    sandbox = told.sandbox or (planned.pop() if len(planned) == 1 else "auto")
    out = work_folder("shards") / artifact_of(document, shard.id)
    settle_secret()
    set_outputs({"records": str(out), "artifact": out.name})
    words = ["--out", str(out), "--sandbox", sandbox, *(["--jobs", str(told.jobs)] if told.jobs else [])]
    with nothing_left(), commands_stopped():
        run_shard.main([*words, "--", str(file), shard.id], standalone_mode=False)
