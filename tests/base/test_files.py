"""Files that are either whole or absent, digests that see what matters, removal that always works."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.base.files import (
    digest_folder,
    lay_over,
    lock,
    room_to_keep,
    sha256_bytes,
    sha256_file,
    walk_files,
    write_atomic,
)
from bench.cell.inventory import inventory
from bench.guest.trees import remove_tree
from tests.helpers.cells import ROOT, python, write_files

EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_writing_makes_parents_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [it.name for it in path.parent.iterdir()] == ["b.txt"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    write_files(path, {"inside.txt": "x"})
    with pytest.raises(OSError, match="folder"):
        write_atomic(path, b"data")
    assert [it.name for it in tmp_path.iterdir()] == ["folder"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    write_files(tmp_path, {"target.txt": "old"})
    (tmp_path / "link.txt").symlink_to("target.txt")
    write_atomic(tmp_path / "link.txt", b"new")
    assert (tmp_path / "target.txt").read_text() == "old"
    assert not (tmp_path / "link.txt").is_symlink()


def test_a_killed_writer_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    code = f"""
from pathlib import Path
from bench.base.files import write_atomic
n = 0
while True:
    write_atomic(Path({str(path)!r}), b"%d" % (n % 10) * 500_000)
    n += 1
    print(flush=True)
"""
    for _ in range(5):
        with subprocess.Popen(python("-c", code), cwd=ROOT, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(3):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
        data = path.read_bytes()
        assert len(data) == 500_000
        assert len(set(data)) == 1


def test_digests_of_bytes_and_files(tmp_path: Path) -> None:
    write_files(tmp_path, {"empty": b"", "big": b"x" * (3 << 20)})
    assert sha256_bytes(b"") == sha256_file(tmp_path / "empty") == EMPTY
    assert sha256_file(tmp_path / "big") == sha256_bytes(b"x" * (3 << 20))
    (tmp_path / "link").symlink_to("big")
    with pytest.raises(OSError, match="link"):
        sha256_file(tmp_path / "link")


def test_walking_is_sorted_follows_no_link_and_skips_caches(tmp_path: Path) -> None:
    write_files(tmp_path, {"b/x": "", "a": "", "b.txt": "", "c/__pycache__/x.pyc": "", "c/d/e": ""})
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [name for name, _ in walk_files(tmp_path)] == ["a", "b.txt", "b/x", "c/d/e", "loop"]
    assert [name for name, _ in walk_files(tmp_path, skip=frozenset({"c"}))] == ["a", "b.txt", "b/x", "loop"]
    assert list(walk_files(tmp_path / "absent")) == []


def test_a_digest_sees_names_contents_and_modes_and_nothing_else(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, names in ((one, ("a", "b/c")), (two, ("b/c", "a"))):
        for name in names:
            write_files(folder, {name: name})
    assert digest_folder(one) == digest_folder(two)
    os.utime(two / "a", (0, 0))
    write_files(two, {"__pycache__/x.pyc": "x"})
    (two / "link").symlink_to("a")
    (two / "empty").mkdir()
    assert digest_folder(one) == digest_folder(two)
    (two / "a").chmod(0o755)
    assert digest_folder(one) != digest_folder(two)
    (two / "a").chmod(0o644)
    (two / "a").rename(two / "A")
    assert digest_folder(one) != digest_folder(two)
    assert digest_folder(one, without=frozenset({"a"})) == digest_folder(two, without=frozenset({"A"}))


_TREES = st.dictionaries(
    st.sampled_from(["a", "b", "c/d", "c/e", "f"]), st.tuples(st.binary(max_size=3), st.booleans()), max_size=5
)


@settings(max_examples=40, deadline=None)
@given(_TREES, _TREES)
def test_equal_digests_and_equal_content_are_the_same_thing(
    tmp_path_factory: pytest.TempPathFactory, one: dict[str, tuple[bytes, bool]], two: dict[str, tuple[bytes, bool]]
) -> None:
    folders = []
    for tree in (one, two):
        folder = tmp_path_factory.mktemp("tree")
        for name, (content, executable) in tree.items():
            write_files(folder, {name: content})
            (folder / name).chmod(0o755 if executable else 0o644)
        folders.append(folder)
    first, second = folders
    assert (digest_folder(first) == digest_folder(second)) == (inventory(first) == inventory(second)) == (one == two)


def test_laying_over_replaces_files_keeps_modes_and_copies_no_link(tmp_path: Path) -> None:
    source = write_files(tmp_path / "source", {"a": "new", "b/c": "c", "__pycache__/x": ""})
    (source / "b" / "c").chmod(0o700)
    (source / "link").symlink_to("/etc/hostname")
    target = write_files(tmp_path / "target", {"a": "old", "kept": "kept"})
    lay_over(source, target)
    assert [name for name, _ in walk_files(target)] == ["a", "b/c", "kept"]
    assert (target / "a").read_text() == "new"
    assert (target / "b" / "c").stat().st_mode & 0o777 == 0o755


def test_removing_leaves_nothing_and_follows_no_link(tmp_path: Path) -> None:
    outside = write_files(tmp_path / "outside", {"kept.txt": "x"})
    tree = write_files(tmp_path / "tree", {"a/b/c": "", "d": ""})
    (tree / "a" / "link").symlink_to(outside)
    os.mkfifo(tree / "a" / "pipe")
    os.makedirs(bytes(tree) + b"/bad\xff/x")
    remove_tree(tree)
    assert not tree.exists()
    assert (outside / "kept.txt").exists()
    (tmp_path / "link").symlink_to(outside)
    remove_tree(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert (outside / "kept.txt").exists()


@pytest.mark.parametrize("name", ["absent", "file/below"])
def test_removing_what_is_not_there_is_fine(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {"file": ""})
    remove_tree(tmp_path / name)
    remove_tree(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_removing_goes_deeper_than_any_path(tmp_path: Path) -> None:
    code = "import os\nfor _ in range(1500): os.mkdir('deep'); os.chdir('deep')\nopen('bottom', 'w')"
    (tmp_path / "tree").mkdir()
    subprocess.run(python("-c", code), cwd=tmp_path / "tree", check=True)
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_waited_for_so_long_and_then_says_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with lock(path) as descriptor:
        assert os.fstat(descriptor).st_ino == path.stat().st_ino
        began = time.monotonic()
        again = lock(path, patience_s=0.2, busy="another builds")
        with pytest.raises(UserError, match=r"folder: another builds \(wait for it to end\)"), again:
            raise AssertionError("both hold it")
        assert time.monotonic() - began >= 0.2
    with lock(path, patience_s=0, busy="another builds"):
        assert path.is_file(), "it stays, so that all lock the same file"


@pytest.mark.parametrize(("free", "first", "least"), [(14_000, 619, 1_500), (2_000, 7, 600)])
def test_cells_that_have_ended_never_take_all_of_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, first: int, least: int
) -> None:
    left = free
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((1 << 20, 1 << 20, 0, 0, left, 0, 0, 0, 0, 255)))
    assert room_to_keep(tmp_path) >> 20 == first
    for _ in range(300):
        left -= room_to_keep(tmp_path) >> 20
    assert left > least
