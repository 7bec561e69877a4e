"""A runner killed at any instant loses nothing, doubles nothing, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.rundir import RunFolder

KILLS = 20
CELLS = 10


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A runner as a user starts it, in a session of its own."""
    command = [sys.executable, "-m", "bench", "run", *arguments]
    env = {**os.environ, "TMPDIR": str(folder / "tmp"), "ML_DEV_BENCH_CACHE": str(folder / "cache")}
    return subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finished(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "cells").glob("*.json")}


def processes_naming(text: str) -> list[str]:
    """Command lines and working directories of processes that mention `text`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if text in line or text in environment:
                found.append(line)
    return found


def wait_until_gone(text: str, seconds: float = 10) -> list[str]:
    """Death by a parent's death takes a moment."""
    until = time.monotonic() + seconds
    while (left := processes_naming(text)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["auto", "process"])
def test_twenty_kills_then_resume(place: Path, sandbox: str) -> None:
    rng = random.Random(7)
    arguments = ["--agent", "oracle", "--case", "hello_world", "--trials", str(CELLS), "--jobs", "2"]
    runner = start(place, *arguments, "--sandbox", sandbox)
    run: Path | None = None
    kept: dict[str, bytes] = {}
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.05, 0.8))
        if runner.poll() is None:
            os.kill(runner.pid, signal.SIGKILL)
        runner.communicate()
        assert wait_until_gone(str(place)) == []
        run = next(iter((place / "runs").glob("*/run.json")), None)
        if run is None:
            runner = start(place, *arguments, "--sandbox", sandbox)
            continue
        now = finished(run.parent)
        assert {name: now.get(name) for name in kept} == kept, "a finished cell was lost or rewritten"
        kept = now
        runner = start(place, "--resume", str(run.parent), "--sandbox", sandbox)
    _, err = runner.communicate(timeout=120)
    assert runner.returncode == 0, err
    assert run is not None
    assert len(list((place / "runs").iterdir())) == 1

    now = finished(run.parent)
    assert {name: now.get(name) for name in kept} == kept
    records = RunFolder(run.parent).records()
    assert [record.trial for record in sorted(records, key=lambda it: it.trial)] == list(range(1, CELLS + 1))
    assert all(record.success for record in records)
    planned = json.loads(run.read_text())["cells"]
    assert sorted(cell["cell"] for cell in planned) == sorted(record.cell for record in records)

    assert wait_until_gone(str(place)) == []
    assert sorted(path.name for path in run.parent.iterdir()) == ["cells", "lock", "run.json", "traces"]
    assert not list((run.parent / "cells").glob(".*"))
    assert str(place) not in Path("/proc/mounts").read_text()
    assert list((place / "tmp").iterdir()) == []


def test_a_second_runner_on_one_folder_is_refused_in_one_line(place: Path) -> None:
    arguments = ["--agent", "oracle", "--case", "hello_world", "--trials", "3"]
    first = start(place, *arguments)
    until = time.monotonic() + 20
    while not (runs := list((place / "runs").glob("*/lock"))) and time.monotonic() < until:
        time.sleep(0.02)
    second = start(place, "--resume", str(runs[0].parent))
    _, err = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "another runner works on this run" in err
    assert len([line for line in err.splitlines() if "error" in line]) == 1
    _, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    assert len(finished(runs[0].parent)) == 3


def test_interrupt_writes_what_was_under_way_and_resume_finishes(place: Path) -> None:
    agent = place / "sleeper"
    agent.mkdir()
    (agent / "agent.yaml").write_text('id: sleeper\ncommand: [sh, "{agent}/go.sh"]\n')
    (agent / "go.sh").write_text("echo \"print('Hello, World!')\" > hello.py\nsleep 3\n")
    runner = start(place, "--agent", str(agent), "--case", "hello_world")
    until = time.monotonic() + 20
    while not list(place.glob("runs/*/scratch/*/workspace/hello.py")) and time.monotonic() < until:
        time.sleep(0.02)
    runner.send_signal(signal.SIGINT)
    _, err = runner.communicate(timeout=30)
    assert runner.returncode == 130
    assert "--resume" in err
    (run,) = (place / "runs").iterdir()
    (record,) = RunFolder(run).records()
    assert (record.outcome, record.cause, record.score) == ("interrupted", "interrupted", None)
    assert wait_until_gone(str(place)) == []

    resumed = start(place, "--resume", str(run))
    _, err = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, err
    (record,) = RunFolder(run).records()
    assert record.success
    assert [(it.outcome, it.cause) for it in record.tries] == [("interrupted", "interrupted")]
    assert len(list((run / "cells").glob("*.try1.json"))) == 1


def test_resume_refuses_a_changed_agent(place: Path) -> None:
    agent = place / "mine"
    agent.mkdir()
    (agent / "agent.yaml").write_text('id: mine\ncommand: [sh, "{agent}/go.sh"]\n')
    (agent / "go.sh").write_text("true\n")
    start(place, "--agent", str(agent), "--case", "hello_world").communicate(timeout=60)
    (agent / "go.sh").write_text("false\n")
    (run,) = (place / "runs").iterdir()
    again = start(place, "--resume", str(run))
    _, err = again.communicate(timeout=60)
    assert again.returncode == 2
    assert "agent 'mine' has changed since the run began" in err
