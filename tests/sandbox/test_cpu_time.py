"""CPU time of jobs: counted over all their processes, taken outside of them, and limited."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.sandbox.cgroup import Group
from bench.sandbox.control import StatusPipe, TreeControl
from bench.sandbox.job import Sandbox
from tests.helpers.cells import make_limits, run_code

_SPIN = "import time\nwhile time.process_time() < {}: pass\n"
_FORKS = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        while time.process_time() < 0.4: pass
        os._exit(0)
    os.wait()
time.sleep(0.3)
"""
_THREADS = """
import threading, time
def spin():
    while time.thread_time() < 0.4: pass
for _ in range(4):
    thread = threading.Thread(target=spin)
    thread.start()
    thread.join()
time.sleep(0.3)
"""
_FOREVER = "while True: pass"
_BOMB = """
import os
for _ in range(8):
    if os.fork() == 0:
        while True: pass
while True: pass
"""


@pytest.mark.parametrize(
    "code", [_SPIN.format(1.6) + "time.sleep(0.3)", _FORKS, _THREADS], ids=["spin", "forks", "threads"]
)
def test_all_of_a_jobs_work_is_counted(sandbox: Sandbox, tmp_path: Path, code: str) -> None:
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(wall_s=60))
    assert ended.reason == "exit", ended.stderr
    assert ended.cpu_s is not None
    assert 1.5 < ended.cpu_s < 4


def test_waiting_is_no_cpu_time(sandbox: Sandbox, tmp_path: Path) -> None:
    ended = run_code(sandbox, tmp_path, "import time; time.sleep(1.5)", limits=make_limits(wall_s=60, cpu_s=1.4))
    assert ended.reason == "exit"
    assert ended.wall_s > 1.5


@pytest.mark.parametrize("code", [_FOREVER, _BOMB], ids=["one process", "many processes"])
def test_cpu_time_is_limited(sandbox: Sandbox, tmp_path: Path, code: str) -> None:
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(wall_s=60, cpu_s=1.0))
    assert ended.reason == "cpu_limit"
    assert ended.cpu_s is not None
    assert 1.0 < ended.cpu_s < 3


def test_a_job_that_ends_between_two_looks_is_over_its_limit_all_the_same(
    plain: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.sandbox.running._TICK_S", 3600)
    ended = run_code(plain, tmp_path, _SPIN.format(0.5), limits=make_limits(wall_s=60, cpu_s=0.3))
    assert (ended.reason, ended.code) == ("cpu_limit", 0)


def test_without_a_group_the_tree_is_asked_and_the_record_says_so(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sandbox.name == "docker":
        monkeypatch.setattr("bench.sandbox.docker.control.group_of", lambda *_: None)
    monkeypatch.setattr(f"bench.sandbox.{sandbox.name}.new_group", lambda _: None, raising=False)
    ended = run_code(sandbox, tmp_path, _FORKS, limits=make_limits(wall_s=60))
    # An engine still counts what its containers use, and can be asked.
    assert ended.enforcement.endswith("CPU time counted" if sandbox.name == "docker" else "CPU time estimated")
    assert ended.cpu_s is not None
    # The engine samples once a second.
    assert (0.4 if sandbox.name == "docker" else 1.2) < ended.cpu_s < 4
    ended = run_code(sandbox, tmp_path, _BOMB, limits=make_limits(wall_s=60, cpu_s=1.0))
    assert ended.reason == "cpu_limit"


def test_a_group_without_a_counter_is_no_count(tmp_path: Path) -> None:
    group = Group({"pids": tmp_path}, {"pids": 1}, 0, ("pids",))
    with subprocess.Popen([sys.executable, "-c", _FOREVER]) as popen:
        control = TreeControl(StatusPipe(), popen, isolated=False, group=group)
        until = time.monotonic() + 30
        while (control.cpu_s() or 0) < 0.2 and time.monotonic() < until:
            time.sleep(0.05)
        assert not control.counts_cpu()
        assert (control.cpu_s() or 0) >= 0.2
        popen.kill()
