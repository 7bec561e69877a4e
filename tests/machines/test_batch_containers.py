"""Jobs of AWS Batch as real containers, by moto's Docker back end: three shards to one collected result.

The image is that of scripts/machine_image (`machine_image` in conftest.py).
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
import yaml

from bench.store.branch import ResultsBranch
from tests.helpers.aws_batch import REGION, SECRETS, Stack, jobs_of_queue, said_by
from tests.workflows.rehearsal.stage import HERE
from tests.workflows.rehearsal.step_runner import StepRunner

pytestmark = [pytest.mark.nightly, pytest.mark.docker, pytest.mark.timeout(3000)]

MACHINE = {"name": "box", "labels": ["self-hosted"], "cpus": 1, "memory_mb": 4096, "setup_s": 0, "count": 3}


@pytest.fixture
def stack(batch_stack: Callable[[str], Stack]) -> Stack:
    return batch_stack("shard")


def _machines_file(stack: Stack, folder: Path) -> Path:
    file = folder / "machines.yaml"
    file.write_text(yaml.safe_dump(stack.settings), encoding="utf-8")
    return file


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
    jobs = jobs_of_queue()
    assert [job["status"] for job in jobs] == ["SUCCEEDED"] * 3, [said_by(job) for job in jobs]
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
    text = said_by(job)
    assert job["status"] == "SUCCEEDED", text
    found = {it["name"]: it for it in json.loads(text)}
    assert found["bubblewrap"]["state"] == "ok" and found["calls"]["state"] == "ok"
    assert not [name for name, it in found.items() if it["state"] == "missing" and name != "litellm"]
