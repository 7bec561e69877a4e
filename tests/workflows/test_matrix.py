"""A night on many machines, rehearsed: from `uses: .../matrix.yml@v1` in a stranger's repository to a rendered site."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bench.formats.plan import PlanFile
from bench.sandbox.choose import probe_bubblewrap
from bench.store.branch import ResultsBranch
from tests.helpers.command import mldb
from tests.workflows.rehearsal.githost import git_host
from tests.workflows.rehearsal.night import SECRET, Night, Stage, slim_environment
from tests.workflows.rehearsal.stage import git

pytestmark = [pytest.mark.act, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(3000)]

TOKEN = "token-of-this-job-4711"
EVERY_JOB = {"plan", "provision", "run", "collect", "site"}
CELLS = 6


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    path = tmp_path / "host" / "stranger" / "agent"
    path.parent.mkdir(parents=True)
    git(path.parent, "init", "--quiet", "--bare", "--initial-branch=main", path.name)
    git(path, "config", "http.receivepack", "true")
    git(path, "config", "uploadpack.allowFilter", "true")
    return path


@pytest.fixture
def stage(remote: Path, tmp_path: Path) -> Iterator[Stage]:
    sandbox = {"SANDBOX": "auto" if probe_bubblewrap().works else "process"}
    with git_host(tmp_path / "host", TOKEN) as address:
        yield Stage(tmp_path / "stage", address, TOKEN, slim_environment(tmp_path / "environment"), sandbox)


def planned(stage: Stage, number: int) -> PlanFile:
    file = stage.artifacts / str(number) / f"mldb-plan-{number}-1" / "plan.json"
    return PlanFile.model_validate_json(file.read_bytes())


def published(stage: Stage, remote: Path) -> str:
    """The commit that the deployed site names on its first page and in its data."""
    commit = str(json.loads((stage.pages / "data" / "site.json").read_text())["built_from"]["commit"])
    assert f"Built from commit <code>{commit[:12]}</code>" in (stage.pages / "index.html").read_text(encoding="utf-8")
    assert commit == git(remote, "rev-parse", "refs/heads/mldb-results")
    return commit


def tells_no_secret(stage: Stage, night: Night) -> None:
    assert TOKEN not in night.text and SECRET not in night.text
    for path in stage.artifacts.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
        assert "scratch" not in path.parts, path


def test_a_night_loses_a_shard_is_completed_and_a_second_night_follows(stage: Stage, remote: Path) -> None:
    first = stage.night(4711, kill_shard="box-002")
    assert first.code != 0
    assert first.jobs.keys() >= EVERY_JOB - {"site"}, "act skips what it does not know and calls that a success"
    assert sorted(first.legs("run").values()) == ["failure", "success", "success"]
    assert any("start this workflow anew with missing-from 4711" in line for line in first.errors), first.errors
    document = planned(stage, 4711)
    cells = {cell.cell for run in document.runs for cell in run.cells}
    graded = {record.cell for record in ResultsBranch(remote).records() if record.outcome == "graded"}
    assert len(cells) == CELLS and len(document.shards) == 3
    assert graded < cells
    tells_no_secret(stage, first)

    again = stage.night(4712, MISSING_FROM="4711")
    assert again.code == 0, again.errors
    assert again.jobs.keys() == EVERY_JOB
    later = planned(stage, 4712)
    assert {cell.cell for run in later.runs for cell in run.cells} == cells - graded
    assert {(shard.machine, *shard.labels) for shard in later.shards} == {("box", "agent-box")}
    assert [run.run for run in later.runs] == [run.run for run in document.runs] == ["gh-4711-1-nightly"]
    records = [record for record in ResultsBranch(remote).records() if record.outcome == "graded"]
    assert {record.cell for record in records} == cells and len(records) == CELLS
    assert {record.seed_source for record in records} == {"secret"}
    assert len({record.provenance.seed_secret for record in records}) == 1, "missing cells meet their experiment's data"
    before = published(stage, remote)

    second = stage.night(4713, BASE_URL=stage.address)
    assert second.code == 0, second.errors
    assert second.jobs.keys() == EVERY_JOB
    # Measured times are shorter than limits, so that the second night may want fewer machines.
    assert len(second.legs("run")) == len(planned(stage, 4713).shards)
    everything = list(ResultsBranch(remote).records())
    assert {record.provenance.run for record in everything} == {"gh-4711-1-nightly", "gh-4713-1-nightly"}
    assert sum(record.outcome == "graded" for record in everything) == 2 * CELLS
    assert published(stage, remote) != before
    assert "greeter" in (stage.pages / "index.html").read_text(encoding="utf-8")
    assert mldb("results", "verify", str(remote)).returncode == 0
    tells_no_secret(stage, second)


def test_rounds_follow_one_another_until_a_look_decides(stage: Stage, remote: Path) -> None:
    """One job a round may write, and makes the look; a round that no look wants is never planned."""
    shutil.copytree(stage.stranger, stage.stranger / "old", ignore=shutil.ignore_patterns(".git*"))
    (stage.stranger / "old" / "greeter.py").write_text("print('nothing to do')\n", encoding="utf-8")
    git(stage.stranger, "add", "--all")
    git(stage.stranger, "commit", "--quiet", "--message=The agent as it was")
    night = stage.night(4721, EXPERIMENT=".github/mldb/rounds.yaml")
    assert night.code == 0, night.errors
    assert night.jobs.keys() == EVERY_JOB and all(night.jobs[job] == {"success"} for job in EVERY_JOB)
    plans = {path.name for path in (stage.artifacts / "4721").glob("mldb-*")}
    assert plans == {"mldb-plan-4721-1", "mldb-round-2-4721-1", "mldb-round-3-4721-1"}
    (run,) = planned(stage, 4721).runs
    assert len(run.cells) == 12
    records = list(ResultsBranch(remote).records())
    assert {(it.arm, it.trial): it.success for it in records if it.case.id == "hello_world"} == {
        (arm, trial): arm == "head" for arm in ("base", "head") for trial in (1, 2, 3)
    }
    looks = [json.loads(line) for line in ResultsBranch(remote).looks(run.run)]
    assert [look["decision"] for look in looks[:2]] == ["go on", "go on"] and len(looks) == 3
    assert looks[2]["decision"] != "go on"
    assert mldb("results", "verify", str(remote)).returncode == 0
    tells_no_secret(stage, night)


@pytest.mark.parametrize("single_use", [True, False])
def test_jobs_for_runners_that_are_gone_never_pass_for_done(stage: Stage, remote: Path, single_use: bool) -> None:
    """*Re-run failed jobs*: what had succeeded is not repeated, and here nothing takes a job of the label any more.

    act does with the label of a runner that is gone what GitHub never does: it skips the job as a success.
    """
    earlier = stage.folder / "plan"
    place_plan(stage, earlier)
    file = stage.action / ".github" / "workflows" / "matrix.yml"
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    entry = {"shard": "box-001", "labels": ["gone"], "minutes": 9, "extras": "", "jobs": 1, "machine": "box"}
    answers = {
        "plan": {"matrix": json.dumps({"include": [entry]}), "shards": "1", "artifacts": "gh-4711-1-nightly-*"},
        "provision": {"attempt": "1", "single-use": str(single_use).lower()},
    }
    for job, outputs in answers.items():
        lines = "".join(f"echo '{name}={value}' >> \"$GITHUB_OUTPUT\"\n" for name, value in outputs.items())
        workflow["jobs"][job]["steps"] = [{"id": job, "run": lines}]
    # PyYAML reads the key `on` as a truth value.
    workflow["on"] = workflow.pop(True)
    file.write_text(yaml.safe_dump(workflow, sort_keys=False), encoding="utf-8")

    night = stage.night(4711, attempt="2")
    assert night.code != 0
    assert ("rerun" in night.jobs) == single_use
    assert not night.legs("run")
    assert night.jobs["collect"] == {"failure"}
    assert all("missing-from 4711" in line for line in night.errors)
    assert len(night.errors) == 1 + single_use
    assert not list(ResultsBranch(remote).records())


def place_plan(stage: Stage, folder: Path) -> None:
    """The artifact of the first attempt, which planned."""
    folder.mkdir()
    done = mldb(
        "plan", ".github/mldb/nightly.yaml", "--no-seed-secret", "--out", str(folder / "plan.json"), cwd=stage.stranger
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((folder / "plan.json").read_text())
    document["name"] = "gh-4711-1-nightly"
    target = stage.artifacts / "4711" / "mldb-plan-4711-1"
    target.mkdir(parents=True)
    (target / "plan.json").write_text(json.dumps(document), encoding="utf-8")
