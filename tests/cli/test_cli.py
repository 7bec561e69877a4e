"""The command line as its users see it: real processes, their output and their exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cells import make_case
from tests.helpers.command import mldb


def test_help_names_every_command_and_the_exit_statuses() -> None:
    done = mldb("--help")
    assert done.returncode == 0
    for word in ("agents", "cases", "demo", "doctor", "results", "run", "schema", "site", "130 interrupted"):
        assert word in done.stdout


@pytest.mark.parametrize("command", ["agents", "cases", "demo", "doctor", "results", "run", "schema", "site"])
def test_every_command_explains_itself(command: str) -> None:
    done = mldb(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage:")


def test_lists_are_readable_by_programs() -> None:
    cases = json.loads(mldb("cases", "list", "--json").stdout)
    agents = json.loads(mldb("agents", "list", "--json").stdout)
    assert "hello_world" in {case["id"] for case in cases}
    assert {"oracle", "nop", "react"} <= {agent["id"] for agent in agents}


def test_the_list_of_cases_names_what_a_case_lacks(tmp_path: Path) -> None:
    folder = make_case(tmp_path).folder
    listed = mldb("cases", "list", "--cases", folder.parents[1]).stdout
    assert listed.split()[:3] == [folder.parent.name, folder.name, "mini"]
    (folder / "case.yaml").write_text("schema: 1\nid: [1]\n")
    refused = mldb("cases", "list", "--cases", folder.parents[1])
    assert refused.returncode == 2
    assert "case.yaml: field `" in refused.stderr


def test_show_prints_the_task_word_for_word() -> None:
    document = json.loads(mldb("cases", "show", "hello_world", "--json").stdout)
    assert document["task"] in mldb("cases", "show", "basics/hello_world").stdout + "\n"
    assert document["digest"].startswith("sha256:")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("cases", "show", "helo_world"), "did you mean 'hello_world'?"),
        (("agents", "show", "nobody"), "known: "),
        (("run",), "name one: `run --agent`"),
        (("run", "--agent", "nop", "--suite", "missing"), "known: "),
        (("run", "--agent", "nop", "--case", "hello_world", "--case", "hello_world"), "asked for twice"),
        (("run", "--agent", "react", "--case", "hello_world", "--model", "nonsense"), "provider/name"),
        (("run", "--agent", "nop", "--case", "hello_world", "--profile", "full"), "does not have the profile 'full'"),
        (("run", "--resume", "nowhere"), "no run.json"),
        (("run", "--resume", "nowhere", "--agent", "nop"), "drop --agent"),
        (("cases", "verify"), "say --all"),
        (("cases", "new", "Bad Name"), "category/id in lower case"),
        (("results", "show", "nowhere"), "no such repository or run folder"),
        (("site", "serve", "nowhere"), "site build"),
    ],
)
def test_a_mistake_is_one_line_with_a_remedy(arguments: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    done = mldb(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [("run", ""), ("run-shard", "`ml-dev-bench run-shard` continues the shard"), ("site", ""), ("compare", "")],
)
def test_an_interrupted_command_names_a_way_on_only_where_there_is_one(command: str, said: str) -> None:
    code = (
        "import sys\nfrom bench.cli import main\n"
        "def stop(**_):\n    raise KeyboardInterrupt\n"
        f"main.cli.main = stop\nsys.argv = ['mldb', {command!r}]\nmain.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert said in done.stderr
    assert done.stderr.startswith("interrupted")
    # No run has begun, so there is none to go on with.
    assert "--resume" not in done.stderr


def test_a_broken_agent_file_names_file_field_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("id: x\ncommand: [a]\ncomand: [b]\n")
    done = mldb("run", "--agent", path, "--case", "hello_world", cwd=tmp_path)
    assert done.returncode == 2
    for part in (str(path), "`comand`", "unknown field"):
        assert part in done.stderr


def test_run_store_show_and_build(strongest: str, tmp_path: Path) -> None:
    """The whole way by hand: run, commit to a repository, read the table, build the pages."""
    run = ["run", "--agent", "oracle", "--agent", "nop", "--case", "hello_world", "--out", "runs"]
    run += ["--sandbox", strongest]
    first = mldb(*run, "--results", "results.git", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "1 of 2 graded cells succeeded" in first.stdout
    assert "commit" in first.stdout

    folder = next((tmp_path / "runs").iterdir())
    again = mldb("run", "--resume", folder, "--results", "results.git", "--sandbox", strongest, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("(kept)") == 2
    assert "already stored" in again.stdout

    table = mldb("results", "show", "results.git", cwd=tmp_path).stdout
    assert table == mldb("results", "show", folder, cwd=tmp_path).stdout
    assert "oracle (reference)" in table
    assert "n=1" in table

    built = mldb("site", "build", "results.git", "--out", "pages", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert "oracle" in (tmp_path / "pages" / "index.html").read_text()


def test_run_can_demand_success(strongest: str, tmp_path: Path) -> None:
    run = ["run", "--case", "hello_world", "--require-success", "--sandbox", strongest]
    assert mldb(*run, "--agent", "nop", cwd=tmp_path).returncode == 1
    assert mldb(*run, "--agent", "oracle", cwd=tmp_path).returncode == 0


def test_json_on_standard_output_is_json_alone(strongest: str, tmp_path: Path) -> None:
    done = mldb("run", "--agent", "nop", "--case", "hello_world", "--json", "--sandbox", strongest, cwd=tmp_path)
    (record,) = json.loads(done.stdout)
    assert record["success"] is False
    assert record["score"] == 0
    assert record["provenance"]["sandbox"] in ("docker", "bubblewrap", "process")


def test_process_sandbox_must_be_asked_for_and_is_recorded(tmp_path: Path) -> None:
    done = mldb("run", "--agent", "oracle", "--case", "hello_world", "--sandbox", "process", cwd=tmp_path)
    assert "does not isolate" in done.stderr
    record = json.loads(next((tmp_path / "runs").glob("*/cells/*.json")).read_text())
    assert record["provenance"]["isolated"] is False


def test_doctor_gives_every_gap_a_remedy() -> None:
    findings = json.loads(mldb("doctor", "--json").stdout)
    names = {finding["name"] for finding in findings}
    assert {"machine", "python", "bubblewrap", "docker", "disk", "gpu", "torch", "git"} <= names
    assert all(finding["remedy"] for finding in findings if finding["state"] == "missing")


@pytest.mark.parametrize("name", ["agent", "case", "cassette", "record", "run", "suite"])
def test_schemas_are_exported(name: str) -> None:
    schema = json.loads(mldb("schema", name).stdout)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False


def test_without_a_sandbox_only_the_demo_goes_on_and_says_so(tmp_path: Path) -> None:
    env = {**os.environ, "PATH": str(tmp_path), "DOCKER_HOST": "unix:///nowhere/engine.sock"}

    def hidden(*code: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *code]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=60, check=False)

    refused = hidden("-m", "bench", "run", "--agent", "nop", "--case", "hello_world")
    assert refused.returncode == 2
    assert "bwrap is not installed" in refused.stderr
    assert "--sandbox process" in refused.stderr
    chosen = hidden("-c", "from bench.cli.demo import _sandbox; print(_sandbox().name)")
    assert chosen.stdout.strip() == "process"
    assert "runs without isolation" in chosen.stderr
    assert len(chosen.stderr.strip().splitlines()) == 1
