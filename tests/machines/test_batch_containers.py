"""Jobs of AWS Batch as real containers, by moto's Docker back end: three shards to one collected result.

The image is that of scripts/machine_image; MLDB_MACHINE_IMAGE names one that is there already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto.server import ThreadedMotoServer

from bench.store.branch import ResultsBranch
from tests.helpers.aws_batch import REGION, Stack, as_containers, make_stack
from tests.helpers.cells import not_here
from tests.workflows.rehearsal.stage import HERE, ROOT
from tests.workflows.rehearsal.step_runner import StepRunner

pytestmark = [pytest.mark.nightly, pytest.mark.docker, pytest.mark.timeout(3000)]

SECRETS = {"seed": "one secret of the repository", "key": "sk-of-the-model"}
MACHINE = {"name": "box", "labels": ["self-hosted"], "cpus": 1, "memory_mb": 4096, "setup_s": 0, "count": 3}


@pytest.fixture(scope="module")
def image() -> str:
    """The content id of the image of jobs."""
    if named := os.environ.get("MLDB_MACHINE_IMAGE"):
        return subprocess.run(
            ["docker", "image", "inspect", "--format", "{{.Id}}", named], capture_output=True, text=True, check=True
        ).stdout.strip()
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        not_here("jobs as containers need a Docker engine")
    program = str(Path(sys.executable).with_name("ml-dev-bench"))
    command = [str(ROOT / "scripts" / "machine_image"), program, "mldb-machine:test"]
    env = {**os.environ, "MLDB_EXTRAS": "aws"}
    built = subprocess.run(command, capture_output=True, text=True, env=env, timeout=2400, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    return built.stdout.split()[-1]


@pytest.fixture
def stack(image: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    role = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    # moto keeps what an earlier server was told.
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
    for name, value in {"AWS_ENDPOINT_URL": endpoint, **role}.items():
        monkeypatch.setenv(name, value)
    secrets = boto3.client("secretsmanager", region_name=REGION)
    arns = {name: secrets.create_secret(Name=name, SecretString=value)["ARN"] for name, value in SECRETS.items()}

    def reach_moto(resources: dict[str, Any]) -> None:
        container = resources["Definition"]["ContainerProperties"]
        container["Environment"] = [{"Name": "AWS_ENDPOINT_URL", "Value": endpoint}]
        container["Image"] = f"registry.invalid/mldb@{image}"

    as_containers(monkeypatch, role)
    try:
        yield make_stack(change=reach_moto, Mode="shard", ModelKey=arns["key"], SeedSecret=arns["seed"])
    finally:
        server.stop()


def _machines_file(stack: Stack, folder: Path) -> Path:
    file = folder / "machines.yaml"
    options = json.loads(stack.options.model_dump_json(exclude_none=True))
    file.write_text(yaml.safe_dump({"batch": options}), encoding="utf-8")
    return file


def _said(job: dict[str, Any]) -> str:
    """The log of a job."""
    logs = boto3.client("logs", region_name=REGION)
    stream = job["container"]["logStreamName"]
    events = logs.get_log_events(logGroupName="/aws/batch/job", logStreamName=stream)["events"]
    return "\n".join(event["message"] for event in events)


def _jobs() -> list[dict[str, Any]]:
    batch = boto3.client("batch", region_name=REGION)
    listed = batch.list_jobs(jobQueue="mldb", filters=[{"name": "JOB_NAME", "values": ["mldb-*"]}])["jobSummaryList"]
    found: list[dict[str, Any]] = batch.describe_jobs(jobs=[job["jobId"] for job in listed])["jobs"]
    return found


def test_three_shards_run_as_jobs_and_become_one_commit(stack: Stack, tmp_path: Path) -> None:
    runner = StepRunner(tmp_path / "runner")
    for name in ("agent.yaml", "greeter.py"):
        (runner.workspace / name).write_bytes((HERE / "stranger" / name).read_bytes())
    experiment = {"name": "night", "agents": ["./agent.yaml"], "cases": ["hello_world"], "trials": 3}
    experiment |= {"shard_minutes": 0.2, "machines": [MACHINE]}
    (runner.workspace / "night.yaml").write_text(yaml.safe_dump(experiment), encoding="utf-8")
    told = {"MLDB_EXPERIMENT": "night.yaml", "MLDB_RESULTS_REPOSITORY": "none", "MLDB_SEED_SECRET": SECRETS["seed"]}
    runner.step("plan", **told, MLDB_SANDBOX="bubblewrap", MLDB_RUNNER="self-hosted")
    assert runner.outputs["shards"] == "3"
    plan = Path(runner.outputs["plan"])

    where: dict[str, str | Path] = {"MLDB_PLAN": plan, "MLDB_ENGINE": "batch"}
    where["MLDB_MACHINES"] = _machines_file(stack, tmp_path)
    quoted = runner.step("provision", **where, MLDB_BUDGET_USD="20")
    assert runner.outputs["matrix-runs"] == "false" and "USD an hour" in quoted.stdout
    results: dict[str, str | Path] = {
        "MLDB_RESULTS_REPOSITORY": tmp_path / "results.git",
        "MLDB_ARTIFACTS": tmp_path / "artifacts",
    }
    runner.step("collect", **where, **results, MLDB_WAIT_MINUTES="4.5")
    jobs = _jobs()
    assert [job["status"] for job in jobs] == ["SUCCEEDED"] * 3, [_said(job) for job in jobs]
    expected = {"graded": "3", "succeeded": "3", "lost": "0", "refused": "0"}
    assert {name: runner.outputs[name] for name in expected} == expected
    records = list(ResultsBranch(tmp_path / "results.git").records())
    assert {record.provenance.sandbox for record in records} == {"bubblewrap"}
    assert {record.seed_source for record in records} == {"secret"}
    assert {record.provenance.run_url for record in records} == {
        "https://github.invalid/stranger/agent/actions/runs/99"
    }

    runner.step("release", **where)
    held = subprocess.run(
        ["docker", "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True, check=True
    )
    assert not {name[-36:] for name in held.stdout.split()} & {job["jobId"] for job in jobs}
    assert not [path for path in (tmp_path / "artifacts").rglob("*") if "scratch" in path.parts]


def test_inside_a_job_doctor_finds_a_sandbox_that_isolates(stack: Stack) -> None:
    batch = boto3.client("batch", region_name=REGION)
    made = batch.submit_job(
        jobName="mldb-doctor",
        jobQueue="mldb",
        jobDefinition=stack.definition,
        containerOverrides={"command": ["ml-dev-bench", "doctor", "--json"]},
    )
    deadline = time.monotonic() + 240
    while (job := batch.describe_jobs(jobs=[made["jobId"]])["jobs"][0])["status"] not in ("SUCCEEDED", "FAILED"):
        assert time.monotonic() < deadline, job
        time.sleep(0.5)
    text = _said(job)
    assert job["status"] == "SUCCEEDED", text
    found = {it["name"]: it for it in json.loads(text)}
    assert found["bubblewrap"]["state"] == "ok" and found["calls"]["state"] == "ok"
    assert not [name for name, it in found.items() if it["state"] == "missing" and name != "litellm"]
