"""The workflows that docs/machines.md and docs/machines-batch.md show, word for word, under act: moto is the cloud.

act runs the job of every label on this machine; test_night_ec2.py has machines that really start. Jobs of Batch are
containers here, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.formats.plan import PlanFile, read_plan_file
from bench.machines import Run
from bench.machines.facts import Demand
from bench.sandbox.choose import probe_bubblewrap
from bench.store.branch import ResultsBranch
from tests.helpers.aws import Cloud, cloud
from tests.helpers.aws_batch import (
    SECRETS,
    Stack,
    container_of,
    docker,
    has_stored,
    jobs_of_queue,
    unended_jobs,
)
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.helpers.machines import options_for
from tests.workflows.rehearsal.caller import Hub, act, commit, prepared
from tests.workflows.rehearsal.documents import blocks
from tests.workflows.rehearsal.githost import git_host
from tests.workflows.rehearsal.machine_night import CELLS, SECRET, Repository
from tests.workflows.rehearsal.night import kill_shard_midway, slim_environment
from tests.workflows.rehearsal.stage import Ended, copy_work_tree, git

pytestmark = [pytest.mark.act, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(3000)]

REPOSITORY = "stranger/agent"
MACHINE = {"name": "box", "labels": ["self-hosted"], "cpus": 1, "memory_mb": 4096, "setup_s": 0, "count": 2}
SHARDS = ("box-001", "box-002")
Interrupt = Callable[[Path], bool]


def documented(name: str) -> str:
    """The workflow of that name, as the pages show it."""
    (text,) = (it.text for it in blocks() if it.is_workflow and it.document["name"] == name)
    return text


def app_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


class Stage:
    """A stranger's repository with one workflow of the pages, and the services around it."""

    def __init__(self, folder: Path, workflow: str, repository: Repository, environment: dict[str, str]) -> None:
        self.folder = folder
        self.name = workflow
        self.caller = folder / "agent"
        self.remote = folder / "host" / "stranger" / "agent"
        self.remote.parent.mkdir(parents=True)
        git(self.remote.parent, "init", "--quiet", "--bare", "--initial-branch=main", "agent")
        git(self.remote, "config", "http.receivepack", "true")
        git(self.remote, "config", "uploadpack.allowFilter", "true")
        repository.checkout(self.caller)
        github = self.caller / ".github"
        (github / "mldb").mkdir(parents=True)
        (github / "workflows").mkdir()
        (self.caller / "nightly.yaml").rename(github / "mldb" / "nightly.yaml")
        (self.caller / "machines.yaml").rename(github / "mldb" / "machines.yaml")
        (github / "workflows" / f"{workflow}.yml").write_text(prepared(documented(workflow)), encoding="utf-8")
        git(self.caller, "init", "--quiet", "--initial-branch=main")
        git(self.caller, "remote", "add", "origin", f"https://github.com/{REPOSITORY}.git")
        commit(self.caller, "An agent")
        self.action = copy_work_tree(folder / "action")
        self.python = slim_environment(folder / "environment")
        self.environment = environment
        self.secrets = {"MLDB_SEED_SECRET": SECRET, "MLDB_APP_KEY": app_key()}

    def night(
        self, api: Service, number: int, engine: str, missing_from: str = "", interrupt: Interrupt | None = None
    ) -> Ended:
        """One run of the workflow; interrupt: is asked until it has done so, with the folder of the runners."""
        api.actions.make_run(number, "a" * 40)["status"] = "in_progress"
        # What `runs-on` will ask for is known beforehand: the id of a lease comes from these facts alone.
        run = Run(engine, REPOSITORY, str(number), 1)  # type: ignore[arg-type]
        labels = tuple(run.lease(Demand(shard, "box", 1, 4096, 0, 1.0)).label for shard in SHARDS)
        folder = self.folder / f"night-{number}"
        over = threading.Event()
        watch = threading.Thread(target=_watch, args=(interrupt, folder / "cache", over))
        watch.start()
        try:
            with git_host(self.folder / "host", TOKEN) as server:
                variables = {"MLDB_AWS_ROLE": "arn:aws:iam::123456789012:role/mldb", "MLDB_APP_ID": "5"}
                hub = Hub(server, api.api, TOKEN, self.folder, labels, variables, self.environment, str(self.python))
                facts = {"inputs": {"missing-from": missing_from}}
                ended = act(
                    self.caller, self.action, folder, f"{self.name}.yml", "workflow_dispatch", facts,
                    "bubblewrap" if probe_bubblewrap().works else "process",
                    run_id=str(number), hub=hub, secrets=self.secrets,
                )  # fmt: skip
        finally:
            over.set()
            watch.join()
        api.actions.runs[number]["status"] = "completed"
        for secret in (*self.secrets.values(), TOKEN):
            assert secret not in ended.text
        return ended

    def plan(self, number: int) -> PlanFile:
        return read_plan_file(self.folder / "artifacts" / str(number) / f"mldb-plan-{number}-1" / "plan.json")

    def graded(self) -> set[str]:
        return {it.cell for it in ResultsBranch(self.remote).records() if it.outcome == "graded"}


def _watch(interrupt: Interrupt | None, runners: Path, over: threading.Event) -> None:
    while interrupt is not None and not over.is_set() and not interrupt(runners):
        time.sleep(0.02)


def results_of(ended: Ended) -> dict[str, set[str]]:
    """Of the jobs that really ran."""
    found: dict[str, set[str]] = {}
    for entry in ended.log:
        if "jobResult" in entry:
            found.setdefault(str(entry["jobID"]), set()).add(str(entry["jobResult"]))
    return found


@pytest.fixture
def aws() -> Iterator[Cloud]:
    with cloud() as made:
        yield made


def test_the_night_of_the_page_on_machines_of_ec2(aws: Cloud, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_hours": 4, "ec2": options_for(aws, spot="prefer").model_dump(mode="json")}
    repository = Repository(tmp_path, {**MACHINE, "usd_per_hour": 1.006}, settings, {})
    environment = {name: value for name, value in aws.environment.items() if not name.endswith("_KEY_ID")}
    environment.pop("AWS_SECRET_ACCESS_KEY")
    stage = Stage(tmp_path, "mldb-gpu-night", repository, environment)
    every = {"plan", "provision", "run", "collect", "release"}
    with github_rest(REPOSITORY, stage.remote) as api:
        first = stage.night(api, 501, "ec2", interrupt=lambda runners: kill_shard_midway(runners, "box-001"))
        assert first.code != 0 and results_of(first).keys() == every, first.text
        assert results_of(first)["release"] == {"success"}
        assert any("missing-from 501" in str(it["arg"]) for it in first.commands("error"))
        cells = {cell.cell for run in stage.plan(501).runs for cell in run.cells}
        graded = stage.graded()
        assert len(cells) == CELLS and CELLS / 2 <= len(graded) < CELLS
        assert aws.left_over(REPOSITORY) == [] and not api.runners.records
        assert len(aws.instances(REPOSITORY, alive=False)) == len(SHARDS), "each shard had a machine"
        again = stage.night(api, 502, "ec2", missing_from="501")
        assert again.code == 0, again.text
        assert results_of(again) == {job: {"success"} for job in every}
        assert {cell.cell for run in stage.plan(502).runs for cell in run.cells} == cells - graded
        assert stage.graded() == cells
        assert aws.left_over(REPOSITORY) == [] and not api.runners.records


def lose_job(runners: Path) -> bool:
    """The machine of a shard is lost without notice, in the middle of its cells."""
    jobs = [job for job in unended_jobs() if job["tags"]["mldb-shard"] == "box-001" and job["status"] == "RUNNING"]
    return bool(jobs) and has_stored(jobs[0]) and bool(docker("kill", container_of(jobs[0])))


def test_the_night_of_the_page_on_jobs_of_batch(batch_stack: Callable[[str], Stack], tmp_path: Path) -> None:
    assert SECRETS["seed"] == SECRET
    stack = batch_stack("shard")
    settings = {"max_hours": 4, **stack.settings}
    price = stack.options.machines["box"].usd_per_hour
    repository = Repository(tmp_path, {**MACHINE, "usd_per_hour": price}, settings, {})
    endpoint = {"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]}
    stage = Stage(tmp_path, "mldb-batch-night", repository, endpoint)
    every = {"plan", "provision", "collect", "release"}
    with github_rest(REPOSITORY, stage.remote) as api:
        first = stage.night(api, 501, "batch", interrupt=lose_job)
        assert first.code != 0 and results_of(first).keys() == every, first.text
        assert any("missing-from 501" in str(it["arg"]) for it in first.commands("error"))
        cells = {cell.cell for run in stage.plan(501).runs for cell in run.cells}
        graded = stage.graded()
        assert len(cells) == CELLS and CELLS / 2 <= len(graded) < CELLS
        assert sorted(job["status"] for job in jobs_of_queue()) == ["FAILED", "SUCCEEDED"]
        again = stage.night(api, 502, "batch", missing_from="501")
        assert again.code == 0, again.text
        assert results_of(again) == {job: {"success"} for job in every}
        assert {cell.cell for run in stage.plan(502).runs for cell in run.cells} == cells - graded
        assert stage.graded() == cells and not unended_jobs()
