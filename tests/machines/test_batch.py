"""The engine `batch` against moto, which checks each request by botocore's description of the service."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from bench.base.errors import UserError
from bench.machines.batch.client import aws_client
from bench.machines.batch.engine import BatchEngine, ShardBatchEngine
from bench.machines.batch.setup import setup_faults
from bench.machines.facts import Demand, Machine, Registration, utc_now
from bench.machines.lease import Lease, Scope
from bench.machines.provision import Run, provision_all, release_all
from bench.store import Caps, unpack_artifact
from tests.helpers.aws_batch import REGION, Stack, make_stack, waiting_jobs
from tests.helpers.sampling import at_night

TODAY = date(2026, 11, 23)
DEMANDS = [Demand(f"s{number}", "box", 2, 4000, 0, 1.5) for number in range(3)]
TOLD = {"GITHUB_REPOSITORY": "own/agent", "GITHUB_RUN_ID": "7", "GITHUB_TOKEN": "ghs_secret"}


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws(), waiting_jobs(monkeypatch):
        yield


@dataclass
class Calls:
    """Clients whose calls are kept; from one of them on, none is made or answered."""

    killed_at: int = -1
    answered: bool = False
    """Whether AWS still does what the last call asks for."""
    made: list[tuple[str, Any]] = field(default_factory=list)

    def clients(self, service: str, region: str, *, attempts: int = 5) -> Any:
        client = aws_client(service, region, attempts=attempts)
        client.meta.events.register("provide-client-params.*.*", self._before)
        client.meta.events.register("after-call.*.*", self._after)
        return client

    def _before(self, params: Any, model: Any, **rest: Any) -> None:
        number = len(self.made)
        self.made.append((model.name, params))
        if 0 <= self.killed_at < number or (number == self.killed_at and not self.answered):
            raise Killed

    def _after(self, **rest: Any) -> None:
        if len(self.made) - 1 == self.killed_at:
            raise Killed


@dataclass
class Records:
    """GitHub's runners."""

    names: dict[int, str] = field(default_factory=dict)
    removed: list[int] = field(default_factory=list)
    ended: bool = False

    def register(self, name: Callable[[], str], label: str) -> Registration:
        number = len(self.names) + 1
        self.names[number] = name()
        return _Registered(number, self.names[number], "Y29uZmln" * 600)

    def records(self) -> list[Any]:
        return [_Record(number, name) for number, name in self.names.items()]

    def remove(self, record: int) -> None:
        self.names.pop(record, None)
        self.removed.append(record)

    def has_ended(self, run: str, attempt: int) -> bool:
        return self.ended


@dataclass(frozen=True)
class _Registered:
    id: int
    name: str
    configuration: str


@dataclass(frozen=True)
class _Record:
    id: int
    name: str
    busy: bool = False


def _engine(stack: Stack, calls: Calls | None = None, today: date = TODAY) -> BatchEngine:
    clients = (calls or Calls()).clients
    if stack.options.mode == "runner":
        return BatchEngine(stack.options, clients, today)
    return ShardBatchEngine(stack.options, lambda: b"inputs", clients, today, TOLD)


def _run(number: str = "7", repository: str = "Own/agent") -> Run:
    return Run("batch", repository, number, 1)


def _provision(engine: BatchEngine, run: Run, records: Records, folder: Path) -> list[Machine]:
    registry = records if engine.registers else None
    return provision_all(engine, run, DEMANDS, budget_usd=100, registry=registry, leases=folder / "leases.jsonl")


def _alive() -> dict[str, dict[str, Any]]:
    """All jobs that have not ended, by their ids."""
    batch = boto3.client("batch", region_name=REGION)
    ids = [
        it["jobId"]
        for it in batch.list_jobs(jobQueue="mldb", filters=[{"name": "JOB_NAME", "values": ["*"]}])["jobSummaryList"]
    ]
    jobs = batch.describe_jobs(jobs=ids)["jobs"] if ids else []
    return {job["jobId"]: job for job in jobs if job["status"] not in ("SUCCEEDED", "FAILED")}


@pytest.mark.parametrize("mode", ["runner", "shard"])
def test_the_stack_is_sound_and_a_shard_is_one_job(mode: str, tmp_path: Path) -> None:
    calls = Calls()
    engine = _engine(make_stack(Mode=mode), calls)
    (quote, *_) = engine.quote(DEMANDS)
    assert (quote.usd_per_hour, quote.hours, quote.usd) == (0.5, 1.75, 0.875)

    machines = _provision(engine, _run(), Records(), tmp_path)
    submitted = [params for name, params in calls.made if name == "SubmitJob"]
    assert len(submitted) == len(machines) == 3
    for params in submitted:
        assert params["retryStrategy"] == {"attempts": 1} and params["propagateTags"]
        assert params["timeout"] == {"attemptDurationSeconds": 5400}
        assert params["tags"] in [machine.lease.tags() for machine in machines]
        told = {it["name"]: it["value"] for it in params["containerOverrides"]["environment"]}
        assert ("MLDB_RUNNER_CONFIGURATION" in told) is (mode == "runner")
        assert not any(value == "ghs_secret" for value in told.values())
    found = engine.find(Scope("own/agent", "7", 1))
    assert not found.faults and {it.id for it in found.machines} == {it.id for it in machines}
    assert {it.kind for it in found.machines} == {"job"}


def _break_job(resources: dict[str, Any]) -> None:
    job = resources["Definition"]["ContainerProperties"]
    cpus, memory = job["ResourceRequirements"]
    cpus["Value"], memory["Value"] = "1", "4000"
    job |= {"Image": "mldb:latest", "Privileged": False, "Environment": [{"Name": "OPENAI_API_KEY", "Value": "sk-1"}]}
    job["Volumes"] = [{"Host": {"SourcePath": "/var/run"}, "Name": "run"}]
    job.pop("JobRoleArn")


def _break_machines(resources: dict[str, Any]) -> None:
    resources["Machines"]["ComputeResources"] |= {"MinvCpus": 2, "InstanceTypes": ["m5.large", "m5.xlarge"]}
    resources["Template"]["LaunchTemplateData"]["MetadataOptions"]["HttpPutResponseHopLimit"] = 2


def _break_template(resources: dict[str, Any]) -> None:
    resources["Machines"]["ComputeResources"].pop("LaunchTemplate")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            _break_job,
            [
                "is not privileged",
                "image 'mldb:latest' is not named by its digest",
                "mounts folders of its machine",
                "OPENAI_API_KEY stands in the definition",
                "has no role with which it could write",
                "asks for 1 VCPU of the 2 of m5.large",
                "asks for 4000 MiB of the 8192 of m5.large",
                "shard s0 needs 2 VCPU, and the job gets 1",
            ],
        ),
        (_break_machines, ["set minvCpus to 0", "must name one instance type", "HttpPutResponseHopLimit 1"]),
        (_break_template, ["has no launch template"]),
    ],
)
def test_a_setup_that_breaks_promises_is_refused_before_anything_is_made(
    change: Callable[[dict[str, Any]], None], said: list[str]
) -> None:
    stack = make_stack(change=change, Mode="shard")
    ec2, batch = (Calls().clients(name, REGION) for name in ("ec2", "batch"))
    faults = setup_faults(batch, ec2, stack.options, DEMANDS[:1])
    assert len(faults) == len(said)
    assert all(wanted in fault for wanted, fault in zip(said, faults, strict=True)), faults
    with pytest.raises(UserError, match=re.escape(said[0])) as error:
        _engine(stack).quote(DEMANDS)
    assert "docs/machines-batch.md" in str(error.value)


def test_a_compute_environment_of_two_queues_and_a_shard_that_is_too_large_are_refused() -> None:
    stack = make_stack(Mode="shard")
    boto3.client("batch", region_name=REGION).create_job_queue(
        jobQueueName="other",
        state="ENABLED",
        priority=1,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": stack.environment}],
    )
    with pytest.raises(UserError, match="serves mldb and other"):
        _engine(stack).quote(DEMANDS)
    with pytest.raises(UserError, match="class 'gpu' has neither a queue nor a price"):
        _engine(stack).quote([Demand("s", "gpu", 1, 1, 0, 1)])
    with pytest.raises(UserError, match="shard s needs 1 GPU"):
        _engine(stack).quote([Demand("s", "box", 1, 1, 1, 1)])


def test_a_runner_that_github_may_refuse_is_refused_here() -> None:
    stack = make_stack(Mode="runner")
    _engine(stack, today=date(2026, 12, 20)).quote(DEMANDS)
    with pytest.raises(UserError, match="released 31 days ago"):
        _engine(stack, today=date(2026, 12, 21)).quote(DEMANDS)


def test_the_answer_to_a_submission_is_lost_and_the_job_is_found(tmp_path: Path) -> None:
    stack = make_stack(Mode="shard")
    lease = Lease("batch", "own/agent", "7", 1, "s0", utc_now() + timedelta(hours=1))
    quiet = Calls()
    _engine(stack, quiet).launch(lease, DEMANDS[0], None)
    at = [name for name, _ in quiet.made].index("SubmitJob")
    second = Lease("batch", "own/agent", "7", 1, "s1", lease.expires)
    with pytest.raises(Killed):
        _engine(stack, Calls(at, answered=True)).launch(second, DEMANDS[1], None)
    assert _engine(stack).launch(second, DEMANDS[1], None).lease == second
    assert len(_alive()) == 2


def _calls_of_provision(stack: Stack, folder: Path) -> int:
    calls = Calls()
    engine = _engine(stack, calls)
    _provision(engine, _run("counted"), Records(), folder)
    made = len(calls.made)
    release_all(engine, _run("counted").scope, None)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["runner", at_night("shard")])
def test_killed_at_any_call_of_provision_nothing_is_left_and_others_keep_theirs(mode: str, tmp_path: Path) -> None:
    """Killed before AWS does what is asked, and after it: not even an exit handler runs."""
    stack = make_stack(Mode=mode)
    theirs = {it.id for it in _provision(_engine(stack), _run("7", "other/agent"), Records(), tmp_path)}
    batch = boto3.client("batch", region_name=REGION)
    foreign = batch.submit_job(jobName="mldb-by-hand", jobQueue="mldb", jobDefinition=stack.definition)
    theirs.add(foreign["jobId"])
    earlier = {it.id for it in _provision(_engine(stack), _run("6"), Records(), tmp_path)}
    count = _calls_of_provision(stack, tmp_path)
    assert count > 10
    left = 0
    for number in range(count):
        for answered in (False, True):
            records = Records()
            with pytest.raises(Killed):
                _provision(_engine(stack, Calls(number, answered)), _run(), records, tmp_path)
            left += len(_alive().keys() - theirs - earlier)
            engine = _engine(stack)
            report = release_all(engine, _run().scope, records if engine.registers else None)
            assert not report.faults and not records.names
            assert _alive().keys() == theirs | earlier
    assert left > 10, "the kills left nothing to release"
    # No release came: the sweep finds the run's end in GitHub, or the end of the leases in the tags.
    engine = _engine(stack)
    later = datetime.now(UTC) + timedelta(hours=4)
    from bench.machines.sweeping import sweep

    registry = Records(ended=True) if mode == "runner" else None
    report_of_sweep = sweep(
        engine, "own/agent", registry, pause_s=0, clock=lambda: later if mode == "shard" else datetime.now(UTC)
    )
    assert len(report_of_sweep.ended) == len(earlier) and not report_of_sweep.faults
    assert _alive().keys() == theirs


def test_a_queue_that_cannot_be_asked_is_a_fault_and_not_an_absence() -> None:
    stack = make_stack(Mode="shard")
    machine = stack.options.machines["box"]
    options = stack.options.model_copy(
        update={"machines": {"box": machine, "gone": machine.model_copy(update={"queue": "gone"})}}
    )
    found = ShardBatchEngine(options, bytes, Calls().clients, TODAY, {}).find(Scope("own/agent"))
    assert not found.machines and "queue gone" in found.faults[0]


def test_a_bundle_is_fetched_once_it_is_there_and_only_from_below_the_root(tmp_path: Path) -> None:
    stack = make_stack(Mode="shard")
    engine = ShardBatchEngine(stack.options, lambda: b"inputs", Calls().clients, TODAY, TOLD)
    _provision(engine, _run(), Records(), tmp_path)
    (first, *_) = engine.jobs(Scope("own/agent", "7", 1))
    assert engine.fetch_bundle(first, 1000) is None
    bucket, _, key = first.prefix.removeprefix("s3://").partition("/")
    s3 = boto3.client("s3", region_name=REGION)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as bundle:
        bundle.writestr("run-s0/run.json", "{}")
    s3.put_object(Bucket=bucket, Key=f"{key}/bundle.zip", Body=packed.getvalue())
    content = engine.fetch_bundle(first, 1000)
    assert content is not None
    unpack_artifact(content, tmp_path / "artifact", Caps())
    assert (tmp_path / "artifact" / "run-s0" / "run.json").is_file()
    with pytest.raises(UserError, match="more than 10 bytes"):
        engine.fetch_bundle(first, 10)
    other = type(first)(first.lease, "ended", "", "s3://elsewhere/shards/x")
    with pytest.raises(UserError, match="is not below"):
        engine.fetch_bundle(other, 1000)
