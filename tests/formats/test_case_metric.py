"""The two scores of an improvement, and what a case may declare of its metric."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from bench.formats.case_metric import Headline

ACCURACY: dict[str, Any] = {
    "name": "accuracy", "direction": "higher", "baseline": 0.4, "target": 0.9, "bar": 0.1,
    "measured": {"seeds": 5, "baseline_se": 0.01}, "trivial": {"one class": 0.1},
}  # fmt: skip
ERROR: dict[str, Any] = {"name": "mae", "direction": "lower", "baseline": 200.0, "target": 100.0, "bar": 0.1}


@pytest.mark.parametrize(
    ("facts", "value", "relative", "bounded"),
    [
        (ACCURACY, 0.4, 0.0, 0.0),
        (ACCURACY, 0.6, 0.5, 0.4),
        (ACCURACY, 0.95, 1.375, 1.0),
        (ACCURACY, 0.2, -0.5, 0.0),
        (ERROR, 150.0, 0.25, 0.5),
        (ERROR, 250.0, -0.25, 0.0),
        (ERROR, 50.0, 0.75, 1.0),
    ],
)
def test_both_scores_are_up_when_the_value_is_better(
    facts: dict[str, Any], value: float, relative: float, bounded: float
) -> None:
    headline = Headline(**facts)
    assert headline.relative(value) == pytest.approx(relative)
    assert headline.bounded(value) == pytest.approx(bounded)


def test_the_baseline_itself_is_neither_better_nor_worse() -> None:
    assert f"{Headline(**ERROR).relative(200.0):+.1%}" == f"{Headline(**ACCURACY).relative(0.4):+.1%}" == "+0.0%"


def test_the_bar_is_strict_and_on_the_better_side() -> None:
    assert Headline(**ACCURACY).value_at_bar == pytest.approx(0.44)
    error = Headline(**ERROR)
    assert error.value_at_bar == pytest.approx(180)
    assert not error.is_better(error.value_at_bar, than=error.value_at_bar)


def test_no_relative_score_beside_a_baseline_of_nothing() -> None:
    headline = Headline(name="gain", direction="higher", baseline=0, target=2)
    assert headline.relative(1) is None
    assert headline.bounded(1) == 0.5


def test_what_is_not_a_number_scores_nothing() -> None:
    headline = Headline(**ACCURACY)
    assert headline.relative(math.nan) is None
    assert headline.bounded(math.nan) == 0
    assert headline.bounded(math.inf) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"target": 0.43}, "`target` 0.43 is not better than the bar 0.44"),
        ({"trivial": {"one class": 0.5}}, "`trivial.one class` 0.5 is better than the bar 0.44"),
        ({"measured": {"seeds": 5, "baseline_se": 0.02}}, "less than 3 standard errors"),
        ({"measured": {"seeds": 2, "baseline_se": 0.001}}, "greater than or equal to 3"),
        ({"baseline": math.nan}, "finite"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Headline(**{**ACCURACY, **change})
