"""A night on jobs of AWS Batch, from plan to site: one of them is ended, and the next night completes it.

moto keeps the jobs, and each is a container on this machine: in mode `shard` it runs the shard, in mode `runner` it is
the runner of its matrix entry.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.store.branch import ResultsBranch
from tests.helpers.aws_batch import (
    SECRETS,
    Stack,
    container_of,
    docker,
    has_stored,
    jobs_of_queue,
    said_by,
    unended_jobs,
)
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.workflows.rehearsal.machine_night import CELLS, REPOSITORY, SECRET, MachineNight, Repository

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.docker, pytest.mark.timeout(3000)]

MACHINE = {"name": "box", "labels": ["self-hosted"], "cpus": 1, "memory_mb": 4096, "setup_s": 0, "count": 2}
BUDGET_USD = 4.0
AROUND_HOURS = 0.25
"""Paid besides a job: the boot of its machine, and the minutes until Batch ends it."""


@dataclass
class World:
    """A repository, its results, and the two services that it needs."""

    stack: Stack
    hub: Service
    repository: Repository

    @property
    def mode(self) -> str:
        return self.stack.options.mode

    def night(self, number: int, missing_from: MachineNight | None = None) -> MachineNight:
        self.hub.actions.make_run(number, "a" * 40)["status"] = "in_progress"
        return MachineNight(self.repository, number, missing_from)

    def started(self, night: MachineNight) -> dict[str, dict[str, Any]]:
        """The job of each shard of the night; in mode `runner` each with the entry of the matrix before it."""
        entries = night.provision(BUDGET_USD)
        assert bool(entries) == (self.mode == "runner")
        for entry in entries:
            (label,) = entry["labels"]
            self.hub.runners.service.queue(label, night.job(entry))
        mine = [job for job in jobs_of_queue() if job["tags"]["mldb-run"] == str(night.number)]
        return {job["tags"]["mldb-shard"]: job for job in mine}

    def interrupt(self, job: dict[str, Any], how: str) -> None:
        """Once it has stored a record and has more to do: as ECS ends tasks of a spot machine, or with the machine."""
        name = container_of(job)
        while not has_stored(job):
            assert job["jobId"] in {it["jobId"] for it in unended_jobs()}, said_by(now_of(job))
            time.sleep(0.1)
        if how == "noticed":
            assert docker("stop", "--time", "30", name)
            return
        assert docker("kill", name)
        for lost in self.hub.runners.service.jobs:
            if lost.runner and lost.asked["variables"]["MLDB_SHARD"] == job["tags"]["mldb-shard"]:
                self.hub.runners.service.lose(lost)

    def collect(self, night: MachineNight, status: int = 0) -> subprocess.CompletedProcess[str]:
        """When all of its jobs have ended."""
        while unended_jobs():
            time.sleep(0.2)
        if self.mode == "shard":
            return night.collect(status, MLDB_MACHINES="machines.yaml", MLDB_WAIT_MINUTES="1")
        night.upload(self.hub.runners.service.artifacts)
        return night.collect(status)


def now_of(job: dict[str, Any]) -> dict[str, Any]:
    return next(it for it in jobs_of_queue() if it["jobId"] == job["jobId"])


def paid_usd(jobs: dict[str, dict[str, Any]], usd_per_hour: float) -> float:
    """By what Batch says of the jobs, and what is around them."""
    ended = [now_of(job) for job in jobs.values()]
    hours = [(job["stoppedAt"] - job["startedAt"]) / 3_600_000 + AROUND_HOURS for job in ended]
    return float(sum(hours) * usd_per_hour)


@pytest.fixture
def world(batch_stack: Callable[[str], Stack], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    stack = batch_stack(request.param)
    price = stack.options.machines["box"].usd_per_hour
    with github_rest(REPOSITORY) as hub:
        told = {"MLDB_ENGINE": "batch"}
        if request.param == "runner":
            told |= {"MLDB_RUNNER_TOKEN": TOKEN, "GITHUB_API_URL": hub.api}
        machine = {**MACHINE, "usd_per_hour": price}
        yield World(stack, hub, Repository(tmp_path, machine, {"max_hours": 2, **stack.settings}, told))


@pytest.mark.parametrize(
    ("world", "how"),
    [("shard", "noticed"), ("shard", "lost"), ("runner", "noticed"), ("runner", "lost")],
    indirect=["world"],
)
def test_a_night_loses_a_job_and_the_next_one_completes_it(world: World, how: str) -> None:
    assert SECRETS["seed"] == SECRET
    first = world.night(99)
    assert len(first.document.shards) == 2
    jobs = world.started(first)
    assert sorted(jobs) == [shard.id for shard in first.document.shards]
    world.interrupt(jobs["box-001"], how)
    done = world.collect(first, 1)
    assert "start this workflow anew with missing-from 99" in done.stdout
    assert now_of(jobs["box-001"])["status"] == "FAILED" or (world.mode, how) == ("runner", "noticed")
    earlier = list(ResultsBranch(world.repository.results).records())
    graded = {record.cell for record in earlier if record.outcome == "graded"}
    outcomes = {record.outcome for record in earlier}
    assert outcomes == ({"graded", "interrupted"} if how == "noticed" else {"graded"})
    assert CELLS / 2 <= len(graded) < CELLS
    assert first.outputs["lost"] == str(CELLS - len(graded)) and first.outputs["refused"] == "0"
    first.release()
    assert not world.hub.runners.records

    second = world.night(100, missing_from=first)
    cells = {cell.cell for run in second.document.runs for cell in run.cells}
    assert cells == {cell.cell for run in first.document.runs for cell in run.cells} - graded
    again = world.started(second)
    world.collect(second)
    assert {now_of(job)["status"] for job in again.values()} == {"SUCCEEDED"}
    assert {name: second.outputs[name] for name in ("lost", "refused")} == {"lost": "0", "refused": "0"}
    # The night is over: its jobs have ended themselves, and there is nothing left to end.
    assert "ended" not in second.release().stdout
    for run in world.hub.actions.runs.values():
        run["status"] = "completed"
    assert second.sweep().stdout.strip().endswith("batch: 0 left behind, 0 in order")
    assert not world.hub.runners.records and not unended_jobs()
    held = docker("ps", "--all", "--format", "{{.Names}}").split()
    assert not {name[-36:] for name in held} & {job["jobId"] for job in jobs_of_queue()}

    records = [it for it in ResultsBranch(world.repository.results).records() if it.outcome == "graded"]
    assert len(records) == CELLS == len({record.cell for record in records}) and all(it.success for it in records)
    assert {record.provenance.sandbox for record in records} == {"bubblewrap"}
    assert {record.seed_source for record in records} == {"secret"}
    second.check_site()
    price = world.stack.options.machines["box"].usd_per_hour
    assert paid_usd(jobs, price) <= first.quoted_usd <= BUDGET_USD
    assert paid_usd(again, price) <= second.quoted_usd <= BUDGET_USD
    told = "".join(said_by(now_of(job)) for job in [*jobs.values(), *again.values()])
    assert SECRET not in told and TOKEN not in told
