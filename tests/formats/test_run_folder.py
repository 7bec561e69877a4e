"""The folder of a run: one runner at a time, every try remembered, nothing of a dead runner in the way."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.base.files import Checksums, sha256_bytes, sweep, temporary_folder, temporary_path
from bench.cell.context import Clock
from bench.cell.recorder import Finished, write_record
from bench.formats.plan import Cell, make_run_plan
from bench.formats.record import Record, Try
from bench.formats.run_folder import RunFolder, new_run_name, read_record
from bench.runs.repair import repair
from bench.sandbox import end_orphans
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import ROOT, make_agent, make_case, make_cell, make_context, python, write_files


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return make_cell(make_agent(tmp_path / "agents", "pass"), make_case(tmp_path / "cases"))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def ended(tmp_path: Path, cell: Cell, cause: str, tries: list[Try] | None = None) -> Record:
    context = make_context(tmp_path, ProcessSandbox())
    return write_record(cell, context, Finished(Clock(), cause=cause, error=f"by {cause}"), tries or [])


def test_a_plan_comes_back_as_it_was_written(run: RunFolder, cell: Cell) -> None:
    plan = make_run_plan("name", "smoke", "2026.11", "mini", "process", [cell])
    run.write_plan(plan)
    assert run.read_plan() == plan
    assert plan.cells[0].cell == cell.id


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"schema": 2}', "\xff", "folder"])
def test_a_folder_that_holds_no_run_is_one_line(run: RunFolder, content: str | None) -> None:
    if content == "folder":
        (run.path / "run.json").mkdir(parents=True)
    elif content is not None:
        write_files(run.path, {"run.json": content.encode("latin-1")})
    with pytest.raises(UserError) as caught:
        run.read_plan()
    assert "\n" not in str(caught.value)


def test_a_file_in_place_of_the_folder_is_one_line(run: RunFolder) -> None:
    run.path.write_text("")
    with pytest.raises(UserError):
        run.read_plan()


def test_names_of_runs_sort_by_time_and_do_not_repeat() -> None:
    names = [new_run_name() for _ in range(50)]
    assert len(set(names)) == 50
    assert all(name[:15] <= names[-1][:15] for name in names)


def test_a_second_runner_is_refused_and_a_third_may_come_later(run: RunFolder) -> None:
    with run.locked(end_orphans):
        with pytest.raises(UserError, match="another runner"), RunFolder(run.path).locked(end_orphans):
            raise AssertionError("two runners in one folder")
        assert run.sockets.is_dir()
    assert not run.sockets.exists()
    with RunFolder(run.path).locked(end_orphans):
        assert run.sockets.is_dir()


def test_a_lock_ends_with_its_process(run: RunFolder) -> None:
    code = f"""
import time
from pathlib import Path
from bench.formats.run_folder import RunFolder
from bench.sandbox import end_orphans
with RunFolder(Path({str(run.path)!r})).locked(end_orphans):
    print("up", flush=True)
    time.sleep(40)
"""
    with subprocess.Popen(python("-c", code), cwd=ROOT, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"up\n"
        with pytest.raises(UserError, match="another runner"), run.locked(end_orphans):
            raise AssertionError("two runners in one folder")
        other.send_signal(signal.SIGKILL)
        other.wait()
    with run.locked(end_orphans):
        assert run.sockets.is_dir()


def test_what_a_killed_runner_left_is_cleared(run: RunFolder) -> None:
    write_files(run.path, {"scratch/cell/workspace/x": "", "cells/.a.json.x.tmp": "half", "cells/kept.txt": ""})
    run.sockets.mkdir()
    (run.sockets / "gateway.sock").write_text("")
    os.chmod(run.path / "scratch" / "cell", 0)
    with run.locked(end_orphans):
        assert not (run.path / "scratch").exists()
        assert list(run.sockets.iterdir()) == []
    assert [it.name for it in (run.path / "cells").iterdir()] == ["kept.txt"]


def test_two_runs_have_two_folders_of_sockets(tmp_path: Path) -> None:
    one, two = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "two")
    assert one.sockets != two.sockets
    assert one.sockets == RunFolder(tmp_path / "x" / ".." / "one").sockets
    assert len(str(one.sockets)) < 60


def test_only_graded_cells_are_finished(run: RunFolder, cell: Cell, tmp_path: Path) -> None:
    assert run.finished(cell) is None
    assert run.set_aside(cell) == []
    ended(tmp_path, cell, "service_error")
    assert run.finished(cell) is None
    assert [record.cause for record in run.records()] == ["service_error"]


def test_tries_without_a_verdict_are_among_what_a_run_has_used(run: RunFolder, cell: Cell, tmp_path: Path) -> None:
    ended(tmp_path, cell, "service_error")
    run.set_aside(cell)
    ended(tmp_path, cell, "gateway_error")
    write_files(run.path, {"cells/damaged.json": "{"})
    assert [record.cause for record in run.tries()] == ["gateway_error", "service_error"]


def test_every_try_is_remembered(run: RunFolder, cell: Cell, tmp_path: Path) -> None:
    tries: list[Try] = []
    for cause in ("service_error", "interrupted", "needs_missing"):
        ended(tmp_path, cell, cause, tries)
        tries = run.set_aside(cell)
    assert [(it.outcome, it.cause) for it in tries] == [
        ("infra", "service_error"), ("interrupted", "interrupted"), ("skipped", "needs_missing"),
    ]  # fmt: skip
    assert run.records() == []
    assert len(list((run.path / "cells").glob("*.try*.json"))) == 3


def test_tries_are_remembered_when_the_next_one_was_killed(run: RunFolder, cell: Cell, tmp_path: Path) -> None:
    ended(tmp_path, cell, "service_error")
    assert len(run.set_aside(cell)) == 1
    assert [it.cause for it in run.set_aside(cell)] == ["service_error"]
    assert [it.cause for it in run.set_aside(cell)] == ["service_error"]


def test_a_model_whose_name_looks_like_a_try_is_a_record_all_the_same(tmp_path: Path, run: RunFolder) -> None:
    agent = make_agent(tmp_path / "agents", "pass", models={"main": "openai/x.try1"})
    ended(tmp_path, make_cell(agent, make_case(tmp_path / "cases")), "service_error")
    assert len(run.records()) == 1


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def another_digit(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"trial":1', b'"trial":2'))


def of_another_cell(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"double_it/mini/1", b"double_it/mini/2"))
    (path.parents[1] / "SHA256SUMS").unlink()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"schema": 1}', cut_off, another_digit, of_another_cell])
def test_a_file_that_is_no_record_is_named_and_put_aside(
    run: RunFolder, cell: Cell, tmp_path: Path, content: bytes | Callable[[Path], None]
) -> None:
    ended(tmp_path, cell, "service_error")
    path = run.path / "cells" / f"{cell.slug}.json"
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)
        for read in (lambda: read_record(path), run.records, lambda: run.finished(cell)):
            with pytest.raises(UserError, match="puts it aside"):
                read()
    damaged = path.read_bytes()
    (line,) = repair(run, [cell])
    assert line.startswith(f"{path}: ") and "\n" not in line
    assert line.endswith(f"; kept as {path.name}.broken1, and its cell runs again")
    assert path.with_name(f"{path.name}.broken1").read_bytes() == damaged
    assert (run.records(), run.finished(cell), repair(run, [cell])) == ([], None, [])


def test_what_is_whole_is_left_alone(run: RunFolder, cell: Cell, tmp_path: Path) -> None:
    tries: list[Try] = []
    for cause in ("service_error", "interrupted", "gateway_error"):
        ended(tmp_path, cell, cause, tries)
        tries = run.set_aside(cell)
    record = ended(tmp_path, cell, "needs_missing", tries)
    before = {path: path.read_bytes() for path in (run.path / "cells").iterdir()}
    assert repair(run, [cell]) == []
    # Of a run from before there were sums.
    (run.path / "SHA256SUMS").unlink()
    assert repair(run, [cell]) == []
    assert {path: path.read_bytes() for path in (run.path / "cells").iterdir()} == before
    assert run.records() == [record]


def test_sums_are_read_by_the_usual_program(run: RunFolder, cell: Cell, tmp_path: Path) -> None:
    run.write_plan(make_run_plan("name", "smoke", "2026.11", "mini", "process", [cell]))
    ended(tmp_path, cell, "service_error")
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=run.path, check=True, capture_output=True)


def test_a_line_after_one_that_was_cut_off(tmp_path: Path) -> None:
    sums = Checksums(tmp_path)
    sums.add("a", b"1")
    os.truncate(tmp_path / "SHA256SUMS", 60)
    sums.add("b", b"2")
    sums.add("b", b"3")
    assert sums.known() == {"b": {sha256_bytes(b"2"), sha256_bytes(b"3")}}


@pytest.mark.parametrize("name", ["run.json", "run.json.copy"])
@pytest.mark.parametrize("damage", ["cut", "digit", "gone"])
def test_a_plan_is_there_twice(run: RunFolder, cell: Cell, name: str, damage: str) -> None:
    plan = make_run_plan("name", "smoke", "2026.11", "mini", "process", [cell])
    run.write_plan(plan)
    path = run.path / name
    good = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(good[:-50] if damage == "cut" else good.replace(b'"trial": 1', b'"trial": 2'))
    assert run.read_plan() == plan
    said = repair(run, [cell])
    assert [line for line in said if "restored from run.json.copy" in line] == said
    assert len(said) == (name == "run.json")
    assert path.read_bytes() == good


def test_a_run_begins_once(run: RunFolder, cell: Cell) -> None:
    plan = make_run_plan("name", "smoke", "2026.11", "mini", "process", [cell])
    run.write_plan(plan)
    with pytest.raises(UserError, match="holds a run already"):
        run.write_plan(make_run_plan("name", "other", "2026.11", "mini", "process", []))
    assert run.read_plan() == plan


def test_a_folder_that_was_made_anew_while_it_was_looked_at_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that sweep meet the folder of somebody who starts: one removes it, he makes it again, the other goes on."""
    path = tmp_path / f"mldb-{os.getuid()}.x.1"
    path.mkdir()
    really_lock = fcntl.flock

    def exchange_and_lock(descriptor: int, how: int) -> None:
        path.rmdir()
        path.mkdir()
        (path / "new").touch()
        really_lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", exchange_and_lock)
    assert sweep(tmp_path) == []
    assert (path / "new").exists()


def test_folders_of_the_dead_are_swept_and_those_of_the_living_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = temporary_path("run", "dead")
    write_files(dead, {"cell/gateway.sock": ""})
    foreign = tmp_path / "mldb-other"
    foreign.mkdir()
    with temporary_folder("verify") as one, temporary_folder("verify") as other:
        assert one != other and one.is_dir() and other.is_dir()
        assert not dead.exists()
        assert sweep(tmp_path) == []
    assert list(tmp_path.iterdir()) == [foreign]


def test_many_make_and_sweep_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def use(number: int) -> None:
        for _ in range(30):
            with temporary_folder(f"k{number}") as folder:
                (folder / "x").write_text("mine")
                sweep(tmp_path)
                assert (folder / "x").read_text() == "mine"

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_would_not_validate_costs_only_its_own_cell(run: RunFolder, cell: Cell, tmp_path: Path) -> None:
    context = make_context(tmp_path, ProcessSandbox())
    record = write_record(cell, context, Finished(Clock(), cause="judge_error", error="half \ud800"), [])
    assert (record.outcome, record.cause) == ("infra", "internal_error")
    assert run.records() == [record]
