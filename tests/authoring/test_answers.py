"""Wrong answers are linted without running them, and go from a folder to a patch and back by commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.authoring.edit_answers import lay_out_answer, move_patches, save_answer
from bench.authoring.lint_answers import lint_answers
from bench.base.errors import UserError
from bench.base.files import lay_over
from bench.base.install import find_data_folders
from bench.cli.main import cli
from bench.formats.case import Case, load_case, load_cases
from bench.formats.patch_writing import make_patch
from bench.formats.wrong_answers import Tree, materialise
from tests.helpers.cells import FACTS, RIGHT, STARTER, WRONG, make_case, write_files, wrong_patch

_COMMENT = wrong_patch("def double(x):\n    # right\n    return 2 * x\n")


def case_with(tmp_path: Path, files: dict[str, str | bytes | None], **entry: Any) -> Case:
    """The usual case, with these fields in the entry of its wrong answer `same`."""
    wrong = {**FACTS["wrong"], "same": {**FACTS["wrong"]["same"], **entry}}
    return make_case(tmp_path, files, wrong=wrong, protected=["kept.txt"])


def test_the_usual_case_has_no_fault(tmp_path: Path) -> None:
    assert list(lint_answers(case_with(tmp_path, {"workspace/kept.txt": "k\n"}))) == []


@pytest.mark.parametrize(
    ("files", "entry", "said"),
    [
        ({"wrong/same.patch": "x\n"}, {}, "line 1: must begin with ---"),
        ({"wrong/more.patch": _COMMENT}, {}, "wrong/more.patch is not listed under `wrong`"),
        ({"wrong/more/x.bin": b"\0"}, {}, "wrong/more is not listed under `wrong`"),
        ({"wrong/more.txt": "x"}, {}, "wrong/more.txt: is not a patch"),
        ({"wrong/same/answer.py": None}, {}, "has neither wrong/same.patch nor a folder"),
        ({"wrong/same.patch": "--- a/answer.py\n+++ b/answer.py\n@@ -1,2 +1,2 @@\n def double(x):\n-    return 2 * x\n"
          "+    return 2 * x\n"}, {}, "the hunk changes nothing"),
        ({"wrong/same.patch": wrong_patch("def double(x):\n    return x + 2\n")}, {},
         "wrong/same: is the same as wrong/adds"),
        ({"wrong/same.patch": wrong_patch(STARTER)}, {}, "wrong/same: is the same as the untouched workspace"),
        ({"wrong/same.patch": wrong_patch(RIGHT, solution=STARTER)}, {"base": "starter"},
         "wrong/same: is the same as the solution"),
        ({"wrong/same/notes.txt": b"text\n"}, {}, "wrong/same/notes.txt: a patch can say this"),
        ({"wrong/same/answer.py": b"\0", "wrong/same.patch": wrong_patch(WRONG)}, {}, "is in the patch, too"),
        ({"wrong/same/kept.txt": b"\0"}, {}, "changes the protected kept.txt"),
        ({"wrong/same.patch": make_patch({"answer.py": RIGHT.encode(), "kept.txt": b"k\n"},
                                         {"answer.py": WRONG.encode()})}, {}, "changes the protected kept.txt"),
        ({}, {"tampers": True}, "changes no protected file"),
    ],
)  # fmt: skip
def test_each_fault_has_its_line(
    tmp_path: Path, files: dict[str, str | bytes | None], entry: dict[str, Any], said: str
) -> None:
    found = list(lint_answers(case_with(tmp_path, {"workspace/kept.txt": "k\n", **files}, **entry)))
    assert len(found) == 1
    assert said in found[0]


def test_a_folder_of_what_no_patch_can_hold_is_fine(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {
        "workspace/kept.txt": "k\n", "wrong/same/tool": b"#!/bin/sh\n", "wrong/same/latin.txt": b"caf\xe9\n",
        "wrong/same/made.txt": b"what the command would overwrite\n", "wrong/same/kept.txt": b"\0",
    }  # fmt: skip
    case = case_with(tmp_path, files, run=["true"], tampers=True)
    case.part("wrong/same/tool").chmod(0o755)
    assert list(lint_answers(case)) == []
    case.part("wrong/same/empty").mkdir()
    case.part("wrong/adds").mkdir()
    case.part("wrong/same/link").symlink_to("/etc/passwd")
    assert [fault.split(";")[0] for fault in lint_answers(case)] == [
        "wrong/adds/: holds no file", "wrong/same/link: is not a regular file"
    ]  # fmt: skip


def test_every_wrong_answer_survives_being_edited(tmp_path: Path) -> None:
    """Laid out and written again, each answer of every case is the same, patch by patch."""
    for shipped in load_cases(find_data_folders().cases):
        copy = tmp_path / shipped.spec.category / shipped.id
        for part in ("workspace", "solution", "wrong"):
            lay_over(shipped.part(part), copy / part)
        case, before = Case(copy, shipped.spec), Tree.read(copy / "wrong")
        for name, wrong in case.spec.wrong.items():
            lay_out_answer(case, name, wrong.base, tmp_path / f"{case.id}-{name}")
            save_answer(case, name, wrong.base, tmp_path / f"{case.id}-{name}")
        assert Tree.read(copy / "wrong") == before, case.id


def test_a_new_answer_from_its_base_to_lint(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases")
    runner, place = CliRunner(), ["--cases", str(tmp_path / "cases")]
    made = runner.invoke(cli, ["cases", "answer", "double_it", "--out", str(tmp_path / "new"), *place])
    assert made.exit_code == 0, made.output
    write_files(tmp_path / "new", {"answer.py": "def double(x):\n    return 3 * x\n", "weights.bin": b"\0"})
    command = ["cases", "patch", "double_it", "triples", "--from", str(tmp_path / "new"), *place]
    done = runner.invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert 'add `triples: {about: "...", fails: [...]}`' in done.output
    assert case.part("wrong/triples.patch").read_text().splitlines()[-2:] == ["-    return 2 * x", "+    return 3 * x"]
    facts = {**FACTS["wrong"], "triples": {"about": "x", "fails": ["doubles"]}}
    case = make_case(tmp_path / "cases", wrong=facts)
    assert list(lint_answers(case)) == []
    assert Tree.read(materialise(case, "triples", tmp_path / "laid").folder).files.keys() == {
        "answer.py",
        "weights.bin",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["answer", "double_it", "none", "--out", "{tmp}/new"], "no wrong answer 'none'"),
        (["answer", "double_it", "same", "--out", "{tmp}"], "exists already"),
        (["patch", "double_it", "same", "--from", "{tmp}/none"], "is not a folder"),
        (["patch", "double_it", "../x", "--from", "{tmp}/cases"], "is not a name for a wrong answer"),
        (["patch", "double_it", "same"], "--from is missing"),
        (["patch", "double_it", "same", "--move"], "takes the case alone"),
        (["patch", "double_it", "same", "--base", "starter", "--from", "{tmp}"], "the base of same is solution"),
        (["patch", "double_it", "x", "--base", "starter", "--from", "{tmp}/cases/basics/double_it/workspace"],
         "is the same as the starter"),
    ],
)  # fmt: skip
def test_a_wrong_use_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    case = make_case(tmp_path / "cases")
    before = Tree.read(case.folder)
    words = [word.replace("{tmp}", str(tmp_path)) for word in words]
    done = CliRunner().invoke(cli, ["cases", *words, "--cases", str(tmp_path / "cases")])
    assert isinstance(done.exception, UserError)
    assert said in str(done.exception)
    assert Tree.read(case.folder) == before


def test_patches_follow_a_solution_that_has_moved(tmp_path: Path) -> None:
    case = make_case(tmp_path)
    case.part("solution/answer.py").write_text('"""Doubles."""\n\n' + RIGHT)
    assert len([fault for fault in lint_answers(case) if "is stale: its lines now begin at line 3" in fault]) == 3
    assert len(move_patches(case)) == 3
    assert move_patches(case) == []
    assert list(lint_answers(load_case(case.folder))) == []
