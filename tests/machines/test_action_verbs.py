"""`ml-dev-bench action provision`, `release` and `sweep` with the engine `ec2`, as real processes of a runner."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto.server import ThreadedMotoServer

from bench.cli.action_shards import plan_digest
from bench.machines.batch.shard_place import unpack_inputs
from tests.helpers.aws import Cloud, cloud, tags_of
from tests.helpers.aws_batch import REGION, make_stack, waiting_jobs
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.helpers.machines import options_for, sky_options
from tests.helpers.skypilot import Pilot, skypilot
from tests.workflows.rehearsal.stage import HERE
from tests.workflows.rehearsal.step_runner import StepRunner, errors

REPOSITORY = "stranger/agent"
MACHINE = {"name": "box", "labels": ["self-hosted"], "cpus": 1, "memory_mb": 4096, "setup_s": 0, "count": 2}
EXPERIMENT = {
    "name": "nightly",
    "agents": ["./agent.yaml"],
    "cases": ["hello_world"],
    "trials": 2,
    "shard_minutes": 1,
    "machines": [MACHINE],
}


@dataclass
class Stage:
    cloud: Cloud
    hub: Service
    runner: StepRunner
    plan: str

    def facts(self, **changes: str) -> dict[str, str]:
        told = {"ENGINE": "ec2", "MACHINES": "machines.yaml", "PLAN": self.plan, "RUNNER_TOKEN": TOKEN}
        told |= {"BUDGET_USD": "20", "PAUSE_SECONDS": "0"}
        return {f"MLDB_{name}": value for name, value in {**told, **changes}.items()} | {"GITHUB_API_URL": self.hub.api}

    @property
    def machines(self) -> int:
        return len(self.cloud.instances(REPOSITORY))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> StepRunner:
    runner = StepRunner(tmp_path_factory.mktemp("night") / "runner")
    for name in ("agent.yaml", "greeter.py"):
        shutil.copyfile(HERE / "stranger" / name, runner.workspace / name)
    (runner.workspace / "nightly.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    told = {"MLDB_EXPERIMENT": "nightly.yaml", "MLDB_SANDBOX": "process", "MLDB_RESULTS_REPOSITORY": "none"}
    runner.step("plan", **told, MLDB_SEED_SECRET="one secret of the repository")
    return runner


@pytest.fixture
def stage(plan: StepRunner) -> Iterator[Stage]:
    folder = str(plan.folder / "temp" / "ml-dev-bench" / "plan")
    with cloud() as aws, github_rest(REPOSITORY) as hub:
        hub.actions.make_run(99, "a" * 40)["status"] = "in_progress"
        settings = {"max_hours": 2, "ec2": options_for(aws).model_dump(mode="json")}
        (plan.workspace / "machines.yaml").write_text(yaml.safe_dump(settings))
        yield Stage(aws, hub, plan, folder)


@pytest.mark.slow
def test_from_provision_to_a_sweep_that_finds_nothing(stage: Stage) -> None:
    planned = [{"shard": name, "labels": ["self-hosted"], "minutes": 12} for name in ("box-001", "box-002")]
    matrix = json.dumps({"include": planned})
    done = stage.runner.step("provision", **stage.facts(MATRIX=matrix))
    outputs = stage.runner.outputs
    labels = json.loads(outputs["labels"])
    assert outputs["single-use"] == "true" and set(labels) == {"box-001", "box-002"}
    names = {tags_of(it)["mldb-shard"]: tags_of(it)["Name"] for it in stage.cloud.instances(REPOSITORY)}
    assert {shard: [name] for shard, name in names.items()} == labels
    entries = json.loads(outputs["matrix"])["include"]
    assert entries == [{**entry, "labels": labels[str(entry["shard"])]} for entry in planned]
    registered = {it["labels"][0]["name"] for it in stage.hub.runners.records.values()}
    assert registered == set(names.values()), "each runner has the label of its own shard"
    assert "| g5.xlarge in us-west-2 | 2 | 1.0060 |" in done.stdout
    assert TOKEN not in done.stdout + done.stderr
    leases = stage.runner.folder / "temp" / "ml-dev-bench" / "machines" / "leases.jsonl"
    assert [json.loads(line)["shard"] for line in leases.read_text().splitlines()] == ["box-001", "box-002"]

    stage.runner.step("provision", **stage.facts())
    assert json.loads(stage.runner.outputs["labels"]) == labels and stage.machines == 2, "asked again, none is added"

    stage.runner.step("sweep", **stage.facts())
    assert stage.machines == 2, "machines of a run that goes on are in order"
    done = stage.runner.step("release", **{**stage.facts(), "MLDB_PLAN": ""})
    assert done.stdout.count("ended machine") == 2 and not stage.hub.runners.records
    assert stage.cloud.left_over(REPOSITORY) == []
    stage.runner.step("sweep", **stage.facts())


@pytest.mark.slow
def test_a_sweep_that_finds_something_is_red(stage: Stage) -> None:
    stage.runner.step("provision", **stage.facts())
    stage.hub.actions.runs[99]["status"] = "completed"
    done = stage.runner.step("sweep", 1, **stage.facts())
    assert done.stdout.count("attempt 1 of run 99 is over") == 2
    assert stage.cloud.left_over(REPOSITORY) == [] and not stage.hub.runners.records


@pytest.mark.slow
def test_machines_are_ended_also_where_github_does_not_answer(stage: Stage) -> None:
    stage.runner.step("provision", **stage.facts())
    stage.hub.token = "another"
    done = stage.runner.step("release", 1, **stage.facts())
    assert stage.machines == 0 and "GitHub answered 401" in errors(done)[0]
    done = stage.runner.step("release", 1, **{**stage.facts(), "MLDB_RUNNER_TOKEN": ""})
    assert "the right to register runners is missing" in errors(done)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"BUDGET_USD": ""}, "field `budget-usd`"),
        ({"BUDGET_USD": "0.5"}, "and the budget is 0.50 USD"),
        ({"RUNNER_TOKEN": ""}, "the right to register runners is missing"),
        ({"RUNNER_TOKEN": "wrong"}, "GitHub answered 401"),
        ({"MATRIX": '{"include": [{"shard": "other"}]}'}, "field `matrix`: is not of this plan"),
        ({"MACHINES": "agent.yaml"}, "agent.yaml: field"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_made(stage: Stage, changes: dict[str, str], fault: str) -> None:
    done = stage.runner.step("provision", 2, **stage.facts(**changes))
    assert fault in errors(done)[0] and stage.machines == 0 and not stage.hub.runners.records


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_provision_releases_what_it_has_made(stage: Stage, number: int) -> None:
    """As GitHub does it, while the second machine is asked for."""
    stage.cloud.delay_s = 1.0
    process = start(stage)
    until = time.monotonic() + 120
    while not stage.cloud.instances(REPOSITORY) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert process.returncode not in (0, None) and "Traceback" not in said
    assert stage.cloud.left_over(REPOSITORY) == [] and not stage.hub.runners.records


@pytest.mark.parametrize(("engine", "age"), [("batch", 31), ("ec2", 31), ("sky", 31), ("batch", 30)])
def test_a_runner_that_is_too_old_for_github_is_refused_before_a_plan_is_made(
    engine: str, age: int, tmp_path: Path
) -> None:
    released = (datetime.now(UTC).date() - timedelta(days=age)).isoformat()
    place = {"region": "eu-west-1", "image": "ami-1", "subnets": ["subnet-1"]}
    batch = {"queue": "q", "definition": "mldb:1", "usd_per_hour": 1, "priced": "2026-11-20"}
    sections: dict[str, dict[str, object]] = {
        "ec2": {"places": [place], "machines": {"box": {"types": ["g5.xlarge"]}}},
        "batch": {"region": "eu-west-1", "machines": {"box": batch}},
        "sky": sky_options().model_dump(exclude_defaults=True),
    }
    runner = StepRunner(tmp_path / "runner")
    text = yaml.safe_dump({engine: {**sections[engine], "runner_released": released}})
    (runner.workspace / "machines.yaml").write_text(text)
    told = {"ENGINE": engine, "MACHINES": "machines.yaml", "EXPERIMENT": "nowhere.yaml", "RESULTS_REPOSITORY": "none"}
    done = runner.step("plan", 2, **{f"MLDB_{name}": value for name, value in told.items()})
    old = f"{engine}: the runner in the image was released {age} days ago"
    assert (old if age > 30 else "nowhere.yaml") in errors(done)[0]


@pytest.mark.slow
def test_machines_get_the_plan_that_was_told_and_not_one_of_another_job(
    plan: StepRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs of mode `shard` run what provision packs, with the keys of the job definition."""
    honest = plan.folder / "temp" / "ml-dev-bench" / "plan" / "plan.json"
    for name, text in (("1", honest.read_text()), ("9", honest.read_text().replace("greeter/", "rival/"))):
        (tmp_path / f"mldb-plan-99-{name}").mkdir()
        (tmp_path / f"mldb-plan-99-{name}" / "plan.json").write_text(text)
    with batch_server(monkeypatch) as settings:
        (plan.workspace / "batch.yaml").write_text(yaml.safe_dump({"max_hours": 2, **settings}))
        told = {"ENGINE": "batch", "MACHINES": "batch.yaml", "BUDGET_USD": "20"}
        told |= {"PLAN": str(tmp_path), "PLAN_DIGEST": plan_digest(honest)}
        plan.step("provision", **{f"MLDB_{name}": value for name, value in told.items()})
        s3 = boto3.client("s3", region_name=REGION)
        listed = s3.list_objects_v2(Bucket="mldb-bundles")["Contents"]
        inputs = [s3.get_object(Bucket="mldb-bundles", Key=it["Key"])["Body"].read() for it in listed]
    assert len(inputs) == 2
    for number, packed in enumerate(inputs):
        unpack_inputs(packed, tmp_path / f"machine-{number}")
        assert (tmp_path / f"machine-{number}" / "plan.json").read_bytes() == honest.read_bytes()


@contextmanager
def batch_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """AWS Batch over HTTP, and the machines file for its stack."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    told = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    try:
        # moto keeps what an earlier server was told.
        urllib.request.urlopen(urllib.request.Request(f"{address}/moto-api/reset", method="POST")).close()
        with waiting_jobs(monkeypatch):
            yield make_stack(Mode="shard").settings
    finally:
        server.stop()


@pytest.fixture
def sky(plan: StepRunner) -> Iterator[tuple[Pilot, StepRunner, dict[str, str]]]:
    """The step of the same plan with the engine `sky`, and its variables."""
    with skypilot() as pilot, github_rest(REPOSITORY) as hub:
        hub.actions.make_run(99, "a" * 40)["status"] = "in_progress"
        settings = {"max_hours": 2, "sky": sky_options(identity="itself").model_dump(mode="json")}
        (plan.workspace / "sky.yaml").write_text(yaml.safe_dump(settings))
        told = {"ENGINE": "sky", "MACHINES": "sky.yaml", "RUNNER_TOKEN": TOKEN, "BUDGET_USD": "20"}
        told |= {"PLAN": str(plan.folder / "temp" / "ml-dev-bench" / "plan"), "PAUSE_SECONDS": "0"}
        facts = {f"MLDB_{name}": value for name, value in told.items()}
        yield pilot, plan, {**facts, **pilot.environment, "GITHUB_API_URL": hub.api}


@pytest.mark.slow
def test_clusters_of_skypilot_from_provision_to_a_sweep(sky: tuple[Pilot, StepRunner, dict[str, str]]) -> None:
    pilot, runner, facts = sky
    done = runner.step("provision", **facts)
    labels = json.loads(runner.outputs["labels"])
    assert {it["labels"]["mldb-shard"] for it in pilot.clusters.values()} == set(labels) == {"box-001", "box-002"}
    assert {name.replace("mldb-", "") for name in pilot.clusters} == {
        it[0].replace("mldb-", "") for it in labels.values()
    }
    assert "| L4:1 in gcp/us-central1 or k8s/lab | 2 | 1.0000 |" in done.stdout
    secret = pilot.environment["SKYPILOT_SERVICE_ACCOUNT_TOKEN"]
    assert secret not in done.stdout + done.stderr and TOKEN not in done.stdout + done.stderr
    runner.step("sweep", **facts)
    assert len(pilot.clusters) == 2, "clusters of a run that goes on are in order"
    done = runner.step("release", **{**facts, "MLDB_PLAN": ""})
    assert done.stdout.count("ended machine") == 2 and not pilot.clusters
    runner.step("sweep", **facts)


@pytest.mark.slow
def test_sky_says_what_it_needs(sky: tuple[Pilot, StepRunner, dict[str, str]]) -> None:
    pilot, runner, facts = sky
    done = runner.step("provision", 2, **{**facts, "SKYPILOT_API_SERVER_ENDPOINT": ""})
    assert "SKYPILOT_API_SERVER_ENDPOINT: is not set" in errors(done)[0]
    trusting = (runner.workspace / "sky.yaml").read_text().replace("identity: itself", "identity: account")
    (runner.workspace / "sky.yaml").write_text(trusting)
    done = runner.step("provision", 2, **facts)
    assert "agent.yaml is not an agent of the benchmark" in errors(done)[0] and not pilot.clusters


def start(stage: Stage) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "bench", "action", "provision"],
        env=stage.runner.environment(**stage.facts()),
        cwd=stage.runner.workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
