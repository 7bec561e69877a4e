"""The steps of the action one by one, as real processes with a runner's variables."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.formats.run_folder import RunFolder
from bench.store.branch import ResultsBranch
from tests.helpers.cells import make_agent, new_token, processes_with
from tests.workflows.rehearsal.githost import git_host
from tests.workflows.rehearsal.runner import HELLO, Runner
from tests.workflows.rehearsal.stage import git


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@pytest.mark.parametrize(
    ("variables", "fault"),
    [
        ({"MLDB_AGENT": ""}, "field `agent`: is required"),
        ({"MLDB_REQUIRE_SUCCESS": "perhaps"}, "field `require-success`"),
        ({"MLDB_JOBS": "0"}, "field `jobs`"),
        ({"MLDB_TRIALS": "many"}, "field `trials`"),
        ({"MLDB_MAX_RUN_COST": "-1"}, "field `max-run-cost`"),
        ({"MLDB_MAX_RUN_MINUTES": "soon"}, "field `max-run-minutes`"),
        ({"MLDB_UNTIL_DECIDED": "true"}, "field `until-decided`: needs two arms"),
        ({"MLDB_BASE": "no-such-agent"}, "no agent 'no-such-agent'"),
        ({"MLDB_SANDBOX": "none"}, "field `sandbox`"),
        ({"MLDB_RESULTS_BRANCH": "a..b"}, "field `results-branch`"),
        ({"MLDB_SUITE": "no-such-suite"}, "no suite 'no-such-suite'"),
        ({"MLDB_AGENT": "./nothing.yaml"}, "nothing.yaml: no such file"),
        ({"MLDB_CASES": "x%0A::warning::y"}, "x%250A: :warning: :y"),
    ],
)
def test_a_wrong_input_is_one_annotation_and_nothing_runs(
    runner: Runner, variables: dict[str, str], fault: str
) -> None:
    done = runner.step("run", **{**HELLO, **variables})
    assert done.returncode == 2, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("::error ")]
    assert len(lines) == 1 and fault in lines[0], done.stdout
    assert "Traceback" not in done.stderr
    assert not (runner.folder / "output").exists()


def test_words_of_the_run_are_no_commands(runner: Runner) -> None:
    done = runner.step("run", **HELLO)
    lines = done.stdout.splitlines()
    word = lines[0].removeprefix("::stop-commands::")
    assert len(word) == 32 and f"::{word}::" in lines
    assert runner.step("run", **HELLO).stdout.splitlines()[0] != lines[0], "the word cannot be guessed"


def test_runs_of_one_workflow_run_never_share_a_name(runner: Runner) -> None:
    first, again = runner.ran(), runner.ran()
    other_job = runner.ran(GITHUB_JOB="other")
    other_leg = runner.ran(MLDB_JOB_INDEX="1")
    other_agent = runner.ran(MLDB_AGENT="nop")
    names = [outputs["run"] for outputs in (first, again, other_job, other_leg, other_agent)]
    assert len(set(names)) == len(names)
    assert all(name.startswith("gh-99-") for name in names)
    bare = str(runner.folder / "results.git")
    for outputs in (first, again, other_job, other_leg, other_agent):
        done = runner.step("publish", MLDB_RECORDS=outputs["records"], MLDB_RESULTS_REPOSITORY=bare)
        assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(run.run for run in ResultsBranch(Path(bare)).manifests()) == sorted(names)


def test_several_agents_and_cases_by_commas_or_lines(runner: Runner) -> None:
    outputs = runner.ran(MLDB_AGENT="oracle\nnop\n", MLDB_CASES="hello_world, parse_logs", MLDB_TRIALS="1")
    assert (outputs["graded"], outputs["succeeded"], outputs["lost"]) == ("4", "2", "0")


def test_two_arms_meet_the_same_cells(runner: Runner) -> None:
    outputs = runner.ran(MLDB_BASE="nop", MLDB_TRIALS="1")
    records = RunFolder(Path(outputs["records"])).records()
    assert {(it.agent.id, it.arm) for it in records} == {("oracle", "head"), ("nop", "base")}
    assert len({it.seed for it in records}) == 1


def test_a_missing_key_is_one_annotation_that_says_where_it_belongs(runner: Runner) -> None:
    done = runner.step("run", **HELLO | {"MLDB_AGENT": "react"}, MLDB_MODELS="openai/gpt-4o-mini", OPENAI_API_KEY="")
    assert done.returncode == 2
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("::error ")]
    assert "needs OPENAI_API_KEY, which is not set" in line
    assert "add `env: { OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }} }` to this step" in line
    assert not (runner.folder / "output").exists()
    assert not (runner.folder / "temp" / "ml-dev-bench" / "runs").exists(), "nothing was written"


@pytest.mark.parametrize(("models", "wanted"), [("", ""), ("openai/gpt-4o-mini", "gateway")])
def test_a_live_model_needs_the_gateway_s_packages(runner: Runner, models: str, wanted: str) -> None:
    done = runner.step("extras", MLDB_AGENT="react", MLDB_SUITE="smoke", MLDB_MODELS=models)
    assert (done.returncode, done.stdout) == (0, f"{wanted}\n"), done.stderr


def test_records_that_cannot_be_committed_are_kept_for_one_command(runner: Runner) -> None:
    outputs = runner.ran()
    (runner.folder / "full").write_text("not a repository", encoding="utf-8")
    told = {"MLDB_RECORDS": outputs["records"], "GITHUB_RUN_ATTEMPT": "2"}
    done = runner.step("publish", MLDB_RESULTS_REPOSITORY=str(runner.folder / "full"), **told)
    assert done.returncode == 2
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("::error ")]
    name = f"mldb-kept-{outputs['run']}-2"
    assert f"`gh run download 99 -n {name} -D kept && ml-dev-bench results push kept/* --digest=sha256:" in line
    published = runner.outputs()
    assert "commit" not in published
    (bundle,) = Path(published["kept"]).iterdir()
    bare = runner.folder / "results.git"
    git(runner.folder, "init", "--quiet", "--bare", bare.name)
    (digest,) = re.findall(r"--digest=\S+", line)
    pushed = [sys.executable, "-P", "-m", "bench", "results", "push", str(bundle), "--results", str(bare)]
    done = runner.start([*pushed, digest[:-1] + ("0" if digest[-1] != "0" else "1")], {})
    assert (done.returncode, "is not the bundle that was kept" in done.stderr) == (2, True), done.stderr
    done = runner.start([*pushed, digest], {})
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record.provenance.run for record in ResultsBranch(bare).records()] == [outputs["run"]]
    # What is stored is not kept.
    done = runner.step("publish", MLDB_RESULTS_REPOSITORY=str(bare), **told)
    assert done.returncode == 0, done.stdout + done.stderr
    published = runner.outputs()
    assert published["kept"] == "" and published["commit"]
    assert list((runner.folder / "temp" / "ml-dev-bench" / "kept" / outputs["run"]).iterdir()) == [], "none is left"


def test_a_run_that_could_not_start_commits_nothing(runner: Runner) -> None:
    outputs = runner.ran()
    record = RunFolder(Path(outputs["records"])).records()[0]
    lost = {"outcome": "infra", "cause": "setup_error", "error": "nothing fits"}
    changed = record.model_copy(update={**lost, "success": None, "score": None, "checks": []})
    next((Path(outputs["records"]) / "cells").glob("*.json")).write_text(changed.to_line(), encoding="utf-8")
    bare = runner.folder / "results.git"
    done = runner.step("publish", MLDB_RECORDS=outputs["records"], MLDB_RESULTS_REPOSITORY=str(bare))
    assert done.returncode == 2 and "no cell could start (setup_error), so nothing was committed" in done.stdout
    assert not bare.exists()


def test_records_may_stay_on_the_runner(runner: Runner) -> None:
    outputs = runner.ran()
    done = runner.step(
        "publish", MLDB_RECORDS=outputs["records"], MLDB_RESULTS_REPOSITORY="none", MLDB_SITE="pages/site"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    published = runner.outputs()
    assert set(published) == {"site"}
    assert (Path(published["site"]) / "index.html").is_file()
    assert Path(published["site"]) == runner.folder / "workspace" / "pages" / "site"


ESCAPE = """
import glob, os, signal, sys

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for place in [*glob.glob("/sys/fs/cgroup/*/cgroup.procs"), "/sys/fs/cgroup/cgroup.procs"]:
            try:
                with open(place, "w") as file:
                    file.write(str(os.getpid()))
            except OSError:
                continue
        os.closerange(0, 256)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(900)", TOKEN], {})
    os._exit(0)
os.wait()
import time
time.sleep(1)
# Whatever watches it is gone, too.
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(1)
"""


def test_after_the_run_nothing_of_the_agent_lives(runner: Runner) -> None:
    """Not even what got out of a sandbox that does not isolate: the step that holds the token comes next."""
    token = new_token()
    agent = make_agent(runner.folder, ESCAPE.replace("TOKEN", repr(token)))
    done = runner.step("run", **{**HELLO, "MLDB_AGENT": str(agent.file)})
    left = processes_with(token)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
    assert done.returncode == 0, done.stdout + done.stderr
    assert runner.outputs()["graded"] in ("0", "1")


def test_the_token_goes_to_this_github_and_to_nobody_else(runner: Runner) -> None:
    host = runner.folder / "host"
    git_folder = host / "stranger" / "agent"
    git_folder.mkdir(parents=True)
    git(git_folder, "init", "--quiet", "--bare")
    git(git_folder, "config", "http.receivepack", "true")
    outputs = runner.ran()
    with git_host(host, "right") as address:

        def publish(token: str, server: str) -> subprocess.CompletedProcess[str]:
            return runner.step(
                "publish",
                MLDB_RECORDS=outputs["records"],
                MLDB_RESULTS_REPOSITORY=f"{address}/stranger/agent",
                MLDB_TOKEN=token,
                GITHUB_SERVER_URL=server,
                GIT_CONFIG_NOSYSTEM="1",
                HOME=str(runner.folder),
            )

        for refused in (publish("wrong", address), publish("", address), publish("right", "https://github.invalid")):
            assert refused.returncode == 2, refused.stdout + refused.stderr
            assert "::error title=ml-dev-bench::" in refused.stdout
        assert list(ResultsBranch(git_folder).records()) == []
        accepted = publish("right", address)
        assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert runner.outputs()["commit"] == git(git_folder, "rev-parse", "refs/heads/mldb-results")
    assert len(list(ResultsBranch(git_folder).records())) == 1


@pytest.mark.parametrize(
    ("agent", "require", "code"), [("oracle", "true", 0), ("nop", "false", 0), ("nop", "true", 1), ("nop", "", 0)]
)
def test_the_last_step_fails_the_job_only_when_asked(runner: Runner, agent: str, require: str, code: int) -> None:
    outputs = runner.ran(MLDB_AGENT=agent)
    done = runner.step("report", MLDB_RECORDS=outputs["records"], MLDB_REQUIRE_SUCCESS=require)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.count("::error ") == code
    summary = (runner.folder / "summary").read_text(encoding="utf-8")
    assert f"| {agent} | none | hello_world | 1 |" in summary
    assert "not committed" in summary


@pytest.mark.parametrize(("lenient", "code"), [("", 1), ("false", 0)])
def test_a_lost_cell_fails_the_job_unless_told_otherwise(runner: Runner, lenient: str, code: int) -> None:
    outputs = runner.ran()
    path = next((Path(outputs["records"]) / "cells").glob("*.json"))
    record = RunFolder(Path(outputs["records"])).records()[0]
    lost = record.model_copy(
        update={"outcome": "infra", "cause": "disk_full", "success": None, "score": None, "checks": []}
    )
    path.write_text(lost.to_line(), encoding="utf-8")
    done = runner.step("report", MLDB_RECORDS=outputs["records"], MLDB_FAIL_ON_LOST=lenient)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("1 of 1 cells have no verdict (disk_full): fail-on-lost" in done.stdout) == bool(code)
    ungraded = runner.step(
        "report", MLDB_RECORDS=outputs["records"], MLDB_FAIL_ON_LOST="false", MLDB_REQUIRE_SUCCESS="true"
    )
    assert ungraded.returncode == 1 and "no cell was graded" in ungraded.stdout


def test_credentials_that_checkout_left_are_pointed_out(runner: Runner) -> None:
    workspace = runner.folder / "workspace"
    git(workspace, "init", "--quiet")
    assert "::warning" not in runner.step("run", **HELLO).stdout
    git(workspace, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic eA==")
    done = runner.step("run", **HELLO)
    assert done.returncode == 0
    assert "::warning title=ml-dev-bench::actions/checkout left its token" in done.stdout
    assert "eA==" not in done.stdout + done.stderr
