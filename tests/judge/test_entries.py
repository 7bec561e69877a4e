"""A folder that shall hold something and nothing else: whatever else lies there is seen, however it is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.judge import holds_only
from bench.judge.files import Folder
from tests.helpers.cells import write_files

NAMES = ["n1/a.png", "n1/b.png", "list.csv"]
Change = Callable[[Path], object]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, {**{f"data/train/{name}": "x" for name in NAMES}, "data/other/a.png": "x"})
    return tmp_path


def _written(name: str) -> Change:
    return lambda root: write_files(root, {f"data/train/{name}": "x"})


def _folder_in_place(root: Path) -> None:
    (root / "data/train/list.csv").unlink()
    (root / "data/train/list.csv").mkdir()


def _link_in_place(root: Path) -> None:
    (root / "data/train/list.csv").unlink()
    (root / "data/train/list.csv").symlink_to("n1/a.png")


def _linked_folder(root: Path) -> None:
    (root / "data/train").rename(root / "data/real")
    (root / "data/train").symlink_to("real")


def _linked_parent(root: Path) -> None:
    (root / "data").rename(root / "real")
    (root / "data").symlink_to("real")


def _linked_inner_folder(root: Path) -> None:
    (root / "data/train/n1").rename(root / "n1")
    (root / "data/train/n1").symlink_to("../../n1")


def test_what_it_shall_hold_is_right(root: Path) -> None:
    holds_only(Folder(root), "data/train", NAMES)
    holds_only(Folder(root), "data", [*(f"train/{name}" for name in NAMES), "other/a.png"])


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "data/train/n2").mkdir(),
        lambda root: (root / "data/train/n1/more").mkdir(),
        _written("more/a.png"),
        _written("n1/more/deep/a.png"),
        _written("n1/a.PNG"),
        _written("n1/a.npz"),
        _written(".DS_Store"),
        _written("__pycache__/a.pyc"),
        lambda root: (root / "data/train/c.png").symlink_to("n1/a.png"),
        lambda root: os.mkfifo(root / "data/train/pipe"),
        lambda root: (root / "data/train/\udc80").mkdir(),
    ],
    ids=["empty folder", "empty folder within", "nested", "nested deep", "other case", "other ending", "hidden file",
         "cache", "link", "pipe", "name that is no text"],
)  # fmt: skip
def test_whatever_else_lies_there_is_too_many(root: Path, change: Change) -> None:
    change(root)
    with pytest.raises(AssertionError, match="'data/train' has 1 entries that do not belong there") as fault:
        holds_only(Folder(root), "data/train", NAMES)
    str(fault.value).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "data/train/n1/b.png").unlink(),
        _folder_in_place,
        _link_in_place,
        _linked_folder,
        _linked_parent,
        _linked_inner_folder,
    ],
    ids=["missing", "a folder", "a link", "folder is a link", "parent is a link", "inner folder is a link"],
)
def test_what_is_not_there_as_a_file_is_missing(root: Path, change: Change) -> None:
    change(root)
    with pytest.raises(AssertionError, match="'data/train' lacks"):
        holds_only(Folder(root), "data/train", NAMES)


def test_a_folder_that_shall_be_empty_is_so_or_is_not_there(root: Path) -> None:
    holds_only(Folder(root), "data/none", [])
    with pytest.raises(AssertionError, match="do not belong"):
        holds_only(Folder(root), "data/train", [])


@pytest.mark.parametrize(
    "below", ["a\0b", "\ud800", "x" * 10_000, "a/" * 5000, "data/train/list.csv", "../data", "/etc"]
)
def test_a_name_that_the_agent_has_written_may_be_anything(root: Path, below: str) -> None:
    with pytest.raises(AssertionError):
        holds_only(Folder(root), below, NAMES)


def test_beside_the_parts_that_hold_nothing_else_more_may_lie(root: Path) -> None:
    names = [f"train/{name}" for name in NAMES]
    holds_only(Folder(root), "data", names, parts=["train"])
    holds_only(Folder(root), "data", [*names, "other/a.png"], parts=["train"])
    with pytest.raises(AssertionError, match="lacks 1 of 4 files, such as 'other/b"):
        holds_only(Folder(root), "data", [*names, "other/b.png"], parts=["train"])
    with pytest.raises(AssertionError, match="has 1 entries that do not belong there, such as 'other/a"):
        holds_only(Folder(root), "data", names, parts=["train", "other"])


@pytest.mark.parametrize("below", ["..", "../data", "data/../..", "/", "/etc"])
def test_no_path_leads_out_of_the_workspace(root: Path, below: str) -> None:
    with pytest.raises(AssertionError, match="is not a path inside"):
        holds_only(Folder(root), below, [])
