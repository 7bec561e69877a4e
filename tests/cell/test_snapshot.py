"""Whatever a workspace holds, its cell ends in a graded record in bounded time, and what was taken out is said."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.cell import workspace
from bench.cell.context import CellContext
from bench.cell.reduction import GONE, Bounds, reduce_to
from bench.cell.run import run_cell
from bench.cell.snapshot import CrowdedError, make_harmless
from bench.cell.workspace import discard
from bench.formats.record import Record
from bench.guest.trees import remove_tree
from bench.sandbox.job import Sandbox
from tests.helpers.cells import RIGHT, make_agent, make_case, make_cell, make_context, write_files

SOLVE = f"import os, socket\nopen('answer.py', 'w').write({RIGHT!r})\n"
SPARSE = "for n in range({count}): open(f'{{n}}.bin', 'wb').truncate({size})\n"
DEEP = "for _ in range({levels}): os.mkdir('d'); os.chdir('d')\n"
CROWD = "os.mkdir('crowd')\nfor n in range({count}): open(f'crowd/{{n}}', 'w').close()\n"


@pytest.fixture
def context(tmp_path: Path, variant_sandbox: Sandbox) -> Iterator[CellContext]:
    made = make_context(tmp_path, variant_sandbox)
    yield made
    # Deeper than what cleans up after tests goes.
    remove_tree(made.folder / "scratch")
    remove_tree(made.sockets)


def run(context: CellContext, script: str, **limits: Any) -> Record:
    folder = context.folder.parent
    case = make_case(folder / "cases", limits={"disk_mb": 1024, "agent_s": 120, **limits})
    record = run_cell(make_cell(make_agent(folder / "agents", SOLVE + script), case), context)
    assert record.outcome == "graded", record.error
    seconds = {phase.name: phase.seconds for phase in record.phases}
    assert seconds["snapshot"] + seconds["judge"] < 2 * case.spec.limits.grade_s, seconds
    # What a busy disk does not let go of in time is moved aside, and goes with the run.
    assert not [path for path in (context.folder / "scratch" / "work").glob("*") if not path.name.startswith(GONE)]
    return record


def flag(record: Record, name: str = "workspace_too_large") -> str:
    return "; ".join(note.evidence for note in record.flags if note.name == name)


@pytest.mark.parametrize("count", [30, 401])
def test_sparse_files_are_taken_out_largest_first_and_the_rest_is_judged(context: CellContext, count: int) -> None:
    record = run(context, SPARSE.format(count=count, size=1 << 30))
    assert (record.success, record.stop_reason) == (True, "disk_limit")
    said = re.match(
        r"([0-9,]+) MiB, 1,024 MiB are the limit: the ([0-9]+) largest files were taken out: '0.bin'", flag(record)
    )
    assert said, flag(record)
    # The agent may be stopped while it still makes them.
    size, taken = (int(number.replace(",", "")) for number in said.groups())
    assert 1 < taken <= count and size == taken * 1024


def test_notes_take_a_share_of_what_the_disk_has_left(context: CellContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they fill it, cell by cell, and every later cell is lost."""
    monkeypatch.setattr(workspace, "room_to_keep", lambda _: 1 << 20)
    notes = "for n in (2, 1): open(os.path.join(os.environ['BENCH_OUT_DIR'], str(n)), 'wb').write(bytes(n << 19))\n"
    record = run(context, notes)
    kept = sorted(path.name for path in context.folder.glob("traces/*/out/*"))
    assert (record.success, kept) == (True, ["1"])
    assert flag(record, "notes_left_out") == (
        "out/: 1 MiB, 1 MiB are the limit: the 1 largest files were taken out: '2'"
    )


def test_links_count_under_each_name(context: CellContext) -> None:
    script = "open('a', 'wb').truncate(600 << 20)\nfor n in range(50): os.link('a', f'b{n}')\n"
    record = run(context, script)
    assert record.success
    assert "the 50 largest files were taken out: 'a', 'b0'" in flag(record)


def test_a_crowd_leaves_only_the_files_that_the_case_names(
    context: CellContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "MOST_ENTRIES", 300)
    record = run(context, CROWD.format(count=400))
    assert record.success
    assert flag(record) == "more than 300 files and folders: only files that the case names stayed"


@pytest.mark.slow
@pytest.mark.nightly
def test_two_hundred_thousand_files(context: CellContext) -> None:
    record = run(context, CROWD.format(count=200_001), agent_s=900)
    assert (record.stop_reason, "more than 200,000 files" in flag(record)) == ("finished", True)


@pytest.mark.parametrize(
    "script",
    [
        DEEP.format(levels=5000),
        "os.mkdir('__pycache__'); os.chdir('__pycache__')\n" + CROWD.format(count=3000),
        "os.mkdir(b'x\\xff'); os.chdir(b'x\\xff')\n" + CROWD.format(count=3000),
        "for n in range(300): open(str(n).zfill(3) * 85, 'w')\n",
        "for n in range(300): os.mkfifo(f'{n}')\nsocket.socket(socket.AF_UNIX).bind('s'); os.symlink('/dev/zero', 'z')",
        "os.makedirs('a/b'); open('a/b/c', 'w'); os.chmod('a/b/c', 0); os.chmod('a/b', 0); os.chmod('a', 0)\n",
        "os.remove('answer.py'); os.mkfifo('answer.py')\n",
        "os.chdir(os.environ['BENCH_OUT_DIR'])\n" + SPARSE.format(count=30, size=1 << 30),
        "os.chdir(os.environ['BENCH_OUT_DIR'])\n" + DEEP.format(levels=5000),
    ],
    ids=[
        "deep",
        "caches",
        "odd names",
        "long names",
        "pipes",
        "locked",
        "pipe for an answer",
        "sparse out",
        "deep out",
    ],
)
def test_odd_workspaces_are_judged(context: CellContext, script: str) -> None:
    record = run(context, script)
    assert record.success == ("mkfifo('answer.py')" not in script)
    assert sum(item.size for item in record.artifacts) < 1100 << 20


def test_an_out_folder_of_many_files_is_emptied(context: CellContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MOST_ENTRIES", 300)
    record = run(context, "os.chdir(os.environ['BENCH_OUT_DIR'])\n" + CROWD.format(count=400))
    assert record.success
    assert [item.name for item in record.artifacts] == ["agent.log", "changes.json", "workspace.json"]


def test_what_takes_too_long_is_cut_down_and_told(context: CellContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at everything that is ended is followed by one at the named files alone."""
    monkeypatch.setattr(workspace, "_LEAST_S", 0.05)
    monkeypatch.setattr(workspace, "_SHARE", 0.0)
    record = run(context, CROWD.format(count=60_000))
    assert flag(record) == "too much to look at (over 0.05 s): only files that the case names stayed"
    assert record.success


def test_the_runner_itself_stays_small(context: CellContext) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(context, CROWD.format(count=20_000) + SPARSE.format(count=40, size=1 << 30))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 64


# --- the parts -------------------------------------------------------------------------------------------------------


def test_equal_sizes_go_by_name_and_no_more_than_needed(tmp_path: Path) -> None:
    root = write_files(tmp_path / "root", {f"{name}.bin": b"x" * 8192 for name in "dbca"})
    snapshot = make_harmless(root, Bounds(size=3 * 8192))
    assert sorted(path.name for path in root.iterdir()) == ["b.bin", "c.bin", "d.bin"]
    assert (snapshot.files, "'a.bin'" in snapshot.too_large) == (3, True)
    assert make_harmless(root, Bounds(size=3 * 8192)).too_large == ""


def test_entries_are_counted_before_they_are_kept_in_mind(tmp_path: Path) -> None:
    root = write_files(tmp_path / "root", {f"a/{number}": "" for number in range(20)})
    with pytest.raises(CrowdedError):
        make_harmless(root, Bounds(entries=20))
    assert make_harmless(root, Bounds(entries=21)).files == 20


def test_named_files_are_taken_only_as_regular_files_below_real_folders(tmp_path: Path) -> None:
    outside = write_files(tmp_path / "outside", {"x": "not the agent's"})
    root = write_files(tmp_path / "root", {"a": "1", "b/c": "2", "big": b"x" * 5000, "crowd/1": ""})
    (root / "link").symlink_to(outside / "x")
    (root / "folder").symlink_to(outside)
    os.mkfifo(root / "pipe")
    names = ["a", "b/c", "big", "link", "folder/x", "pipe", "absent", "a/b", "b", "a"]
    reduce_to(root, names, Bounds(size=2 * 4096), tmp_path)
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == ["a", "b/c"]
    assert (outside / "x").exists()


def test_removing_is_ended_when_it_takes_too_long_and_done_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = write_files(tmp_path / "crowd", {f"{number}": "" for number in range(3000)})
    monkeypatch.setattr(workspace, "_REMOVAL_S", 0.0)
    discard([crowd, tmp_path / "absent"])
    assert not crowd.exists()
    monkeypatch.undo()
    crowd.mkdir()
    discard([crowd])
    assert list(tmp_path.iterdir()) == []
