"""What disturbs a try from outside: full disks, clocks that are set, killed agents, files that change."""

from __future__ import annotations

import json
import re
import resource
import signal
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from bench.base.errors import InfraError
from bench.base.times import TimeOfDay
from bench.cell.context import CellContext, Clock
from bench.cell.diagnosis import require_calm, require_same_files
from bench.cell.machine import DiskSpace
from bench.cell.run import run_cell
from bench.cell.watch import CellWatch
from bench.formats.plan import Cell
from bench.formats.record import Record, Try
from bench.formats.run_folder import RunFolder
from bench.formats.verdict import flags_of_tries
from bench.gateway import call_log
from bench.gateway.call_log import CallLine, Ledger, MessageStore
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import RIGHT, make_agent, make_case, make_cell, make_context, write_files


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return make_cell(make_agent(tmp_path / "agents", "pass"), make_case(tmp_path / "cases"))


def test_a_kill_is_a_crash_whoever_sends_it(tmp_path: Path, bubblewrap: BubblewrapSandbox) -> None:
    """The runner cannot know the sender, and an agent that could be it would choose its own second try."""
    agent = make_agent(tmp_path / "agents", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    record = run_cell(make_cell(agent, make_case(tmp_path / "cases")), make_context(tmp_path, bubblewrap))
    assert (record.outcome, record.stop_reason, record.tries, record.success) == ("graded", "crashed", [], False)


def test_a_second_try_of_an_older_version_is_still_said() -> None:
    earlier = Try(outcome="infra", cause="agent_killed", message="killed", at="2026-11-01T00:00:00Z")
    assert [note.name for note in flags_of_tries([earlier])] == ["retried_after_kill"]


class _Stopped(CellWatch):
    """Somebody who looks at the run, and stops it at the beginning or at the end of a phase."""

    def __init__(self, phase: str, *, ends: bool) -> None:
        self._at = phase, ends
        self.context: CellContext

    def phase(self, cell: Cell, name: str, seconds: float | None) -> None:
        if (name, seconds is not None) == self._at:
            self.context.stopped.set()


def _stopped_at(phase: str, cell: Cell, folder: Path, *, ends: bool = False) -> Record:
    """What the next try of the cell has left, which is stopped there; empty: not at all."""
    watch = _Stopped(phase, ends=ends)
    watch.context = make_context(folder, ProcessSandbox(), watch=watch)
    return run_cell(cell, watch.context, RunFolder(watch.context.folder).set_aside(cell))


def test_a_run_that_is_stopped_until_it_looks_good_earns_nothing(tmp_path: Path) -> None:
    """Whoever sees a failure in the log and stops the run throws the dice once more, and not again."""
    agent = make_agent(tmp_path / "agents", f"open('answer.py', 'w').write({RIGHT!r}); print('begun')")
    cell = make_cell(agent, make_case(tmp_path / "cases"))
    records = [_stopped_at(phase, cell, tmp_path) for phase in ("snapshot", "judge", "agent", "")]
    assert [record.cause for record in records] == ["agent_interrupted", "agent_interrupted", "interrupted", ""]
    last = records[-1]
    assert (last.outcome, last.success, last.score, last.stop_reason) == ("graded", False, 0.0, "crashed")
    assert [it.cause for it in last.tries] == ["agent_interrupted", "agent_interrupted", "interrupted"]
    assert "stopped from outside 2 times" in next(it.evidence for it in last.failure_modes if it.name == "crashed")
    assert [it.evidence for it in last.flags if it.name == "interrupted_at_work"]
    assert not re.search(r"^begun", (tmp_path / "run" / last.artifacts[0].place).read_text(), re.MULTILINE)


@pytest.mark.parametrize("phase", ["prepare", "agent"])
def test_a_stop_before_the_agent_has_done_anything_does_not_count(tmp_path: Path, cell: Cell, phase: str) -> None:
    for _ in range(3):
        assert _stopped_at(phase, cell, tmp_path).cause == "interrupted"
    record = _stopped_at("", cell, tmp_path)
    assert (record.outcome, record.stop_reason, len(record.tries)) == ("graded", "finished", 3)
    assert not [it for it in record.flags if it.name == "interrupted_at_work"]


def test_a_run_that_is_stopped_once_goes_on_and_says_so(tmp_path: Path) -> None:
    cell = make_cell(make_agent(tmp_path / "agents", "import time; time.sleep(1.1)"), make_case(tmp_path / "cases"))
    assert _stopped_at("agent", cell, tmp_path, ends=True).cause == "agent_interrupted"
    record = _stopped_at("", cell, tmp_path)
    assert (record.outcome, record.stop_reason) == ("graded", "finished")
    assert [it.name for it in record.flags if it.name == "interrupted_at_work"]


@pytest.mark.parametrize("seconds", [6, -6, 86400])
def test_a_clock_that_is_set_is_a_disturbance(seconds: float) -> None:
    before = TimeOfDay(time.time() - time.monotonic() - seconds)
    with pytest.raises(InfraError, match=re.escape(f"{seconds:+.0f} s")) as caught:
        require_calm(before)
    assert caught.value.cause == "clock_jump"
    require_calm(TimeOfDay(before.offset_s + seconds + 3))


def test_the_phases_of_a_try_follow_each_other_whatever_the_time_of_day_does() -> None:
    clock = Clock()
    with clock.phase("prepare"):
        time.sleep(0.02)
    with clock.phase("agent"):
        pass
    times = [datetime.fromisoformat(it) for it in (clock.started, *(it.start for it in clock.phases), clock.now())]
    assert times == sorted(times)
    assert (times[2] - times[1]).total_seconds() >= 0.02


def test_a_disk_without_room_is_full_from_then_on(tmp_path: Path) -> None:
    began = time.monotonic()
    calm = DiskSpace((tmp_path, tmp_path / "not there"))
    # A file system that has no room for anything.
    full = DiskSpace((tmp_path, Path("/proc")))
    with calm.of_cell([tmp_path], 1) as beside_room, full.of_cell([tmp_path], 1) as room:
        calm.look()
        assert beside_room.full_since(began) == "" and room.full_since(began) == ""
        full.look()
        assert room.full_since(began) == "0 MiB are left on the disk of /proc"
        assert room.full_since(time.monotonic()) == ""


def test_a_disk_is_not_full_for_the_cell_that_may_have_filled_it(tmp_path: Path) -> None:
    began, space = time.monotonic(), DiskSpace((Path("/proc"),))
    large, small = tmp_path / "large", tmp_path / "small"
    for folder, size in ((large, 700_000), (small, 100_000)):
        folder.mkdir()
        (folder / "left").write_bytes(bytes(size))
    with space.of_cell([large], 1) as its, space.of_cell([small], 1) as others:
        space.look()
    assert (bool(its.full_since(began)), bool(others.full_since(began))) == (False, True)


def test_on_a_full_disk_nothing_is_a_verdict(tmp_path: Path, cell: Cell, bubblewrap: BubblewrapSandbox) -> None:
    context = make_context(tmp_path, bubblewrap, space=DiskSpace((Path("/proc"),)))
    record = run_cell(cell, context)
    assert (record.outcome, record.cause, record.tries) == ("infra", "disk_full", [])
    assert run_cell(cell, replace(context, space=DiskSpace())).outcome == "graded"


def test_files_that_change_during_a_run_are_noticed(tmp_path: Path, cell: Cell, bubblewrap: BubblewrapSandbox) -> None:
    assert cell.agent.digest and cell.case.digest
    script = (cell.agent.folder / "main.py").read_text()
    for change in ("raise SystemExit(1)", None):
        (cell.agent.folder / "main.py").unlink()
        write_files(cell.agent.folder, {} if change is None else {"main.py": change})
        context = make_context(tmp_path / str(change is None), bubblewrap)
        record = run_cell(cell, context)
        assert (record.outcome, record.cause) == ("infra", "setup_error")
        assert record.error == f"{cell.agent.folder}: the agent has changed since the run began"
        write_files(cell.agent.folder, {"main.py": script})
    require_same_files(cell, context)
    # From now on the copy counts.
    write_files(cell.agent.folder, {"main.py": "raise SystemExit(1)"})
    assert run_cell(cell, context).outcome == "graded"
    write_files(context.staged(cell.agent), {"agent/more.txt": ""})
    with pytest.raises(InfraError, match="the agent has changed since the run began"):
        require_same_files(cell, context)
    (context.staged(cell.agent) / "agent" / "more.txt").unlink()
    write_files(cell.case.folder, {"check.py": "x = 1\n"})
    with pytest.raises(InfraError, match="the case has changed since the run began"):
        require_same_files(cell, context)


def test_a_trace_takes_a_share_of_what_the_disk_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused calls cost nothing: what they say may not fill the disk, cell by cell."""
    monkeypatch.setattr(call_log, "room_to_keep", lambda _: 3000)
    ledger = Ledger(tmp_path / "calls.jsonl", lambda text: text)
    store = MessageStore(tmp_path / "other.jsonl", lambda text: text)
    line = CallLine(time="2026-11-01T00:00:00Z", role="main", alias="a", model="m/n", status="ok", http=200)
    for number in range(9):
        ledger.append(line.model_copy(update={"answer": {"content": "x" * 1000}}))
        store.put(str(number) * 1000)
    ledger.close()
    store.close()
    written = [json.loads(it)["answer"] is not None for it in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert written == [True] * 3 + [False] * 6
    assert (tmp_path / "other.jsonl").read_text().count("the store is full") == 7


def test_a_trace_that_cannot_be_written_is_a_fault_of_the_gateway(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "calls.jsonl", lambda text: text)
    line = CallLine(time="2026-11-01T00:00:00Z", role="main", alias="a", model="m/n", status="ok", http=200)
    ledger.append(line)
    assert ledger.fault is None
    limits, action = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
        ledger.append(line)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, action)
    assert ledger.fault is not None
    assert ledger.fault.startswith("gateway_broken: the trace cannot be written")
    ledger.close()
