"""A variant: a case.yaml and a task.md of its own, everything else of another case."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.authoring import open_verifier
from bench.authoring.lint import lint
from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.formats.case import Case, load_case, load_cases
from bench.formats.case_variants import copy_whole
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import CHECK, ROOT, STARTER, make_case, write_files, wrong_patch

VARIANT = """
id: double_it_quickly
extends: ../double_it
title: Double it with little time
limits: {agent_s: 10}
wrong: {adds: null, zero: {about: returns zero, fails: [doubles]}}
"""
DATA = """
import helper
def build(public, hidden, profile, seed):
    (public / "numbers.txt").write_text(str(seed + helper.ONE))
"""
TASK = "# Double it, quickly\n\nComplete `double(x)` in `answer.py`.\n"
ZERO = "def double(x):\n    return 0\n"


def variant(root: Path, text: str = VARIANT, **files: str) -> Case:
    make_case(root, {"data.py": DATA, "hidden/helper.py": "ONE = 1\n"})
    own = {"case.yaml": text, "task.md": TASK, "wrong/zero.patch": wrong_patch(ZERO), **files}
    return load_case(write_files(root / "basics" / "double_it_quickly", own))


def test_a_variant_has_what_it_does_not_say(tmp_path: Path) -> None:
    case = variant(tmp_path / "cases")
    parent = load_cases(tmp_path / "cases", ["double_it"])[0]
    assert (case.spec.limits.agent_s, case.spec.limits.memory_mb, case.spec.title) == (
        10,
        400,
        "Double it with little time",
    )
    assert (case.spec.category, sorted(case.spec.wrong)) == ("basics", ["constant", "same", "zero"])
    assert case.task.read_text() == TASK
    assert case.part("solution") == parent.part("solution")
    assert case.part("wrong/same.patch") == parent.part("wrong/same.patch")
    assert case.part("wrong/zero.patch").parent.parent == case.folder
    assert lint(case) == []


def test_a_variant_proves_itself_with_the_parts_of_its_parent(tmp_path: Path) -> None:
    case = variant(tmp_path / "cases")
    places = DataFolders(cases=tmp_path / "cases", agents=ROOT / "agents", site=ROOT / "site", cache=tmp_path / "cache")
    with open_verifier(places, ProcessSandbox()) as verifier:
        proofs = list(verifier.verify(case))
    assert [proof.detail for proof in proofs if not proof.ok] == []
    assert {proof.name for proof in proofs} >= {"data", "solution", "wrong: same", "wrong: zero"}


@pytest.mark.parametrize("name", ["basics/double_it/check.py", "basics/double_it_quickly/task.md"])
def test_its_digest_is_of_both_folders(tmp_path: Path, name: str) -> None:
    case = variant(tmp_path / "cases")
    parent, own = load_case(case.folder.with_name("double_it")).digest, case.digest
    path = tmp_path / "cases" / name
    path.write_text(path.read_text() + "\n")
    assert load_case(case.folder).digest != own
    assert (load_case(case.folder.with_name("double_it")).digest != parent) == name.startswith("basics/double_it/")


@pytest.mark.parametrize(
    ("extends", "said"),
    [
        ("../no_such_case", "`extends`: ../no_such_case is not a case"),
        ("../../../etc", "`extends`"),
        ("double_it", "`extends`"),
        ("../chained", "`extends`: ../chained is a variant itself"),
    ],
)
def test_a_parent_that_cannot_be_one_is_named(tmp_path: Path, extends: str, said: str) -> None:
    variant(tmp_path)
    write_files(tmp_path / "basics" / "chained", {"case.yaml": VARIANT.replace("double_it_quickly", "chained")})
    with pytest.raises(UserError, match=said):
        variant(tmp_path, VARIANT.replace("../double_it", extends))


def test_a_folder_of_its_own_takes_the_place_of_the_whole(tmp_path: Path) -> None:
    case = variant(tmp_path / "cases", **{"workspace/other.py": "x = 1\n", "check.py": CHECK})
    assert [path.name for path in case.part("workspace").iterdir()] == ["other.py"]
    assert case.part("check.py").parent == case.folder


def test_a_copy_of_a_variant_needs_no_parent(tmp_path: Path) -> None:
    case = variant(tmp_path / "cases")
    copy_whole(case.folders, tmp_path / "elsewhere" / "basics" / "double_it_quickly")
    copied = load_case(tmp_path / "elsewhere" / "basics" / "double_it_quickly")
    assert copied.spec.limits == case.spec.limits and sorted(copied.spec.wrong) == sorted(case.spec.wrong)
    assert copied.part("workspace/answer.py").read_text() == STARTER
    assert copied.part("wrong/same.patch").read_text() == case.part("wrong/same.patch").read_text()
    assert copied.parent is None
