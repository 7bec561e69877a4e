"""A person's attempt through the command line: workspace, clock, services, verdict, record."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.store import PlanCheck
from tests.helpers.cells import ROOT, make_case, write_files


def ml_dev_bench(*arguments: str | Path, cwd: Path, status: int = 0, **environment: str) -> str:
    """Run the command line and return what it printed; its standard error when it is to fail."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ML_DEV_BENCH_CACHE": str(cwd / "cache"), **environment},
    )  # fmt: skip
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stderr if status == 2 else done.stdout


def begin(cwd: Path, case: str = "hello_world", *more: str, shell: str = "/bin/sh") -> tuple[Path, str]:
    told = ml_dev_bench("human", "start", case, "--out", cwd / "runs", *more, cwd=cwd, SHELL=shell)
    (folder,) = (cwd / "runs").iterdir()
    return folder, told


def only_record(folder: Path) -> Record:
    (record,) = RunFolder(folder).records()
    return record


def shift(folder: Path, seconds: float) -> None:
    """Let the attempt have begun earlier."""
    state = json.loads((folder / "human.json").read_text())
    state["began"] -= seconds
    (folder / "human.json").write_text(json.dumps(state))


def test_a_person_solves_a_case(tmp_path: Path, bubblewrap: object) -> None:
    folder, told = begin(tmp_path, "nan_loss_debug")
    task = (ROOT / "cases" / "debugging" / "nan_loss_debug" / "task.md").read_text()
    assert told.startswith(task)
    assert f"workspace      {folder}/workspace" in told
    assert sys.executable in told
    workspace = folder / "workspace"
    assert sorted(path.name for path in workspace.iterdir()) == ["test_model.py", "train.py"]
    shift(folder, 75)
    told = ml_dev_bench("human", "status", cwd=workspace)
    spent = re.search(r"^time +(\d+) min (\d+) s", told, re.MULTILINE)
    assert spent and 75 <= 60 * int(spent[1]) + int(spent[2]) < 300, told
    assert "left" in told
    shutil.copy(ROOT / "cases" / "debugging" / "nan_loss_debug" / "solution" / "train.py", workspace)
    (workspace / "notes").mkdir()
    (workspace / "notes" / "link").symlink_to("/etc/passwd")
    os.mkfifo(workspace / "pipe")
    told = ml_dev_bench("human", "submit", cwd=workspace / "notes")
    assert "record in" in told
    record = only_record(folder)
    assert record.success
    assert (record.agent.id, record.agent.ranked) == ("human", False)
    assert (record.stop_reason, record.cost_status, record.steps) == ("finished", "none", 0)
    assert not record.provenance.isolated
    assert [phase.name for phase in record.phases] == ["prepare", "agent", "snapshot", "judge"]
    assert 75 <= record.phases[1].seconds < 200
    assert (workspace / "pipe").exists(), "the person's own files are left alone"
    assert (workspace / "notes" / "link").is_symlink()
    assert not (folder / "scratch").exists()
    assert "submitted      succeeded, score 1.0" in ml_dev_bench("human", "status", folder, cwd=tmp_path)
    assert "human" in ml_dev_bench("results", "show", folder, cwd=tmp_path)


def test_what_is_wrong_is_judged_once(tmp_path: Path) -> None:
    folder, _ = begin(tmp_path)
    told = ml_dev_bench("human", "submit", folder, "--sandbox", "process", cwd=tmp_path, status=1)
    assert "hello.py" in told
    record = only_record(folder)
    assert (record.success, record.score) == (False, 0)
    (folder / "workspace" / "hello.py").write_text("print('Hello, World!')\n")
    again = ml_dev_bench("human", "submit", folder, "--sandbox", "process", cwd=tmp_path, status=2)
    assert "is submitted already" in again
    assert only_record(folder) == record
    taken = PlanCheck.to(RunFolder(folder).read_plan()).read(record.to_line().encode(), "")
    assert taken == record, "a record of a person says what was planned"


def test_late_is_late_and_judged_all_the_same(tmp_path: Path) -> None:
    folder, _ = begin(tmp_path)
    shift(folder, 500)
    assert " over" in ml_dev_bench("human", "status", folder, cwd=tmp_path)
    (folder / "workspace" / "hello.py").write_text("print('Hello, World!')\n")
    ml_dev_bench("human", "submit", folder, "--sandbox", "process", cwd=tmp_path)
    record = only_record(folder)
    assert (record.success, record.stop_reason, record.limits_hit) == (True, "time_limit", ["time_limit"])


CHECK = '''
import json
from bench.judge import check

@check(required=True)
def asked_the_service(ws):
    """The answer is what the service told, and the service was asked."""
    assert json.loads(ws.text("answer.txt")) == "secret word"
    assert [line["path"] for line in ws.journal("oracle")] == ["/word"]
'''
SERVICE = """
from bench.casekit.services import Response

def oracle(request, service):
    service.journal({"path": request.path})
    return Response.json("secret word")
"""


def case_with_a_service(folder: Path) -> None:
    make_case(
        folder / "cases",
        {"check.py": CHECK, "services.py": SERVICE},
        wrong={},
        services={"oracle": {"env": "ORACLE_URL"}},
        outputs={"weight": 0, "files": [{"path": "answer.txt", "max_mb": 1}]},
    )
    write_files(folder / "cases" / "suites", {"smoke.yaml": (ROOT / "cases" / "suites" / "smoke.yaml").read_text()})


def test_services_run_while_the_shell_is_open(tmp_path: Path) -> None:
    case_with_a_service(tmp_path)
    cases = ("--cases", str(tmp_path / "cases"))
    refused = ml_dev_bench("human", "start", "double_it", *cases, "--out", "runs", cwd=tmp_path, status=2)
    assert "services (oracle)" in refused
    assert "add --shell" in refused
    assert not (tmp_path / "runs").exists()
    fetch = "import os, urllib.request as r; print(r.urlopen(os.environ['ORACLE_URL'] + '/word').read().decode())"
    script = f'#!/bin/sh\necho "$ORACLE_URL" > ../url\npython -c "{fetch}" > answer.txt\n'
    shell = write_files(tmp_path, {"shell.sh": script}) / "shell.sh"
    shell.chmod(0o755)
    folder, told = begin(tmp_path, "double_it", *cases, "--shell", shell=str(shell))
    assert "the services have ended" in told
    assert json.loads((folder / "workspace" / "answer.txt").read_text()) == "secret word"
    url = (folder / "url").read_text().strip()
    gone = subprocess.run(["curl", "-s", url], check=False) if shutil.which("curl") else None
    assert gone is None or gone.returncode != 0
    ml_dev_bench("human", "submit", folder, *cases, "--sandbox", "process", cwd=tmp_path)
    assert only_record(folder).success


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    assert "is not inside an attempt" in ml_dev_bench("human", "status", cwd=tmp_path, status=2)
    assert "no case 'nothing'" in ml_dev_bench("human", "start", "nothing", cwd=tmp_path, status=2)
    refused = ml_dev_bench("run", "--agent", "human", "--case", "hello_world", cwd=tmp_path, status=2)
    assert refused.strip().splitlines()[-1] == (
        "error: run: agent 'human' is a person (`ml-dev-bench human start hello_world`)"
    )


def test_a_case_that_changed_meanwhile_is_not_judged(tmp_path: Path) -> None:
    make_case(tmp_path / "cases")
    write_files(tmp_path / "cases" / "suites", {"smoke.yaml": (ROOT / "cases" / "suites" / "smoke.yaml").read_text()})
    cases = ("--cases", str(tmp_path / "cases"))
    folder, _ = begin(tmp_path, "double_it", *cases)
    (tmp_path / "cases" / "basics" / "double_it" / "task.md").write_text("# Another task\n")
    assert "has changed" in ml_dev_bench("human", "submit", folder, *cases, cwd=tmp_path, status=2)


@pytest.mark.parametrize("content", ["{}", "not json", '{"schema": 1, "began": 1}'])
def test_a_broken_state_is_one_line(tmp_path: Path, content: str) -> None:
    folder, _ = begin(tmp_path)
    (folder / "human.json").write_text(content)
    assert "start again" in ml_dev_bench("human", "status", folder, cwd=tmp_path, status=2)
