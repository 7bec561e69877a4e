"""A case folder is whole and means one thing, or its fault is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.base.install import find_data_folders
from bench.formats.case import case_folders, load_case, load_cases
from tests.helpers.cells import FACTS, as_settings, make_case, write_files

CORRECTIONS = """\
corrections:
  points:
  - original: >-
      A list of zeros |
      ones passes

    here: Values are compared
  figures: They say little.
"""


def test_a_sound_case(tmp_path: Path) -> None:
    case = make_case(tmp_path)
    assert (case.id, case.spec.category, case.task.read_text()[:3]) == ("double_it", "basics", "# D")
    assert case.spec.limits.steps == 50
    assert load_cases(tmp_path) == [case]
    assert load_cases(tmp_path, ["double_it", "basics/double_it"]) == [case, case]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"title": "x"}, "`title`"),
        ({"surprise": 1}, "unknown field"),
        ({"schema": 2}, "`schema`"),
        ({"profiles": []}, "`profiles`"),
        ({"profiles": ["tiny"]}, "`profiles.0`"),
        ({"limits": {"agent_s": 0}}, "`limits.agent_s`"),
        ({"limits": {"memory_mb": -1}}, "`limits.memory_mb`"),
        ({"protected": ["/etc/passwd"]}, "relative path"),
        ({"protected": ["../x"]}, "relative path"),
        ({"protected": ["a//b"]}, "relative path"),
        ({"outputs": {"files": [{"path": "a/../b"}]}}, "relative path"),
        ({"outputs": {"weight": -1}}, "`outputs.weight`"),
        ({"wrong": {"same": {"about": "x", "fails": ["y"], "base": "nothing"}}}, "`wrong.same.base`"),
        ({"wrong": {"same": {"about": "x", "fails": []}}}, "`wrong.same.fails`"),
        ({"services": {"hub": {"env": "HUB_URL"}}}, "services.py"),
        ({"services": {"hub": {"env": "lower"}}}, "`services.hub.env`"),
        ({"needs": {"python": ["import os; x"]}}, "`needs.python.0`"),
        ({"metric": {"name": "a", "direction": "up", "baseline": 0, "target": 1}}, "`metric.direction`"),
    ],
)
def test_a_wrong_fact_is_named_with_its_field(tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        make_case(tmp_path, **facts)
    assert "case.yaml" in str(caught.value)


@pytest.mark.parametrize("name", ["task.md", "check.py"])
def test_a_part_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"{name}.*is missing"):
        make_case(tmp_path, {name: None})


def test_names_of_folders_and_facts_agree(tmp_path: Path) -> None:
    case = make_case(tmp_path)
    other = case.folder.with_name("other")
    case.folder.rename(other)
    with pytest.raises(UserError, match="`id`"):
        load_case(other)
    other.parent.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "other").rename(tmp_path / "elsewhere" / "double_it")
    with pytest.raises(UserError, match="`category`"):
        load_case(tmp_path / "elsewhere" / "double_it")


def test_two_cases_of_one_id_are_an_error(tmp_path: Path) -> None:
    make_case(tmp_path)
    make_case(tmp_path, category="debugging")
    with pytest.raises(UserError, match="already used by"):
        load_cases(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"), [("duble_it", "did you mean 'double_it'"), ("x", "cases list"), ("other/double_it", "no case")]
)
def test_an_unknown_case_gets_a_hint(tmp_path: Path, name: str, said: str) -> None:
    make_case(tmp_path)
    with pytest.raises(UserError, match=said):
        load_cases(tmp_path, [name])


def _edit(folder: Path, facts: dict[str, Any], comment: str = "") -> None:
    (folder / "case.yaml").write_text(comment + as_settings({**FACTS, **facts}))


def _add_wrong(folder: Path) -> None:
    write_files(folder, {"wrong/new/answer.py": "x = 1\n"})
    _edit(folder, {"wrong": {**FACTS["wrong"], "new": {"about": "new", "fails": ["doubles"]}}})


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda folder: write_files(folder, {"check.py": "x = 1"}), True),
        (lambda folder: write_files(folder, {"hidden/new.py": ""}), True),
        (lambda folder: write_files(folder, {"task.md": "Other words"}), True),
        (lambda folder: (folder / "workspace" / "answer.py").chmod(0o755), True),
        (lambda folder: write_files(folder, {"data.py": "def build(public, hidden, profile, seed):\n    ..."}), True),
        (lambda folder: write_files(folder, {"shared.py": "what data.py or check.py may read"}), True),
        (lambda folder: write_files(folder, {"workspace/solution/x.py": ""}), True),
        (lambda folder: write_files(folder, {"hidden/wrong/x.py": ""}), True),
        (lambda folder: _edit(folder, {"limits": {**FACTS["limits"], "call_s": 6}}), True),
        (lambda folder: _edit(folder, {"protected": ["answer.py"]}), True),
        (lambda folder: _edit(folder, {"preload": ["json"]}), True),
        (lambda folder: _edit(folder, {"outputs": {**FACTS["outputs"], "weight": 1}}), True),
        (lambda folder: _edit(folder, {"title": "Double it well", "tags": ["python"]}), False),
        (lambda folder: _edit(folder, {"profiles": ["mini", "full"]}), False),
        (lambda folder: _edit(folder, {"limits": {**FACTS["limits"], "open_files": 1024}}), False),
        (lambda folder: _edit(folder, {}, "# a comment\n"), False),
        (_add_wrong, False),
        (lambda folder: write_files(folder, {"wrong/same/answer.py": "other"}), False),
        (lambda folder: write_files(folder, {"solution/answer.py": "other"}), False),
        (lambda folder: write_files(folder, {"README.md": "A better explanation"}), False),
        (lambda folder: write_files(folder, {"hidden/__pycache__/x.pyc": ""}), False),
        (lambda folder: _edit(folder, {}, CORRECTIONS), False),
    ],
    ids=[
        "check", "hidden", "task", "mode", "data", "a file beside", "workspace/solution", "hidden/wrong", "limits",
        "protected", "preload", "outputs", "title", "profiles", "a default", "comment", "wrong", "wrong file",
        "solution", "readme", "cache", "corrections",
    ],
)  # fmt: skip
def test_a_new_digest_is_a_new_series(tmp_path: Path, change: Callable[[Path], object], differs: bool) -> None:
    before = make_case(tmp_path)
    first = before.digest
    change(before.folder)
    assert (load_case(before.folder).digest != first) == differs


@pytest.mark.parametrize(
    ("name", "differs"),
    [("wrong/same/answer.py", True), ("solution/answer.py", True), ("check.py", True), ("README.md", False)],
)
def test_a_proof_is_of_everything_but_the_readme(tmp_path: Path, name: str, differs: bool) -> None:
    case = make_case(tmp_path)
    first = case.proof_digest
    write_files(case.folder, {name: "x = 1\n"})
    assert (case.proof_digest != first) == differs


def test_a_proof_is_not_of_the_corrections(tmp_path: Path) -> None:
    case = make_case(tmp_path)
    path = case.folder / "case.yaml"
    plain, first = path.read_text(encoding="utf-8"), case.proof_digest
    for text in (plain + CORRECTIONS, CORRECTIONS + plain, plain + CORRECTIONS.replace("zeros", "ones")):
        path.write_text(text, encoding="utf-8")
        assert load_case(case.folder).spec.corrections is not None
        assert case.proof_digest == first


def test_only_the_field_itself_is_left_out_of_a_proof(tmp_path: Path) -> None:
    """A second document or a text that looks like the field counts."""
    case = make_case(tmp_path)
    path = case.folder / "case.yaml"
    plain, first = path.read_text(encoding="utf-8"), case.proof_digest
    seen = {first}
    for extra in ("wide", "wider"):
        path.write_text(plain + f'solution: {{run: ["echo\ncorrections:\n {extra}"]}}\n', encoding="utf-8")
        assert load_case(case.folder).spec.solution.run == [f"echo corrections: {extra}"]
        seen.add(case.proof_digest)
    assert len(seen) == 3


def test_corrections_as_a_table(tmp_path: Path) -> None:
    case = make_case(tmp_path)
    path = case.folder / "case.yaml"
    path.write_text(path.read_text(encoding="utf-8") + CORRECTIONS, encoding="utf-8")
    corrections = load_case(case.folder).spec.corrections
    assert corrections is not None
    assert corrections.as_markdown().splitlines()[2:] == [
        "| A list of zeros \\| ones passes | Values are compared |", "", "**Published figures.** They say little."
    ]  # fmt: skip


def test_a_lock_is_not_a_case(tmp_path: Path) -> None:
    make_case(tmp_path)
    write_files(tmp_path, {"proofs/double_it.json": "{}"})
    assert list(case_folders(tmp_path)) == ["double_it"]


def test_a_readme_in_the_workspace_is_part_of_the_case(tmp_path: Path) -> None:
    one = make_case(tmp_path / "1", {"workspace/README.md": "one"})
    two = make_case(tmp_path / "2", {"workspace/README.md": "two"})
    assert one.digest != two.digest


def test_every_case_of_the_benchmark_loads() -> None:
    cases = load_cases(find_data_folders().cases)
    assert len({case.id for case in cases}) == len(cases) > 0
