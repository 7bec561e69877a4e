"""The verbs of a matrix one by one, as real processes with a runner's variables."""

from __future__ import annotations

import http.server
import json
import re
import shlex
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from bench.cli.action_shards import plan_digest
from bench.formats.plan import PlanFile, read_plan_file
from bench.formats.shards import MachineClass
from bench.store.branch import ResultsBranch
from tests.helpers.command import mldb
from tests.workflows.rehearsal.githost import git_host
from tests.workflows.rehearsal.stage import HERE, git
from tests.workflows.rehearsal.step_runner import StepRunner, errors

SECRET = "one secret of the repository"
MACHINE = {"name": "box", "labels": ["own"], "cpus": 1, "memory_mb": 4096, "setup_s": 0, "count": 2}


@dataclass
class Night:
    """A planned night on two shards, with what they left."""

    runner: StepRunner
    plan: Path
    """As it was downloaded."""
    artifacts: Path
    remote: Path
    document: PlanFile

    def facts(self, **changes: str | Path) -> dict[str, str | Path]:
        return {
            "MLDB_PLAN": self.plan,
            "MLDB_ARTIFACTS": self.artifacts,
            "MLDB_RESULTS_REPOSITORY": self.remote,
            **changes,
        }

    def stored(self) -> set[str]:
        return {record.cell for record in ResultsBranch(self.remote).records()}


def workspace(runner: StepRunner) -> None:
    """The stranger's repository, the same on every machine."""
    content = {"name": "nightly", "agents": ["./agent.yaml"], "cases": ["hello_world"], "trials": 2, "shard_minutes": 1}
    file = runner.workspace / "nightly.yaml"
    file.write_text(yaml.safe_dump({**content, "machines": [MACHINE]}), encoding="utf-8")
    for name in ("agent.yaml", "greeter.py"):
        shutil.copyfile(HERE / "stranger" / name, runner.workspace / name)
    (runner.workspace / "bench").mkdir()
    (runner.workspace / "bench" / "__init__.py").write_text(
        "raise SystemExit('the stranger has a package bench too')\n"
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `plan` and `artifacts` of a night, each of whose shards had a machine of its own."""
    root = tmp_path_factory.mktemp("night")
    planner = StepRunner(root / "planner")
    workspace(planner)
    told = {"MLDB_EXPERIMENT": "nightly.yaml", "MLDB_SANDBOX": "process", "MLDB_RESULTS_REPOSITORY": "none"}
    planner.step("plan", **told, MLDB_SEED_SECRET=SECRET)
    assert planner.outputs["shards"] == "2"
    assert planner.outputs["digest"] == plan_digest(Path(planner.outputs["plan"]) / "plan.json")
    shutil.copytree(planner.outputs["plan"], root / "plan" / "mldb-plan-99-1")
    for entry in json.loads(planner.outputs["matrix"])["include"]:
        machine = StepRunner(root / entry["shard"])
        workspace(machine)
        facts = {"MLDB_PLAN": root / "plan", "MLDB_SHARD": entry["shard"], "MLDB_SEED_SECRET": SECRET}
        done = machine.step("run-shard", **facts)
        word = done.stdout.splitlines()[0].removeprefix("::stop-commands::")
        assert len(word) == 32 and f"::{word}::" in done.stdout.splitlines()
        assert machine.outputs["artifact"] == f"gh-99-1-nightly-{entry['shard']}"
        shutil.copytree(machine.outputs["records"], root / "artifacts" / machine.outputs["artifact"])
    return root


@pytest.fixture
def night(ran: Path, tmp_path: Path) -> Night:
    shutil.copytree(ran / "artifacts", tmp_path / "artifacts")
    runner = StepRunner(tmp_path / "collector")
    workspace(runner)
    document = read_plan_file(ran / "plan" / "mldb-plan-99-1" / "plan.json")
    return Night(runner, ran / "plan", tmp_path / "artifacts", tmp_path / "results.git", document)


@pytest.mark.slow
def test_a_night_is_collected_and_rendered(night: Night) -> None:
    night.runner.step("collect", **night.facts())
    outputs = night.runner.outputs
    tip = git(night.remote, "rev-parse", "refs/heads/mldb-results")
    expected = {"commit": tip, "graded": "2", "succeeded": "2", "lost": "0", "refused": "0", "decided": "true"}
    (line,) = Path(outputs["checksums"]).read_text(encoding="utf-8").splitlines()
    assert outputs == {**expected, "checksums": outputs["checksums"]}
    assert line.endswith(git(night.remote, "ls-tree", "-r", "--name-only", tip, "runs/"))
    records = list(ResultsBranch(night.remote).records())
    assert {record.provenance.run for record in records} == {"gh-99-1-nightly"}
    assert {record.seed_source for record in records} == {"secret"}
    assert {record.provenance.run_url for record in records} == {
        "https://github.invalid/stranger/agent/actions/runs/99"
    }
    assert "greeter" in (night.runner.folder / "summary").read_text(encoding="utf-8")
    night.runner.step("collect", **night.facts())
    assert night.runner.outputs["commit"] == tip, "the same artifacts twice are one commit"

    night.runner.step("site", MLDB_RESULTS_REPOSITORY=night.remote, MLDB_SITE=night.runner.folder / "_site")
    assert (night.runner.outputs["commit"], night.runner.outputs["publish"]) == (tip, "true")
    pages = Path(night.runner.outputs["site"])
    # On every page it would make all of them anew each night.
    front = (pages / "index.html").read_text(encoding="utf-8")
    assert f"Built from commit <code>{tip[:12]}</code> of mldb-results" in front
    assert list((pages / "runs").rglob("*.html"))

    # A night of which nothing is missing is completed by nothing, and an empty matrix would be an error.
    night.runner.step("plan", MLDB_MISSING_FROM=night.plan, MLDB_RESULTS_REPOSITORY=night.remote)
    assert (night.runner.outputs["shards"], night.runner.outputs["plan"]) == ("0", "")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
            del format, args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.nightly
@pytest.mark.slow
def test_an_older_build_never_replaces_a_newer_one(night: Night, tmp_path: Path) -> None:
    night.runner.step("collect", **night.facts())
    tip = git(night.remote, "rev-parse", "refs/heads/mldb-results")
    newer = git(night.remote, "commit-tree", f"{tip}^{{tree}}", "-p", tip, "-m", "newer")
    stranger = git(night.remote, "commit-tree", f"{tip}^{{tree}}", "-m", "of another history")
    git(night.remote, "update-ref", "refs/heads/elsewhere", newer)
    about = tmp_path / "deployed" / "data" / "site.json"
    about.parent.mkdir(parents=True)
    cases: list[tuple[object, str]] = [
        ({"built_from": {"branch": "mldb-results", "commit": newer}}, "false"),
        ({"built_from": {"branch": "mldb-results", "commit": stranger}}, "true"),
        ({"built_from": {"branch": "mldb-results", "commit": "--output=x"}}, "true"),
        ("<html>please log in</html>", "true"),
    ]
    with served(tmp_path / "deployed") as address:
        for content, publish in cases:
            about.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
            done = night.runner.step("site", MLDB_RESULTS_REPOSITORY=night.remote, MLDB_BASE_URL=address)
            assert night.runner.outputs["publish"] == publish, content
            assert ("not to be published" in done.stdout) == (publish == "false")


@pytest.mark.slow
def test_a_shard_that_left_nothing_is_missing_and_named(night: Night) -> None:
    """However it came to nothing: killed, never taken by a runner, skipped by whatever runs the workflow."""
    shutil.rmtree(night.artifacts / "gh-99-1-nightly-box-001")
    done = night.runner.step("collect", 1, **night.facts())
    assert night.runner.outputs["lost"] == "1"
    (line,) = errors(done)
    assert "1 of 2 cells have no verdict; 1 have no record (greeter/none/hello_world/mini/" in line
    assert "start this workflow anew with missing-from 99" in line
    assert len(night.stored()) == 1, "what is there is stored"
    shutil.rmtree(night.artifacts)
    done = night.runner.step("collect", 1, **night.facts(MLDB_FAIL_ON_LOST="false"))
    assert "2 have no record" in errors(done)[0]


@pytest.mark.slow
def test_a_shard_brings_its_own_cells_and_no_others(night: Night) -> None:
    one, two = (night.artifacts / f"gh-99-1-nightly-box-00{number}" for number in (1, 2))
    stolen = two / two.name
    shutil.copytree(stolen, one / two.name)
    shutil.copytree(stolen, night.artifacts / "gh-98-1-nightly-box-001" / "gh-99-1-nightly-box-001")
    (night.artifacts / "loose").write_text("x")
    (night.artifacts / "gh-99-1-nightly-box-003").symlink_to(two)
    (two / "link").symlink_to(stolen / "cells")
    done = night.runner.step("collect", 1, **night.facts())
    refused = [line for line in done.stderr.splitlines() if line.startswith("refused: ")]
    assert len(refused) == 5 and night.runner.outputs["refused"] == "5", done.stderr
    assert len(night.stored()) == 2
    assert "5 files of the shards were refused" in errors(done)[0]


@pytest.mark.slow
def test_very_many_foreign_files_are_counted_and_not_listed(night: Night) -> None:
    """One shard's names would bury in log and summary what is said of all others."""
    for number in range(3000):
        (night.artifacts / "gh-99-1-nightly-box-001" / f"{number:04}{'@' * 200}").touch()
    done = night.runner.step("collect", 1, **night.facts())
    refused = [line for line in done.stderr.splitlines() if line.startswith("refused: ")]
    assert len(refused) == 21 and "holds 2,980 more that were given to another job, or to none" in refused[-1]
    assert len(night.stored()) == 2


@pytest.mark.slow
def test_a_job_cannot_bring_a_plan_of_its_own(night: Night, ran: Path, tmp_path: Path) -> None:
    """Any job can upload an artifact under the name of a later attempt at planning."""
    plans = shutil.copytree(ran / "plan", tmp_path / "plan")
    (plans / "mldb-plan-99-7").mkdir()
    honest = plans / "mldb-plan-99-1" / "plan.json"
    forged = honest.read_text(encoding="utf-8").replace("greeter/", "rival/")
    (plans / "mldb-plan-99-7" / "plan.json").write_text(forged, encoding="utf-8")
    told: dict[str, str | Path] = {"MLDB_PLAN": plans, "MLDB_PLAN_DIGEST": plan_digest(honest)}
    night.runner.step("collect", **night.facts(**told))
    assert {cell.partition("/")[0] for cell in night.stored()} == {"greeter"}
    honest.unlink()
    for verb in ("collect", "run-shard", "provision"):
        done = night.runner.step(verb, 2, **night.facts(**told, MLDB_SHARD="box-001"))
        assert "holds no plan with the digest" in errors(done)[0]


@pytest.mark.slow
def test_records_of_another_workflow_run_are_refused(night: Night) -> None:
    done = night.runner.step("collect", 1, **night.facts(), GITHUB_RUN_ID="100")
    assert "provenance.run_url" in done.stderr
    assert not night.remote.exists(), "nothing was stored"


@pytest.mark.slow
def test_what_could_not_be_stored_is_kept_and_one_command_stores_it(night: Night, tmp_path: Path) -> None:
    """The host knows another token: nothing arrives, nothing is lost, and neither token nor traceback is shown."""
    bare = tmp_path / "host" / "stranger" / "agent"
    bare.parent.mkdir(parents=True)
    git(bare.parent, "init", "--quiet", "--bare", "--initial-branch=main", bare.name)
    with git_host(tmp_path / "host", "right") as address:
        facts = night.facts(MLDB_RESULTS_REPOSITORY=f"{address}/stranger/agent", MLDB_TOKEN="wrong-token")
        done = night.runner.step("collect", 2, **facts)
    assert "wrong-token" not in done.stdout + done.stderr
    kept, name = (night.runner.outputs[it] for it in ("kept", "kept-artifact"))
    assert name == "mldb-kept-99-1"
    (line,) = (line for line in errors(done) if "resume with: " in line)
    download, _, push = line.partition("resume with: ")[2].replace("%25", "%").partition(" && ")
    assert download == f"gh run download 99 --repo stranger/agent --name {name} --dir {name}"
    # As the artifact is downloaded, somewhere else; only the address, whose host is gone, is another one.
    shutil.copytree(kept, tmp_path / name)
    program, *words = shlex.split(push.replace(f"{address}/stranger/agent", str(night.remote)))
    assert program == "ml-dev-bench"
    bundles = sorted(str(path) for path in tmp_path.glob(words.pop(2)))
    ResultsBranch(night.remote).ensure()
    stored = mldb(*words[:2], *bundles, *words[2:])
    assert stored.returncode == 0, stored.stdout + stored.stderr
    assert len(night.stored()) == 2


@pytest.mark.slow
def test_machines_are_quoted_checked_and_never_started(night: Night) -> None:
    done = night.runner.step("provision", MLDB_PLAN=night.plan)
    labels = json.dumps({shard.id: ["own"] for shard in night.document.shards}, separators=(",", ":"))
    assert night.runner.outputs == {"attempt": "1", "single-use": "false", "labels": labels, "matrix-runs": "true"}
    assert "| box | own | 2 |" in done.stdout and "Nothing is started here" in done.stdout
    night.runner.step("provision", MLDB_PLAN=night.plan, MLDB_SINGLE_USE="true", GITHUB_RUN_ATTEMPT="2")
    assert night.runner.outputs == {"attempt": "2", "single-use": "true", "labels": labels, "matrix-runs": "true"}
    for verb in ("release", "sweep"):
        assert night.runner.step(verb, MLDB_PLAN=night.plan).stdout.startswith("label: ")
    night.runner.step("provision", MLDB_PLAN=night.plan, MLDB_ENGINE="local")
    assert night.document.fleet is not None
    huge = night.document.fleet.model_copy(update={"machines": [MachineClass(name="box", cpus=4096, gpus=64)]})
    file = night.runner.folder / "huge.json"
    file.write_text(night.document.model_copy(update={"fleet": huge}).model_dump_json(by_alias=True))
    done = night.runner.step("provision", 2, MLDB_PLAN=file, MLDB_ENGINE="local")
    assert re.search(r"machine 'box' promises 4096 CPUs, and this one has \d+; .* 64 GPUs", errors(done)[0])


@pytest.mark.slow
def test_what_a_killed_shard_left_on_this_machine_is_cleaned(night: Night) -> None:
    left = night.runner.folder / "temp" / "ml-dev-bench" / "shards" / "gh-99-1-nightly-box-001"
    shutil.copytree(night.artifacts / "gh-99-1-nightly-box-001", left)
    (scratch := left / left.name / "scratch" / "cell").mkdir(parents=True)
    (scratch / "hidden").write_text("what the agent is not to know")
    done = night.runner.step("release", MLDB_PLAN=night.plan, MLDB_ENGINE="local")
    assert "cleaned 1 of 1" in done.stdout and not scratch.parent.exists()
    scratch.mkdir(parents=True)
    done = night.runner.step("sweep", MLDB_ENGINE="local")
    assert "cleaned 1 of 1" in done.stdout and not scratch.parent.exists()


def test_a_repeated_attempt_is_told_what_to_do_instead(tmp_path: Path) -> None:
    done = StepRunner(tmp_path / "runner").step("refuse-rerun", 1, GITHUB_RUN_ATTEMPT="2")
    assert "start this workflow anew with missing-from 99" in errors(done)[0]


@pytest.mark.parametrize(
    ("verb", "variables", "fault"),
    [
        ("plan", {"MLDB_EXPERIMENT": "nothing.yaml"}, "nothing.yaml"),
        ("plan", {"MLDB_OVERRIDES": "--out=/tmp/x\nplain"}, "is not KEY=VALUE"),
        ("plan", {"MLDB_EXPERIMENT": "--help"}, "--help"),
        ("plan", {"MLDB_RUNNER": "mine"}, "field `runner`"),
        ("plan", {"MLDB_MISSING_FROM": "nowhere"}, "nowhere"),
        ("run-shard", {"MLDB_SHARD": "x"}, "field `plan`: is required"),
        ("run-shard", {"MLDB_PLAN": ".", "MLDB_SHARD": "x"}, "plan.json"),
        ("collect", {"MLDB_PLAN": "."}, "field `artifacts`: is required"),
        ("provision", {"MLDB_PLAN": ".", "MLDB_ENGINE": "ec3"}, "field `engine`"),
        ("release", {"MLDB_ENGINE": "ec2"}, "field `machines`"),
        ("sweep", {"MLDB_ENGINE": "ec2", "MLDB_MACHINES": "nowhere.yaml"}, "nowhere.yaml"),
        ("site", {"MLDB_SUITE": "no-such-suite"}, "no-such-suite"),
        ("site", {"MLDB_BASE_URL": "file:///etc", "MLDB_RESULTS_REPOSITORY": "empty.git"}, "base-url"),
    ],
)
def test_a_wrong_input_is_one_annotation(tmp_path: Path, verb: str, variables: dict[str, str], fault: str) -> None:
    runner = StepRunner(tmp_path / "runner")
    git(runner.workspace, "init", "--quiet", "--bare", "empty.git")
    defaults = {"MLDB_RESULTS_REPOSITORY": "none", "MLDB_SEED_SECRET": SECRET} if verb == "plan" else {}
    done = runner.step(verb, 2, **{**defaults, **variables})
    (line,) = errors(done)
    assert fault in line, done.stdout
