"""The room that commands hold in the copies on which they were run, whatever they have left there."""

from __future__ import annotations

import os
from pathlib import Path

from bench.judge.ran import PrivateCopies, place
from tests.helpers.cells import write_files


def test_small_copies_do_not_fill_a_disk_and_large_ones_do(tmp_path: Path) -> None:
    copies = PrivateCopies(write_files(tmp_path / "snapshot", {"x.py": "x = 1\n"}), limit_mb=2)
    made = [copies.make() for _ in range(3)]
    assert [(copy / "x.py").read_text() for copy in made] == ["x = 1\n"] * 3
    assert not copies.fill_the_disk()
    (made[0] / "large").write_bytes(bytes(1 << 20))
    assert copies.fill_the_disk()
    copies.empty(made[0])
    assert list(made[0].iterdir()) == [] and not copies.fill_the_disk()
    copies.close()
    assert not any(copy.exists() for copy in made)


def test_what_is_copied_counts_where_its_copy_does_not_fit(tmp_path: Path) -> None:
    """The part of the copy for which there was room may be small: an agent chose how much it leaves."""
    snapshot = write_files(tmp_path / "snapshot", {"x.py": ""})
    (snapshot / "large").write_bytes(bytes(1_500_000))
    assert PrivateCopies(snapshot, limit_mb=2).fill_the_disk()


def test_what_is_nested_deeper_than_a_path_is_too_much(tmp_path: Path) -> None:
    """An error here would be the judge's, and the cell lost."""
    copies = PrivateCopies(write_files(tmp_path / "snapshot", {"x.py": ""}), limit_mb=2)
    here = os.open(copies.make(), os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 100, dir_fd=here)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert copies.fill_the_disk()
    copies.close()


def test_a_module_of_the_judge_is_what_python_imports(tmp_path: Path) -> None:
    """A package or a compiled module of its name, left beside it, was imported in its place, and counted nothing."""
    left = {
        "counted.py": "x = 1\n",
        "counted/__init__.py": "",
        "counted/more.py": "",
        "counted.abi3.so": "",
        "own.so": "",
    }
    root = write_files(tmp_path / "copy", {**left, "data/__init__.py": ""})
    place(root, "counted.py", "x = 2\n")
    place(root, "data.csv", "1\n")
    assert {str(it.relative_to(root)) for it in root.rglob("*") if it.is_file()} == {
        "counted.py",
        "own.so",
        "data.csv",
        "data/__init__.py",
    }
    assert (root / "counted.py").read_text() == "x = 2\n"
