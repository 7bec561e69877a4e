"""A runner may be killed at any instant: going on loses no cell, doubles none, and leaves nothing behind."""

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
import yaml

from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.guest.trees import remove_tree
from bench.sandbox.job import Sandbox
from tests.helpers.cells import (
    RIGHT,
    ROOT,
    make_agent,
    make_case,
    new_token,
    processes_with,
    wait_until_gone,
    write_files,
)

CELLS = 10


class Runner:
    """The command line, as a process of its own."""

    def __init__(self, folder: Path, sandbox: str, script: str) -> None:
        self.folder = folder
        self.token = new_token()
        self.room = folder / "tmp"
        self.room.mkdir()
        data = "def build(public, hidden, profile, seed):\n    (public / 'seed.txt').write_text(str(seed))\n"
        services = "from bench.casekit.services import Response\ndef hub(request, service):\n    return Response(200)\n"
        make_case(folder / "cases", {"data.py": data, "services.py": services}, services={"hub": {"env": "HUB_URL"}})
        suite = {"id": "ten", "version": "2026.11", "title": "Ten", "cases": ["double_it"], "trials": CELLS // 2}
        write_files(folder / "cases" / "suites", {"ten.yaml": yaml.safe_dump(suite)})
        command = ["python", "{agent}/main.py", self.token]
        for name in ("first", "second"):
            make_agent(folder / "agents", script, name, command=command)
        self.options = ["--sandbox", sandbox, "--cases", str(folder / "cases"), "--jobs", "3"]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        # TMPDIR short: there are Unix sockets below it.
        env = {**os.environ, "PYTHONPATH": str(ROOT), "ML_DEV_BENCH_CACHE": str(self.folder / "cache"),
               "TMPDIR": str(self.room)}  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", "bench", "run", *self.options, *arguments],
            cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def begin(self) -> subprocess.Popen[bytes]:
        agents = [part for name in ("first", "second") for part in ("--agent", str(self.folder / "agents" / name))]
        return self.start("--suite", "ten", "--out", "runs", *agents)

    def resume(self) -> subprocess.Popen[bytes]:
        return self.start("--resume", str(self.run))

    @property
    def run(self) -> Path:
        return next((self.folder / "runs").iterdir())

    def records(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.run / "cells").glob("*.json") if ".try" not in path.name}

    def wait_for(self, condition: str, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + 30
        while not list(self.folder.glob(condition)):
            assert process.poll() is None, process.communicate()[1].decode()
            assert time.monotonic() < until, condition
            time.sleep(0.01)

    def left_behind(self) -> list[str]:
        """What a run must not leave: processes, mounts, sockets, folders."""
        found = [f"process {pid}" for pid in wait_until_gone(self.token)]
        found += [f"process {pid}" for pid in wait_until_gone(str(self.folder))]
        mounts = Path("/proc/self/mountinfo").read_text()
        found += [line for line in mounts.splitlines() if str(self.folder) in line]
        found += [str(path) for path in self.room.iterdir()]
        found += [str(path) for path in self.run.glob("scratch*")]
        found += [str(path) for path in self.run.rglob("*.tmp")]
        return found


def finish(runner: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, errors = runner.communicate(timeout=120)
    return runner.returncode, errors.decode()


_AGENT = f"""
import os, subprocess, sys, time, urllib.request
urllib.request.urlopen(os.environ["HUB_URL"]).read()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)", sys.argv[1]], start_new_session=True)
time.sleep(0.15)
open("answer.py", "w").write({RIGHT!r})
"""


def kill_until_done(runner: Runner, rng: random.Random, most: int) -> int:
    """Kill the runner at up to `most` random instants, going on each time; then let it finish. The number of kills."""
    process = runner.begin()
    runner.wait_for("runs/*/run.json", process)
    kept: dict[str, bytes] = {}
    kills = 0
    while kills < most:
        time.sleep(rng.uniform(0.05, 0.9))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        assert wait_until_gone(runner.token) == []
        now = runner.records()
        assert kept.items() <= now.items()
        kept = {name: text for name, text in now.items() if Record.model_validate_json(text).outcome == "graded"}
        process = runner.resume()
    status, errors = finish(process)
    assert status == 0, errors
    assert kept.items() <= runner.records().items()
    return kills


@pytest.mark.slow
def test_a_runner_killed_twenty_times_loses_and_doubles_nothing(
    variant_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(f"kill {variant_sandbox.name}")
    kills = 0
    while kills < 20:
        runner = Runner(tmp_path_factory.mktemp("r"), variant_sandbox.name, _AGENT)
        kills += kill_until_done(runner, rng, 20 - kills)
        records = RunFolder(runner.run).records()
        assert len(records) == len({record.cell for record in records}) == CELLS
        assert {(record.outcome, record.success) for record in records} == {("graded", True)}
        assert runner.left_behind() == []


def test_a_finished_run_resumed_keeps_every_byte(
    variant_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    runner = Runner(tmp_path_factory.mktemp("r"), variant_sandbox.name, _AGENT)
    status, errors = finish(runner.begin())
    assert status == 0, errors
    before = runner.records()
    assert len(before) == CELLS
    status, errors = finish(runner.resume())
    assert (status, errors.count("(kept)")) == (0, CELLS)
    assert runner.records() == before
    assert runner.left_behind() == []


def test_an_interrupted_run_says_so_and_goes_on(any_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("r")
    # Cells under way until the file is there; the sandbox sees it through its own agent folder.
    script = _AGENT.replace(
        "time.sleep(0.15)", "time.sleep(0.1 if os.path.exists(os.path.dirname(__file__) + '/go') else 20)"
    )
    runner = Runner(folder, any_sandbox.name, script)
    process = runner.begin()
    runner.wait_for("runs/*/scratch/work/*/out", process)
    while not processes_with(runner.token):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    status, errors = finish(process)
    assert status == 130, errors
    assert "--resume" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert wait_until_gone(runner.token) == []
    interrupted = [json.loads(content) for content in runner.records().values()]
    assert 0 < len(interrupted) <= 3
    assert {record["outcome"] for record in interrupted} == {"interrupted"}
    assert {record["cause"] for record in interrupted} <= {"interrupted", "agent_interrupted"}
    assert runner.left_behind() == []


def test_two_runners_on_one_folder(any_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> None:
    runner = Runner(
        tmp_path_factory.mktemp("r"), any_sandbox.name, _AGENT.replace("time.sleep(0.15)", "time.sleep(20)")
    )
    first = runner.begin()
    runner.wait_for("runs/*/scratch/work/*/out", first)
    before = sorted(path for path in runner.run.rglob("*") if "scratch" not in path.parts)
    status, errors = finish(runner.resume())
    assert status == 2
    said = [line for line in errors.splitlines() if line.startswith("error:")]
    assert len(said) == 1
    assert "another runner works on this run" in said[0]
    assert set(before) <= set(runner.run.rglob("*"))
    assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert wait_until_gone(runner.token) == []
    remove_tree(runner.room)


def test_a_run_goes_on_only_in_its_own_sandbox_and_with_its_own_case(
    plain: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    runner = Runner(tmp_path_factory.mktemp("r"), plain.name, "raise SystemExit(0)")
    status, _ = finish(runner.begin())
    assert status == 0
    write_files(runner.folder / "cases" / "basics" / "double_it", {"check.py": "x = 1"})
    status, errors = finish(runner.resume())
    assert status == 2
    assert "has changed since the run began" in errors
    status, errors = finish(runner.start("--resume", str(runner.folder)))
    assert (status, "no run.json" in errors) == (2, True)
