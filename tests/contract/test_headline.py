"""A record says what its case's continuous metric is held against, and why the result falls short: real cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.cell import run_cell
from bench.formats.case_metric import Headline
from bench.formats.record import Metric, Record
from bench.formats.shortfall import invalid_submission, small_improvement
from bench.sandbox.process import ProcessSandbox
from bench.store.recompute_verdict import failure_modes, headline
from tests.helpers.cells import CHECK, make_agent, make_case, make_cell, make_context
from tests.helpers.records import make_check

MEASURED = (
    CHECK
    + '''

@check(required=True)
def measured(ws):
    """Measures."""
    found = ws.json("claim.json")
    assert isinstance(found, float), "claim.json: holds no number"
    ws.metric("accuracy", found)
    assert found > 0.77, "too low"
'''
)
METRIC: dict[str, Any] = {
    "name": "accuracy", "direction": "higher", "baseline": 0.7, "target": 0.9, "bar": 0.1,
    "measured": {"seeds": 3, "baseline_se": 0.01}, "trivial": {"one class": 0.5},
}  # fmt: skip


class Basis:
    """As much of a planned cell as the rules look at."""

    def __init__(self, case: object) -> None:
        self.case = case


def run_one(root: Path, written: str, **facts: Any) -> tuple[Record, Any]:
    case = make_case(root / "cases", {"check.py": MEASURED}, **facts)
    agent = make_agent(root, f"open('claim.json', 'w').write({written!r})")
    return run_cell(make_cell(agent, case), make_context(root, ProcessSandbox())), Basis(case)


@pytest.mark.parametrize(
    ("written", "value", "mode"),
    [
        ("0.72", 0.72, "small_improvement"),
        # Exactly the bar of 10 % is not over it, whatever binary fractions make of it.
        ("0.77", 0.77, "small_improvement"),
        ("0.6", 0.6, "no_improvement"),
        ("0.8", 0.8, ""),
        ('"much"', None, "invalid_submission"),
    ],
)
def test_the_record_of_a_cell_and_the_rules_for_it_agree(
    tmp_path: Path, written: str, value: float | None, mode: str
) -> None:
    record, basis = run_one(tmp_path, written, metric=METRIC)
    assert record.headline is not None and record.headline.model_dump() == {
        "name": "accuracy", "direction": "higher", "baseline": 0.7, "target": 0.9, "unit": "", "bar": 0.1,
    }  # fmt: skip
    assert record.headline_value == value
    names = {note.name for note in record.failure_modes}
    assert names & {"small_improvement", "no_improvement", "invalid_submission"} == ({mode} if mode else set())
    assert list(headline(record, basis)) == [] and list(failure_modes(record, basis)) == []
    kept = [note for note in record.failure_modes if note.name != mode]
    forged = record.model_copy(update={"failure_modes": kept})
    assert bool(list(failure_modes(forged, basis))) == bool(mode)


def test_a_forged_baseline_is_refused_and_an_older_record_is_not(tmp_path: Path) -> None:
    record, basis = run_one(tmp_path, "0.72", metric=METRIC)
    assert record.headline is not None
    eased = record.headline.model_copy(update={"baseline": 0.1})
    assert "must be" in next(headline(record.model_copy(update={"headline": eased}), basis))
    assert list(headline(record.model_copy(update={"headline": None}), basis)) == []


def test_without_a_metric_there_is_no_headline(tmp_path: Path) -> None:
    record, basis = run_one(tmp_path, "0.9")
    assert record.headline is None and list(headline(record, basis)) == []
    given = record.model_copy(update={"headline": Headline(**METRIC).scale})
    assert "must be" in next(headline(given, basis))


def test_what_falls_short_says_by_how_much_or_why() -> None:
    metric = Headline(**METRIC)
    failed = make_check("rows", 0.0, "\n  submission.csv: row 7 is missing\nand more")
    said = small_improvement(metric, [Metric(name="accuracy", value=0.74)])
    assert said == "accuracy 0.74 is 5.7% better than the baseline, and the bar is more than 10%"
    assert small_improvement(metric.model_copy(update={"bar": None}), [Metric(name="accuracy", value=0.74)]) == ""
    assert invalid_submission(metric, [], [failed], missing=False) == "rows: submission.csv: row 7 is missing"
    assert invalid_submission(metric, [], [failed], missing=True) == ""
    assert invalid_submission(None, [], [failed], missing=False) == ""
    assert invalid_submission(metric, [Metric(name="accuracy", value=0.1)], [failed], missing=False) == ""
