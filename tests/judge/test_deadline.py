"""The time of a grading: CPU time of the workspace's code, and whose fault it is when that does not end."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench.base.errors import InfraError
from bench.formats.failures import FAILURES
from bench.judge.deadline import Deadline, over_time
from bench.judge.fork_watch import Envelope, ForkWatch
from bench.judge.scene import Scene
from bench.judge.subject import SubjectError
from bench.judge.workspace import Workspace
from bench.sandbox import Witness, judging_limits, wall_backstop
from bench.sandbox.cgroup import CPU_TIME, Group
from bench.sandbox.job import Ended, EndReason
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import make_limits, write_files


def test_what_is_granted_is_cpu_time_on_every_processor() -> None:
    limits = Deadline(100, cpus=2).grant(10)
    assert limits == judging_limits(10, 2)
    assert limits.cpu_s == 20


def test_the_judges_own_time_takes_nothing() -> None:
    deadline = Deadline(100, began=-1000.0)
    assert deadline.grant(10).cpu_s == 10


def test_time_that_is_spent_is_not_granted_again() -> None:
    deadline = Deadline(100)
    deadline.spend(95, 20)
    assert deadline.grant(10).cpu_s == pytest.approx(5)
    deadline.spend(6, 1)
    with pytest.raises(AssertionError, match="used up"):
        deadline.grant(10)


def test_waiting_is_spent_too() -> None:
    deadline = Deadline(100)
    deadline.spend(0.1, 130)
    with pytest.raises(AssertionError, match="used up"):
        deadline.grant(10)


def test_the_wall_time_of_all_calls_together_is_bounded() -> None:
    deadline = Deadline(1, began=time.monotonic() - wall_backstop(1) + 10)
    assert deadline.grant(1).wall_s <= 10
    deadline.began -= 100
    assert 0 < deadline.grant(1).wall_s < 10


def test_messages_name_the_limit_that_the_case_states() -> None:
    limits = judging_limits(30, 2)
    assert over_time("cpu_limit", limits, 2) == "used more than 30 s of CPU time on each of 2 processors"
    assert over_time("time_limit", limits, 2) == "took longer than 30 s"
    assert over_time("memory_limit", limits, 2) == "was stopped: memory limit"


@pytest.mark.parametrize("reason", ["starved", "time_limit", "cpu_limit"])
def test_only_a_starved_machine_is_no_fault_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: EndReason
) -> None:
    write_files(tmp_path / "snapshot", {"x.py": ""})
    ended = Ended(reason, 137, b"", b"", 0, 300.0, 10.0, 1, cpu_s=1.0, available_s=2.0)
    monkeypatch.setattr("bench.judge.workspace.run_job", lambda *_, **__: ended)
    scene = Scene(
        snapshot=tmp_path / "snapshot",
        original=tmp_path / "snapshot",
        hidden=(),
        journals={},
        check=tmp_path,
        profile="mini",
        seed=1,
        sandbox=ProcessSandbox(),
        preload=(),
        limits=replace(make_limits(), cpus=1),
        call_s=10,
        grade_s=20,
    )
    ws = Workspace(scene)
    if reason == "starved":
        with pytest.raises(InfraError) as caught:
            ws.run(["python", "x.py"])
        assert caught.value.cause == "starved"
        assert FAILURES["starved"].outcome == "infra" and FAILURES["starved"].retry
    else:
        with pytest.raises(SubjectError, match="10 s"):
            ws.run(["python", "x.py"]).ok()
    ws.close()


@pytest.mark.parametrize(("counts", "by"), [(True, "starved"), (False, "time"), (None, "time")])
def test_the_judge_is_starved_only_where_what_it_awaits_is_counted(
    counts: bool | None, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = None if counts is None else Group({CPU_TIME: Path("/nowhere")} if counts else {}, {}, 0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # By its CPU time alone this process may have had enough long ago.
        watch = ForkWatch(Envelope(cpu_s=1e9, wall_s=-1, memory_mb=4096), group, ours, 0, 0)
        watch.seen.pid = os.getpid()
        monkeypatch.setattr(Witness, "starved", lambda _: True)
        watch._look()
    assert watch._by == by
