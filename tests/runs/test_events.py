"""`--events`: the course of a run as lines that a program can read while it happens, and after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.cli.main import cli
from bench.formats.events import LONGEST, AnyEvent, Event, RunStarted, Told, event_line
from bench.runs import RunObserver
from bench.runs.events import EventLog
from tests.helpers.cells import python
from tests.helpers.command import mldb
from tests.helpers.records import make_record


def read(path: Path) -> list[AnyEvent]:
    data = path.read_bytes()
    assert data.endswith(b"\n")
    assert data.isascii()
    return [Event.model_validate_json(line).root for line in data.splitlines()]


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    out = ["--out", str(folder), "--events", str(folder / "events.jsonl"), "--sandbox", "process"]
    return mldb("run", "--case", "hello_world", *out, *more)


@pytest.mark.slow
def test_a_run_is_told_event_by_event_and_a_resume_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, "--agent", "nop", "--agent", "react", "--name", "one")
    assert done.returncode == 0, done.stderr
    found = read(tmp_path / "events.jsonl")
    kinds = [it.event for it in found]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_ended")
    assert kinds.count("cell_started") == kinds.count("cell_ended") == 2
    assert kinds.count("step") == 4
    assert {it.run for it in found} == {"one"}
    (replayed,) = {it.cell for it in found if it.event == "step"}
    own = [it for it in found if getattr(it, "cell", "") == replayed]
    order = [it.phase + " " + it.state if it.event == "phase" else it.event for it in own]
    assert order.index("agent began") < order.index("step") < order.index("agent ended") < order.index("check")
    first = next(it for it in own if it.event == "step")
    assert first.tokens is not None and first.tokens.output and first.cost_usd and first.tools
    lost = next(it for it in found if it.event == "cell_ended" and not it.success)
    assert lost.why[0].startswith("no_artifact: ")
    assert any(it.event == "check" and not it.passed and it.message == "hello.py is missing" for it in found)
    ended = found[-1]
    assert ended.event == "run_ended"
    assert (ended.state, ended.cells, ended.graded, ended.succeeded, ended.steps) == ("done", 2, 2, 1, 4)
    assert "results explain" in done.stdout and "agent.log" in done.stdout
    assert "outputs_present: hello.py is missing (and 1 more check)" in done.stderr
    again = mldb(
        "run", "--resume", str(tmp_path / "one"), "--events", str(tmp_path / "events.jsonl"), "--sandbox", "process"
    )
    assert again.returncode == 0, again.stderr
    more = read(tmp_path / "events.jsonl")[len(found) :]
    assert [it.event for it in more] == ["run_started", "cell_ended", "cell_ended", "run_ended"]
    assert all(it.kept for it in more if it.event == "cell_ended")


def test_a_killed_run_leaves_whole_lines_before_the_last_one_and_the_next_run_goes_on_there(tmp_path: Path) -> None:
    code = f"""
import itertools
from pathlib import Path
from bench.runs import RunObserver
from bench.runs.events import EventLog
log = EventLog(Path({str(tmp_path / "e.jsonl")!r}), RunObserver())
for number in itertools.count():
    log.note(f"{{number}} " + "x" * 1500)
"""
    process = subprocess.Popen(python("-c", code))
    until = time.monotonic() + 60
    while not ((path := tmp_path / "e.jsonl").exists() and path.stat().st_size > 200_000) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    whole = path.read_bytes().rpartition(b"\n")[0] + b"\n"
    with EventLog(path, RunObserver()):
        assert path.read_bytes() == whole
    assert [it.text.split()[0] for it in read(path) if it.event == "note"] == [str(n) for n in range(len(read(path)))]
    assert len(read(path)) > 100


class Heard(RunObserver):
    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        self.notes.append(line)


def test_a_part_of_a_line_is_taken_away_and_another_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    with EventLog(path, RunObserver()) as log:
        log.note("one")
    path.write_bytes(path.read_bytes() + b'{"schema":1,"ti')
    with EventLog(path, RunObserver()) as log:
        log.note("two")
    assert [it.text for it in read(path) if it.event == "note"] == ["one", "two"]
    (other := tmp_path / "notes.txt").write_text("my notes\n")
    for place in (other, tmp_path / "notes.txt" / "e.jsonl"):
        with pytest.raises(UserError, match="name another file with --events"):
            EventLog(place, RunObserver())
    assert other.read_text() == "my notes\n"


def test_a_full_disk_ends_the_events_and_not_the_run() -> None:
    heard = Heard()
    with EventLog(Path("/dev/full"), heard) as log:
        log.note("one")
        log.note("two")
    assert heard.notes == ["no more events are written: /dev/full: No space left on device", "one", "two"]


def test_texts_of_agents_are_ascii_and_short(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    with EventLog(path, RunObserver()) as log:
        log.end(make_record(outcome="infra", cause="gateway_error", error="\x1b[31m\u202e\n" + "x" * 9000), kept=False)
    ended = next(it for it in read(path) if it.event == "cell_ended")
    assert (len(ended.error), ended.error[:7]) == (LONGEST, "\x1b[31m\u202e\n")
    assert b"\x1b" not in path.read_bytes()


def test_the_schema_is_printed_and_knows_every_event() -> None:
    done = CliRunner().invoke(cli, ["schema", "event"], catch_exceptions=False)
    document: dict[str, Any] = json.loads(done.output)
    names = set(document["discriminator"]["mapping"])
    assert {"run_started", "phase", "step", "limit", "check", "cell_started", "cell_ended", "run_ended"} <= names
    line = event_line(Told(time="2026-11-20T02:00:00Z", run="r", text="x"))
    assert isinstance(Event.model_validate_json(line).root, Told)
    assert RunStarted.model_fields["event"].default == "run_started"
