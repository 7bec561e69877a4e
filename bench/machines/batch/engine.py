"""AWS Batch: a job for each shard, on a machine of its own that Batch starts for it and ends after it.

In the mode `runner` the job is the self-hosted runner of its matrix entry. In the mode `shard` it runs the shard by
itself, with no credential of GitHub. Both are tried once: a just-in-time configuration is spent by its first use, and
what a lost shard has not brought is planned again.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar

from bench.base.errors import UserError
from bench.machines.batch.client import Clients, aws_client, aws_errors
from bench.machines.batch.setup import require_sound, setup_faults
from bench.machines.batch.shard_place import ShardPlace
from bench.machines.boot import check_runner_age
from bench.machines.engine import Engine
from bench.machines.facts import Demand, Found, Machine, Quote, Registration, Registry, Released, State, SweepReport
from bench.machines.lease import EngineName, Lease, Scope, lease_of
from bench.machines.settings import BatchOptions

_STATES: Mapping[str, State] = {
    "SUBMITTED": "pending",
    "PENDING": "pending",
    "RUNNABLE": "pending",
    "STARTING": "running",
    "RUNNING": "running",
    "SUCCEEDED": "ended",
    "FAILED": "ended",
}
_MOST_DESCRIBED = 100
"""Jobs that one DescribeJobs takes."""
_OVERRIDE_BYTES = 8192
"""ECS refuses longer overrides of a container."""
_AROUND_HOURS = 0.25
"""Paid besides the job: the boot of its machine, and the minutes until Batch ends it."""
_LEAST_S = 60
"""Batch refuses a shorter timeout."""
CONFIGURATION = "MLDB_RUNNER_CONFIGURATION"
PREFIX = "MLDB_PREFIX"
INPUTS_DIGEST = "MLDB_INPUTS_DIGEST"
_TOLD = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_SHA")
"""Facts of the workflow run that a shard's records name. None of them is a secret."""


@dataclass(frozen=True)
class BatchJob:
    """A job that runs a shard, as `collect` sees it."""

    lease: Lease
    state: State
    reason: str
    """Why it ended; empty where Batch does not say."""
    prefix: str
    """Its own prefix of the bundles."""


class BatchEngine(Engine):
    """Jobs that are runners of GitHub."""

    name: ClassVar[EngineName] = "batch"

    def __init__(self, options: BatchOptions, clients: Clients = aws_client, today: date | None = None) -> None:
        self._options = options
        self.wait_hours = options.wait_hours
        self._batch = clients("batch", options.region)
        # SubmitJob has no client token, so the library must not repeat a call whose answer was lost.
        self._submitting = clients("batch", options.region, attempts=1)
        self._ec2 = clients("ec2", options.region)
        self._today = today or datetime.now(UTC).date()

    def quote(self, demands: Sequence[Demand]) -> list[Quote]:
        options = self._options
        unknown = [demand.machine for demand in demands if demand.machine not in options.machines]
        if unknown:
            remedy = f"add it to `batch.machines`, which has {', '.join(sorted(options.machines))}"
            raise UserError(f"class {unknown[0]!r} has neither a queue nor a price", where="batch", remedy=remedy)
        if options.mode == "runner":
            check_runner_age(options.runner_released, self._today, "batch")
        with aws_errors("batch"):
            require_sound(setup_faults(self._batch, self._ec2, options, demands))
        return [self._quote(demand) for demand in demands]

    def _quote(self, demand: Demand) -> Quote:
        one = self._options.machines[demand.machine]
        source = f"`usd_per_hour` of {one.priced.isoformat()}, with {_AROUND_HOURS} hours around the job"
        return Quote(demand.shard, one.queue.rpartition("/")[2], one.usd_per_hour, demand.hours + _AROUND_HOURS, source)

    def launch(self, lease: Lease, demand: Demand, runner: Registration | None) -> Machine:
        one = self._options.machines[demand.machine]
        with aws_errors(f"batch, shard {lease.shard}"):
            # What an earlier try has made is found by the job's name.
            earlier = [it for it in self._alive(one.queue, _job_name(lease)) if it.lease.id == lease.id]
            if earlier:
                return earlier[0]
            environment = {**self._environment(lease, runner), "MLDB_EXPIRES": str(int(lease.expires.timestamp()))}
            override = {"environment": [{"name": name, "value": value} for name, value in environment.items()]}
            _check_size(override)
            made = self._submitting.submit_job(
                jobName=_job_name(lease),
                jobQueue=one.queue,
                jobDefinition=one.definition,
                containerOverrides=override,
                retryStrategy={"attempts": 1},
                timeout={"attemptDurationSeconds": max(_LEAST_S, round(demand.hours * 3600))},
                propagateTags=True,
                tags=lease.tags(),
            )
        return Machine(made["jobId"], lease, "pending", "job", one.queue.rpartition("/")[2], one.usd_per_hour)

    def _environment(self, lease: Lease, runner: Registration | None) -> dict[str, str]:
        assert runner is not None, "registers"
        return {CONFIGURATION: runner.configuration}

    def find(self, scope: Scope) -> Found:
        machines: list[Machine] = []
        faults: list[str] = []
        for queue in sorted({one.queue for one in self._options.machines.values()}):
            try:
                with aws_errors(f"batch, queue {queue}"):
                    machines += [it for it in self._alive(queue, _job_names(scope)) if scope.holds(it.lease)]
            except UserError as error:
                faults.append(str(error))
        return Found(machines, faults)

    def release(self, machines: Sequence[Machine]) -> Released:
        ended: list[Machine] = []
        faults: list[str] = []
        for machine in machines:
            try:
                with aws_errors(f"batch, job {machine.id}"):
                    # Also of a job that waits: that one is cancelled. Of one that has ended, nothing.
                    self._batch.terminate_job(jobId=machine.id, reason="released by ml-dev-bench")
            except UserError as error:
                faults.append(str(error))
            else:
                ended.append(machine)
        return Released(ended, faults)

    def _alive(self, queue: str, name: str) -> Iterator[Machine]:
        for job, lease in self._jobs(queue, name, alive=True):
            started = job.get("startedAt")
            ending = job.get("isTerminated") or job.get("isCancelled")
            state = "ending" if ending else _STATES[job["status"]]
            yield Machine(
                job["jobId"],
                lease,
                state,
                "machine" if state == "running" else "job",
                queue.rpartition("/")[2],
                started=datetime.fromtimestamp(started / 1000, UTC) if started and state == "running" else None,
            )

    def _jobs(self, queue: str, name: str, *, alive: bool) -> Iterator[tuple[Mapping[str, Any], Lease]]:
        """Jobs by their name and, because any user of the queue may choose such a name, by their tags."""
        # With a filter, Batch lists jobs in all states.
        pages = self._batch.get_paginator("list_jobs").paginate(
            jobQueue=queue, filters=[{"name": "JOB_NAME", "values": [name]}]
        )
        listed = [it for page in pages for it in page["jobSummaryList"]]
        ids = [it["jobId"] for it in listed if not alive or _STATES[it["status"]] != "ended"]
        for first in range(0, len(ids), _MOST_DESCRIBED):
            for job in self._batch.describe_jobs(jobs=ids[first : first + _MOST_DESCRIBED])["jobs"]:
                lease = lease_of(job.get("tags", {}))
                if lease is not None and lease.engine == self.name:
                    yield job, lease


class ShardBatchEngine(BatchEngine):
    """Jobs that run a shard by themselves."""

    registers: ClassVar[bool] = False

    def __init__(
        self,
        options: BatchOptions,
        inputs: Callable[[], bytes] = bytes,
        clients: Clients = aws_client,
        today: date | None = None,
        told: Mapping[str, str] = os.environ,
    ) -> None:
        """inputs: gives the archive of the plan and its agents, which `launch` needs."""
        super().__init__(options, clients, today)
        self._inputs = functools.cache(inputs)
        self._told = {name: told[name] for name in _TOLD if told.get(name)}
        self._place = ShardPlace(clients("s3", options.region), options.bundles or "")

    def _environment(self, lease: Lease, runner: Registration | None) -> dict[str, str]:
        prefix, digest = self._place.put_inputs(lease, self._inputs())
        told = {PREFIX: prefix, INPUTS_DIGEST: digest, "MLDB_SHARD": lease.shard, "MLDB_REGION": self._options.region}
        return {**self._told, **told}

    def sweep(self, repository: str, registry: Registry | None, *, pause_s: float = 120.0) -> SweepReport:
        # Their workflow run may end before they do, which says nothing of them: only their lease does.
        return super().sweep(repository, None, pause_s=pause_s)

    def jobs(self, scope: Scope) -> list[BatchJob]:
        """All jobs of the scope, ended ones too, which Batch remembers for a week; raises `UserError`."""
        found: list[BatchJob] = []
        for queue in sorted({one.queue for one in self._options.machines.values()}):
            with aws_errors(f"batch, queue {queue}"):
                for job, lease in self._jobs(queue, _job_names(scope), alive=False):
                    told = {it["name"]: it["value"] for it in job.get("container", {}).get("environment", [])}
                    if scope.holds(lease):
                        state = _STATES[job["status"]]
                        found.append(BatchJob(lease, state, job.get("statusReason", ""), told.get(PREFIX, "")))
        return found

    def fetch_bundle(self, job: BatchJob, most: int) -> bytes | None:
        """The archive that the job has left, as untrusted data; None where it left none. Raises `UserError`."""
        with aws_errors(f"bundle of shard {job.lease.shard}"):
            return self._place.fetch_bundle(job.prefix, most)


def _job_name(lease: Lease) -> str:
    return f"{_job_names(Scope(lease.repository, lease.run, lease.attempt)).removesuffix('*')}{lease.id}"


def _job_names(scope: Scope) -> str:
    """The filter for the jobs of a scope: the digits are those of digests, since names of repositories do not fit."""
    name = f"mldb-{_digest(scope.repository.lower())}-"
    if scope.run:
        name += f"{_digest(scope.run)}-"
    return f"{name}{scope.attempt}-*" if scope.run and scope.attempt else f"{name}*"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _check_size(override: Mapping[str, Any]) -> None:
    size = sum(len(it["name"]) + len(it["value"]) + 24 for it in override["environment"])
    if size > _OVERRIDE_BYTES:
        raise UserError(
            f"what the job is told takes {size} bytes, and ECS takes {_OVERRIDE_BYTES}",
            where="batch",
            remedy="report this fault of ml-dev-bench",
        )
