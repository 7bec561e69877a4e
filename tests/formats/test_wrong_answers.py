"""A wrong answer is laid out in one order: base, patch, command, then the files that a patch cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.base.files import lay_over
from bench.formats.case import Case
from bench.formats.patch_writing import make_patch
from bench.formats.wrong_answers import LaidOut, Tree, materialise
from tests.helpers.cells import RIGHT, STARTER, WRONG, make_case, wrong_patch


def case_with(tmp_path: Path, files: Mapping[str, str | bytes | None], **entry: Any) -> Case:
    """A case whose wrong answer `same` has these files beside what the case has."""
    return make_case(tmp_path, files, wrong={"same": {"about": "x", "fails": ["doubles"], **entry}})


def laid(case: Case, folder: Path) -> tuple[LaidOut, dict[str, bytes]]:
    """The answer, and the workspace in which its command is run."""
    answer = materialise(case, "same", folder / "laid")
    workspace = folder / "workspace"
    workspace.mkdir()
    for source in (case.part("workspace"), answer.folder):
        lay_over(source, workspace)
    for path in answer.removed:
        (workspace / path).unlink()
    return answer, Tree.read(workspace).files


def test_the_base_is_the_starter_with_the_solution_over_it(tmp_path: Path) -> None:
    files = {"workspace/kept.txt": "k\n", "solution/helper.py": "h\n", "workspace/both.txt": "old\n",
             "solution/both.txt": "new\n"}  # fmt: skip
    answer, workspace = laid(case_with(tmp_path, files), tmp_path)
    assert workspace == {
        "answer.py": WRONG.encode(), "kept.txt": b"k\n", "helper.py": b"h\n", "both.txt": b"new\n"
    }  # fmt: skip
    assert sorted(Tree.read(answer.folder).files) == ["answer.py", "both.txt", "helper.py"]
    assert (answer.run, answer.removed, answer.last) == ([], [], None)


def test_the_solutions_own_command_is_not_run(tmp_path: Path) -> None:
    case = make_case(tmp_path, solution={"run": ["python", "solve.py"]})
    assert materialise(case, "same", tmp_path / "laid").run == []


def test_the_base_may_be_the_starter_alone(tmp_path: Path) -> None:
    case = case_with(tmp_path, {"solution/helper.py": "h\n"}, base="starter")
    assert case.part("wrong/same.patch").read_text() == wrong_patch(WRONG, solution=STARTER)
    assert laid(case, tmp_path)[1] == {"answer.py": WRONG.encode()}


def test_files_that_a_patch_deletes_are_not_there(tmp_path: Path) -> None:
    old = {"answer.py": RIGHT.encode(), "helper.py": b"h\n", "test.py": b"t\n", "empty": b""}
    patch = make_patch(old, {"answer.py": WRONG.encode()}).decode()
    files = {"wrong/same.patch": patch, "solution/helper.py": "h\n", "workspace/test.py": "t\n", "workspace/empty": ""}
    answer, workspace = laid(case_with(tmp_path, files), tmp_path)
    assert answer.removed == ["empty", "test.py"]
    assert workspace == {"answer.py": WRONG.encode()}


def test_whole_files_come_after_the_command_if_there_is_one(tmp_path: Path) -> None:
    files = {"wrong/same/weights.bin": b"\0\1"}
    answer, workspace = laid(case_with(tmp_path, files), tmp_path)
    assert answer.last is None
    assert workspace["weights.bin"] == b"\0\1"
    answer = materialise(case_with(tmp_path / "run", files, run=["true"]), "same", tmp_path / "other")
    assert answer.last is not None
    assert Tree.read(answer.last).files == {"weights.bin": b"\0\1"}
    assert sorted(Tree.read(answer.folder).files) == ["answer.py"]


def test_a_folder_alone_and_modes(tmp_path: Path) -> None:
    files = {"wrong/same/answer.py": None, "wrong/same/tool": b"#!/bin/sh\n", "solution/run.sh": "x\n"}
    case = case_with(tmp_path, files)
    for part in ("wrong/same/tool", "solution/run.sh"):
        case.part(part).chmod(0o755)
    answer, workspace = laid(case, tmp_path)
    assert workspace["answer.py"] == RIGHT.encode()
    assert Tree.read(answer.folder).executable == {"tool", "run.sh"}


def test_what_does_not_fit_is_named_with_its_case(tmp_path: Path) -> None:
    case = case_with(tmp_path, {})
    case.part("solution/answer.py").write_text("# moved\n" + RIGHT)
    with pytest.raises(UserError, match=r"double_it: wrong/same.patch: answer.py, hunk 1 \(line 3\) is stale"):
        materialise(case, "same", tmp_path / "laid")
    case = case_with(tmp_path / "none", {"wrong/same/answer.py": None})
    with pytest.raises(UserError, match=r"neither wrong/same.patch nor a folder wrong/same"):
        materialise(case, "same", tmp_path / "laid")


def test_links_are_neither_read_nor_written_through(tmp_path: Path) -> None:
    case = case_with(tmp_path, {"wrong/same.patch": make_patch({}, {"out/x": b"x\n"})})
    (tmp_path / "away").mkdir()
    case.part("workspace/out").symlink_to(tmp_path / "away")
    case.part("solution/secret").symlink_to("/etc/passwd")
    answer = materialise(case, "same", tmp_path / "laid")
    assert sorted(Tree.read(answer.folder).files) == ["answer.py", "out/x"]
    assert list((tmp_path / "away").iterdir()) == []
