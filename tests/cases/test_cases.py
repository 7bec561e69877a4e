"""What must hold of every case and suite without running it; `cases verify --all` runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.authoring.lint import lint
from bench.base.install import find_data_folders
from bench.formats.case import Case, load_cases
from bench.formats.suite import load_suite

PLACES = find_data_folders()
CASES = load_cases(PLACES.cases)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_folder_is_complete(case: Case) -> None:
    assert lint(case) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_source_and_thresholds_of_the_original_are_named(case: Case) -> None:
    assert case.spec.source.id
    assert case.spec.source.benchmark == "own" or case.spec.source.thresholds


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_nothing_in_a_case_can_run_code_when_loaded(case: Case) -> None:
    """No pickles: neither shipped, nor read by the judge's own code."""
    assert not [path for path in case.folder.rglob("*") if path.suffix in (".pkl", ".pickle", ".pt", ".pth", ".ckpt")]
    for name in ("check.py", "data.py", "services.py"):
        path = case.folder / name
        if path.is_file():
            text = path.read_text()
            assert "pickle" not in text.replace("allow_pickle=False", "")
            assert "torch.load" not in text


@pytest.mark.parametrize("path", sorted((PLACES.cases / "suites").glob("*.yaml")), ids=lambda path: path.stem)
def test_suite_names_cases_that_exist_and_offer_its_profile(path: Path) -> None:
    suite = load_suite(PLACES.cases, path.stem)
    assert len(set(suite.cases)) == len(suite.cases)
    for case in load_cases(PLACES.cases, suite.cases):
        assert suite.profile in case.spec.profiles
    for entry in suite.entries:
        assert set(entry.cases) <= set(suite.cases)


def test_the_demo_covers_every_kind_of_case() -> None:
    demo = {case.spec.category for case in load_cases(PLACES.cases, load_suite(PLACES.cases, "demo").cases)}
    assert demo == {case.spec.category for case in CASES}


def cheats_by_case() -> dict[str, dict[str, list[str]]]:
    """The tables of docs/case-cheats.md: case, wrong answer, the checks said to catch it."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "case-cheats.md").read_text(encoding="utf-8")
    found: dict[str, dict[str, list[str]]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ") and "`" in line]
        if rows:
            named = [(re.findall(r"`(\w+)`", row[2]), re.findall(r"`(\w+)`", row[3])) for row in rows]
            assert all(len(answers) == 1 and checks for answers, checks in named), section[:200]
            found[section.split()[0]] = {answers[0]: checks for answers, checks in named}
            assert len(found[section.split()[0]]) == len(rows), section[:200]
    return found


def test_the_table_of_cheats_names_every_case_and_no_other() -> None:
    assert set(cheats_by_case()) == {case.id for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_table_of_cheats_is_that_of_the_case(case: Case) -> None:
    table = cheats_by_case()[case.id]
    assert set(table) == set(case.spec.wrong)
    assert len(table) >= 6
    untold = {name: set(checks) - set(case.spec.wrong[name].fails) for name, checks in table.items()}
    assert not {name: checks for name, checks in untold.items() if checks}
