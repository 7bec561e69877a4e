"""A suite names cases that are there, in a version that seeds their data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.base.errors import UserError
from bench.base.install import find_data_folders
from bench.formats.case import load_cases
from bench.formats.suite import load_suite


def write(root: Path, name: str = "mine", **changes: Any) -> Path:
    facts = {"id": "mine", "version": "2026.11", "title": "Mine", "cases": ["double_it"], **changes}
    (root / "suites").mkdir(parents=True, exist_ok=True)
    (root / "suites" / f"{name}.yaml").write_text(yaml.safe_dump(facts))
    return root


def test_a_sound_suite(tmp_path: Path) -> None:
    suite = load_suite(write(tmp_path, trials=3, entries=[{"agent": "nop"}]), "mine")
    assert (suite.cases, suite.trials, suite.profile, suite.entries[0].cases) == (["double_it"], 3, "mini", [])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "1.0"}, "`version`"),
        ({"version": 2026.11}, "`version`"),
        ({"cases": []}, "`cases`"),
        ({"cases": ["Bad Name"]}, "`cases.0`"),
        ({"trials": 0}, "`trials`"),
        ({"profile": "tiny"}, "`profile`"),
        ({"id": "other"}, "but the file is 'mine.yaml'"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_a_wrong_fact_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_suite(write(tmp_path, **changes), "mine")


@pytest.mark.parametrize("name", ["absent", "../suites/mine", "", "mine.yaml"])
def test_an_unknown_suite_lists_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        load_suite(write(tmp_path), name)
    assert "mine" in str(caught.value)


def test_the_suites_of_the_benchmark_name_cases_that_are_there() -> None:
    root = find_data_folders().cases
    for path in (root / "suites").glob("*.yaml"):
        suite = load_suite(root, path.stem)
        cases = load_cases(root, suite.cases)
        assert all(suite.profile in case.spec.profiles for case in cases), path
        assert len(set(suite.cases)) == len(suite.cases), path
