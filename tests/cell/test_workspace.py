"""What an agent leaves is made harmless: no link, no device, no second name; protected files are as they were."""

from __future__ import annotations

import importlib.util
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.base.files import digest_folder, lay_over, walk_files
from bench.cell.snapshot import take_snapshot
from bench.guest.trees import remove_tree
from tests.helpers.cells import ROOT, python, write_files


@pytest.fixture
def start(tmp_path: Path) -> Path:
    folder = write_files(
        tmp_path / "start",
        {"main.py": "x = 1\n", "run.sh": "#!/bin/sh\n", "tests/test_main.py": "import main\n", "data/a.csv": "a\n1\n"},
    )
    (folder / "run.sh").chmod(0o755)
    return folder


@pytest.fixture
def workspace(start: Path, tmp_path: Path) -> Path:
    lay_over(start, tmp_path / "workspace")
    return tmp_path / "workspace"


def test_a_workspace_is_a_copy_with_modes(start: Path, workspace: Path) -> None:
    assert digest_folder(workspace) == digest_folder(start)
    assert (workspace / "run.sh").stat().st_mode & stat.S_IXUSR
    (workspace / "main.py").write_text("changed")
    assert (start / "main.py").read_text() == "x = 1\n"


def test_an_untouched_workspace_is_left_as_it_is(start: Path, workspace: Path) -> None:
    snapshot = take_snapshot(workspace, start, ["tests/test_main.py"])
    assert (snapshot.tampered, snapshot.dropped, snapshot.files) == ([], [], 4)
    assert digest_folder(workspace) == digest_folder(start)


def test_links_and_devices_are_dropped_and_named(start: Path, workspace: Path, tmp_path: Path) -> None:
    outside = write_files(tmp_path / "outside", {"secret.txt": "secret"})
    (workspace / "to_file").symlink_to(outside / "secret.txt")
    (workspace / "to_folder").symlink_to(outside)
    (workspace / "dangling").symlink_to("/nowhere")
    os.mkfifo(workspace / "data" / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(workspace / "socket"))
    snapshot = take_snapshot(workspace, start, [])
    assert sorted(snapshot.dropped) == ["data/pipe", "socket"]
    assert sorted(snapshot.links) == ["dangling", "to_file", "to_folder"]
    assert digest_folder(workspace) == digest_folder(start)
    assert (outside / "secret.txt").read_text() == "secret"


def test_many_links_are_not_all_named(start: Path, workspace: Path) -> None:
    for number in range(300):
        (workspace / f"link{number}").symlink_to("/")
    assert 0 < len(take_snapshot(workspace, start, []).links) < 300
    assert digest_folder(workspace) == digest_folder(start)


def test_a_file_with_a_name_elsewhere_becomes_ours_alone(start: Path, workspace: Path, tmp_path: Path) -> None:
    outside = write_files(tmp_path / "outside", {"file.txt": "text"}) / "file.txt"
    outside.chmod(0o600)
    for name in ("linked.txt", "again.txt"):
        os.link(outside, workspace / name)
    take_snapshot(workspace, start, [])
    outside.write_text("changed later")
    assert (workspace / "linked.txt").read_text() == "text"
    assert (workspace / "again.txt").read_text() == "text"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600


def test_names_made_for_our_copies_lead_nowhere(start: Path, workspace: Path, tmp_path: Path) -> None:
    """An agent that guesses the name of a temporary copy could have us write through its link."""
    outside = write_files(tmp_path / "outside", {"victim.txt": "precious", "file.txt": "text"})
    os.link(outside / "file.txt", workspace / "a.txt")
    for suffix in (".own", ".tmp", ".copy", "~", ".bak"):
        (workspace / f"a.txt{suffix}").symlink_to(outside / "victim.txt")
    (workspace / "b.txt.own").write_text("the agent's own file")
    os.link(outside / "file.txt", workspace / "b.txt")
    take_snapshot(workspace, start, [])
    assert (outside / "victim.txt").read_text() == "precious"
    assert (workspace / "a.txt").read_text() == "text"
    assert (workspace / "b.txt.own").read_text() == "the agent's own file"


def test_a_linked_file_of_the_longest_name_is_no_trouble(start: Path, workspace: Path, tmp_path: Path) -> None:
    outside = write_files(tmp_path / "outside", {"file.txt": "text"}) / "file.txt"
    os.link(outside, workspace / ("n" * 255))
    assert take_snapshot(workspace, start, []).files == 5


def test_links_within_the_workspace_do_not_multiply_its_size(start: Path, workspace: Path) -> None:
    with (workspace / "big0").open("wb") as file:
        file.truncate(256 << 20)
    for number in range(1, 20):
        os.link(workspace / "big0", workspace / f"big{number}")
    take_snapshot(workspace, start, [])
    used = sum({entry.inode(): entry.stat().st_blocks * 512 for _, entry in walk_files(workspace)}.values())
    assert used < 64 << 20
    assert (workspace / "big19").stat().st_size == 256 << 20


def test_locked_folders_and_files_become_readable() -> None:
    """As an ordinary user: root does not notice locks."""
    code = """
import os, sys, tempfile
from pathlib import Path
from bench.base.files import walk_files; from bench.guest.trees import remove_tree
from bench.cell.snapshot import take_snapshot
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
room = Path(tempfile.mkdtemp())
workspace = room / "workspace"
(workspace / "locked" / "deeper").mkdir(parents=True)
(workspace / "locked" / "deeper" / "file").write_text("x")
(workspace / "locked" / "deeper" / "file").chmod(0)
(workspace / "locked" / "deeper").chmod(0)
(workspace / "locked").chmod(0)
workspace.chmod(0)
print(take_snapshot(workspace, room / "start", []).files, [name for name, _ in walk_files(workspace)])
(workspace / "locked" / "deeper").chmod(0)
(workspace / "locked").chmod(0)
workspace.chmod(0)
remove_tree(workspace)
print(workspace.exists())
room.rmdir()
"""
    done = subprocess.run(python("-B", "-c", code), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "1 ['locked/deeper/file']\nFalse\n", done.stderr


def test_names_that_are_no_text_are_dropped(start: Path, workspace: Path) -> None:
    (workspace / os.fsdecode(b"bad\xff")).write_text("x")
    os.makedirs(bytes(workspace) + b"/worse\xff/deep")
    snapshot = take_snapshot(workspace, start, [])
    assert len(snapshot.dropped) == 2
    for name in snapshot.dropped:
        name.encode("utf-8")
    assert digest_folder(workspace) == digest_folder(start)


def test_folders_too_deep_for_a_path_are_dropped(start: Path, workspace: Path) -> None:
    code = "import os\nfor _ in range(1500): os.mkdir('deep'); os.chdir('deep')\nopen('bottom', 'w')"
    subprocess.run(python("-c", code), cwd=workspace, check=True)
    try:
        snapshot = take_snapshot(workspace, start, [])
    finally:
        remove_tree(workspace / "deep")
    assert len(snapshot.dropped) == 1
    assert [name for name, _ in walk_files(workspace)] == [name for name, _ in walk_files(start)]
    remove_tree(workspace)
    assert not workspace.exists()


def test_executables_stay_executable_and_nothing_else_does(start: Path, workspace: Path) -> None:
    (workspace / "main.py").chmod(0o4777)
    (workspace / "data" / "a.csv").chmod(0o666)
    take_snapshot(workspace, start, [])
    modes = {name: stat.S_IMODE((workspace / name).stat().st_mode) for name in ("main.py", "data/a.csv", "run.sh")}
    assert modes == {"main.py": 0o755, "data/a.csv": 0o644, "run.sh": 0o755}


# --- protected files -------------------------------------------------------------------------------------------------


def _change(place: Path) -> None:
    place.write_text("changed")


def _make_folder(place: Path) -> None:
    place.unlink()
    write_files(place, {"x": "x"})


def _make_link(place: Path) -> None:
    place.unlink()
    place.symlink_to("/etc/hostname")


def _make_pipe(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)


def _parent_becomes_a_file(place: Path) -> None:
    remove_tree(place.parent)
    place.parent.write_text("a file")


def _parent_becomes_a_link(place: Path) -> None:
    remove_tree(place.parent)
    place.parent.symlink_to("/tmp")


def _parent_goes(place: Path) -> None:
    remove_tree(place.parent)


@pytest.mark.parametrize(
    "spoil",
    [_change, Path.unlink, _make_folder, _make_link, _make_pipe, _parent_becomes_a_file, _parent_becomes_a_link,
     _parent_goes],
)  # fmt: skip
def test_a_protected_file_is_restored_and_its_change_is_told(
    start: Path, workspace: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(workspace / "tests" / "test_main.py")
    snapshot = take_snapshot(workspace, start, ["tests/test_main.py", "main.py"])
    assert snapshot.tampered == ["tests/test_main.py"]
    assert digest_folder(workspace) == digest_folder(start)


def test_all_files_below_a_protected_folder_are_restored(start: Path, workspace: Path) -> None:
    (workspace / "tests" / "test_main.py").write_text("assert True\n")
    (workspace / "tests" / "made_by_the_agent.txt").write_text("a note")
    assert take_snapshot(workspace, start, ["tests"]).tampered == ["tests/test_main.py"]
    remove_tree(workspace / "tests")
    assert take_snapshot(workspace, start, ["tests/"]).tampered == ["tests/test_main.py"]
    assert digest_folder(workspace) == digest_folder(start)


def test_protected_files_that_never_were_are_no_tampering(start: Path, workspace: Path) -> None:
    (workspace / "absent.py").write_text("x")
    assert take_snapshot(workspace, start, ["absent.py"]).tampered == []


def test_bytecode_cannot_stand_in_for_a_protected_file(start: Path, workspace: Path) -> None:
    """Python runs an unchecked .pyc in place of its source, however the source reads."""
    import py_compile

    planted = workspace / "planted.py"
    planted.write_text("x = 666\n")
    place = Path(importlib.util.cache_from_source(str(workspace / "main.py")))
    py_compile.compile(
        str(planted), cfile=str(place), dfile="main.py", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    argv = python("-c", "import main; print(main.x)")
    assert subprocess.run(argv, cwd=workspace, capture_output=True, check=True).stdout == b"666\n"
    take_snapshot(workspace, start, ["main.py"])
    assert subprocess.run(argv, cwd=workspace, capture_output=True, check=True).stdout == b"1\n"


@pytest.mark.parametrize(
    "name", ["main/__init__.py", "main.abi3.so", "main.cpython-311-x86_64-linux-gnu.so", "main.pyc"]
)
def test_nothing_can_be_imported_in_place_of_a_protected_file(start: Path, workspace: Path, name: str) -> None:
    write_files(workspace, {name: "x = 666\n"})
    snapshot = take_snapshot(workspace, start, ["main.py"])
    assert snapshot.tampered == [name.partition("/")[0]]
    assert digest_folder(workspace) == digest_folder(start)


def test_what_the_starter_has_beside_a_protected_file_stays(tmp_path: Path) -> None:
    start = write_files(tmp_path / "start", {"main.py": "x = 1\n", "main/__init__.py": "x = 2\n"})
    lay_over(start, tmp_path / "workspace")
    assert take_snapshot(tmp_path / "workspace", start, ["main.py"]).tampered == []
    assert digest_folder(tmp_path / "workspace") == digest_folder(start)


def test_other_modules_of_like_names_stay(start: Path, workspace: Path) -> None:
    write_files(workspace, {"main_helper.py": "", "main_data/x.txt": "", "tests/helper.py": ""})
    assert take_snapshot(workspace, start, ["main.py"]).tampered == []
    assert (workspace / "main_data" / "x.txt").is_file()
