"""What a program may leave in the folder where the judge runs it again: its inputs as they were."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.casekit.programs import kept_as_given, learns_again, left_alone
from bench.judge.files import Folder
from bench.judge.hidden_files import Hidden

INPUTS: dict[str, bytes | str] = {"train.csv": "Id,é\n1,2\n", "images/1.npy": b"\x00\xff"}


@pytest.fixture
def left(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "train.csv").write_text("Id,é\n1,2\n", encoding="utf-8")
    (tmp_path / "images/1.npy").write_bytes(b"\x00\xff")
    return tmp_path


def test_new_files_beside_the_inputs_are_allowed(left: Path) -> None:
    (left / "submission.csv").write_text("Id\n")
    (left / "model").mkdir()
    (left / "model/weights.npy").write_bytes(b"1")
    left_alone(Folder(left), INPUTS)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "one byte more": (lambda root: (root / "train.csv").write_text("Id,é\n1,2\n\n", encoding="utf-8"), "train.csv"),
    "removed": (lambda root: (root / "images/1.npy").unlink(), "images/1.npy"),
    "added": (lambda root: (root / "images/all.npy").write_bytes(b"1"), "images/all.npy"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_input_is_named(left: Path, name: str) -> None:
    change, blamed = CHANGES[name]
    change(left)
    with pytest.raises(AssertionError, match=blamed):
        left_alone(Folder(left), INPUTS)


def test_a_changed_hidden_file_is_named_too(left: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    hidden = Hidden(tmp_path_factory.mktemp("hidden") / "reader.py")
    hidden.path.write_text("x = 1\n")
    (left / "reader.py").write_text("x = 1\n")
    left_alone(Folder(left), {"reader.py": hidden})
    (left / "reader.py").write_text("x = 2\n")
    with pytest.raises(AssertionError, match=r"reader\.py"):
        left_alone(Folder(left), {"reader.py": hidden})


class Finished(Folder):
    """A command's end, and the folder it left."""

    def ok(self) -> Finished:
        return self


class Workspace(Folder):
    """One whose every command leaves `after`."""

    def __init__(self, root: Path, after: Path) -> None:
        super().__init__(root)
        self.after = after
        self.removed: list[str] = []

    def run(self, argv: list[str], *, remove: list[str], **_: object) -> Finished:
        self.removed = remove
        return Finished(self.after)


def test_a_changed_file_of_those_kept_is_named(left: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = tmp_path_factory.mktemp("before")
    for folder in (before, left):
        (folder / "weights.npy").write_bytes(b"1")
    workspace = Workspace(before, left)
    assert learns_again(workspace, ["python", "train.py"], INPUTS, 1.0, kept=["weights.npy"]).exists("train.csv")
    (left / "weights.npy").write_bytes(b"2")
    with pytest.raises(AssertionError, match=r"weights\.npy"):
        learns_again(workspace, ["python", "train.py"], INPUTS, 1.0, kept=["weights.npy"])


def test_names_count_with_the_python_files(left: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = tmp_path_factory.mktemp("before")
    for number in range(10):
        (before / f"{number:0200}.py").touch()
    workspace = Workspace(before, left)
    with pytest.raises(AssertionError, match="have 2,030 bytes, wanted at most 2,000"):
        learns_again(workspace, ["python", "train.py"], INPUTS, 1.0, most_kb=2)
    learns_again(workspace, ["python", "train.py"], INPUTS, 1.0, most_kb=3)


def test_folders_of_what_is_taken_away_are_not_there_either(
    left: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A program may make the folders that it made before."""
    before = tmp_path_factory.mktemp("before")
    for name in (
        "train.py",
        "weights.npy",
        "data/train/1.ppm",
        "data/val/2.ppm",
        "models/net.py",
        "models/logs/1/a.log",
    ):
        (before / name).parent.mkdir(parents=True, exist_ok=True)
        (before / name).write_bytes(b"1")
    (left / "weights.npy").write_bytes(b"1")
    workspace = Workspace(before, left)
    learns_again(workspace, ["python", "train.py"], INPUTS, 1.0, kept=["weights.npy"])
    assert workspace.removed == ["data", "images", "models/logs"]


def test_what_was_given_is_kept_by_the_agent_and_by_its_program(
    left: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept_as_given(Folder(left), INPUTS, lambda: Folder(left))

    def fails() -> Folder:
        raise AssertionError("the program ends with status 1")

    kept_as_given(Folder(left), INPUTS, fails)
    other = shutil.copytree(left, tmp_path_factory.mktemp("ran"), dirs_exist_ok=True)
    (other / "images/1.npy").write_bytes(b"2")
    with pytest.raises(AssertionError, match=r"the program changed images/1\.npy"):
        kept_as_given(Folder(left), INPUTS, lambda: Folder(other))
    (other / "images/1.npy").write_bytes((left / "images/1.npy").read_bytes())
    (other / "images/cache.npy").write_bytes(b"1")
    with pytest.raises(AssertionError, match=r"the program put images/cache\.npy"):
        kept_as_given(Folder(left), INPUTS, lambda: Folder(other))
    (left / "images/more.npy").write_bytes(b"1")
    with pytest.raises(AssertionError, match=r"images/more\.npy is new"):
        kept_as_given(Folder(left), INPUTS, fails)
