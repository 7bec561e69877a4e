"""What must hold of every case and suite without running it; `cases verify --all` runs them."""

from __future__ import annotations

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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case_has_cheats_and_not_only_mistakes(case: Case) -> None:
    assert len(case.spec.wrong) >= 6
    assert any(wrong.original for wrong in case.spec.wrong.values()), "say what the original's evaluation accepts"


def test_the_wrong_answers_are_short() -> None:
    """As patches; the answers of one case are near its solution or its starter. A variant's are its parent's."""
    own = [case for case in CASES if case.parent is None]
    patches = [path for case in own for path in case.part("wrong").glob("*.patch")]
    assert sum(path.read_bytes().count(b"\n") for path in patches) < 2_500 / 11 * len(own)
