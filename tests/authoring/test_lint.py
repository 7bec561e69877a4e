"""Comparisons that NaN passes are refused in check.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.authoring.lint import lint
from tests.helpers.cells import CHECK, make_case

HELPER = "\n\ndef compare(a, b):\n    assert {}, f'{{a}} and {{b}}'\n"


def faults(folder: Path, comparison: str) -> list[str]:
    return lint(make_case(folder, {"check.py": CHECK + HELPER.format(comparison)}))


@pytest.mark.parametrize(
    "comparison",
    ["not a > b", "not a < b", "not (a >= b)", "not a <= b", "not 0 <= a < b", "b and not a > b", "not (a > b or b)"],
)
def test_an_order_that_is_denied_lets_nan_pass(tmp_path: Path, comparison: str) -> None:
    line = CHECK.count("\n") + 4
    assert faults(tmp_path, comparison) == [
        f"check.py: line {line}: `assert not a > b` lets NaN pass; write `assert a <= b`"
    ]


@pytest.mark.parametrize("comparison", ["a <= b", "0 <= a < b", "not a == b", "not a", "b not in a", "not len(a[b:])"])
def test_other_comparisons_are_fine(tmp_path: Path, comparison: str) -> None:
    assert faults(tmp_path, comparison) == []
