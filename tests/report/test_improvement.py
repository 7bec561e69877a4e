"""Both scores of an improvement in lines, tables and pages of a run."""

from __future__ import annotations

import json
from pathlib import Path

import click
from click.testing import CliRunner

from bench.cli.results import results
from bench.formats.case_metric import Scale
from bench.formats.record import Metric, Record
from bench.report import explanation, improvement_table, leaderboard, outcome_line, put_explanation, render
from bench.report.improvement import headline_lines, improvement_text, signed_percent
from bench.report.sheet import Sheet
from bench.stats import RecordResults
from bench.store.branch import ResultsBranch
from tests.helpers.records import make_check, make_record
from tests.helpers.store import bundle_of

ERROR = Scale(name="mae", direction="lower", baseline=29500, target=15000, unit="dollars", bar=0.1)


def house(value: float | None, trial: int = 1, agent: str = "react", **changes: object) -> Record:
    metrics = [] if value is None else [Metric(name="mae", value=value, unit="dollars")]
    return make_record(case="house", agent=agent, trial=trial, headline=ERROR, metrics=metrics, **changes)  # type: ignore[arg-type]


def test_a_line_says_both_scores_and_the_explanation_what_they_are_held_against() -> None:
    record = house(16200.0)
    assert improvement_text(record) == "mae 16200 (+45.1 % on the baseline), bounded 0.92"
    assert improvement_text(record) in click.unstyle(outcome_line(record))
    said, held = headline_lines(record)
    assert said.endswith("; over the bar")
    assert held == (
        "baseline 29500 dollars, best known 15000 dollars, lower is better; the bar is more than 10%: below 26550"
    )
    sheet = Sheet(None, full=False)
    put_explanation(sheet, record)
    assert said in str(sheet) and held in str(sheet)
    document = explanation(record)["headline"]
    assert isinstance(document, dict)
    assert (document["value"], document["over_bar"], document["bar"]) == (16200.0, True, 0.1)
    # Exactly the bar is not over it.
    assert headline_lines(house(26550.0))[0].endswith("not over the bar")


def test_what_was_not_measured_or_broke_a_guard_has_no_value() -> None:
    guard = make_check("rules", 0.0, guard=True, required=False, weight=0.0)
    for record in (house(None), house(12000.0, checks=[guard])):
        assert improvement_text(record) == "mae has no valid value"
        found = explanation(record)["headline"]
        assert isinstance(found, dict) and found["over_bar"] is False and found["relative"] is None
    assert improvement_text(make_record()) == "" and headline_lines(house(None, outcome="infra")) == []


def test_a_change_beyond_all_measure_stays_short() -> None:
    assert signed_percent(-1e9) == "-1e+11 %" and signed_percent(0.451) == "+45.1 %"


def test_tables_name_the_interval_or_why_there_is_none() -> None:
    records = [house(value, n) for n, value in enumerate((16200.0, 17100.0, 30000.0, 15800.0), 1)]
    records += [house(16000.0, 1, "aide"), house(20000.0, 2, "aide"), *(house(21000.0, n, "nop") for n in (1, 2, 3))]
    text = improvement_table(RecordResults(records).improvements())
    aide, nop, react = text.splitlines()[1:4]
    assert "n too small" in aide and "2/2" in aide and "100%" in aide
    assert "all equal" in nop
    assert "+33.0 % [" in react and "75%" in react and "4/4" in react and ">10%" in react
    assert text in leaderboard(RecordResults(records))
    page = render(records)
    assert "| react |" in page and "n too small" in page and "bounded" in page
    assert improvement_table(RecordResults([make_record()]).improvements()) == ""
    assert "bounded" not in render([make_record()])


def test_results_show_prints_them(tmp_path: Path) -> None:
    records = [house(value, n) for n, value in enumerate((16200.0, 17100.0, 30000.0), 1)]
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()
    branch.commit(bundle_of(records, "night-1"))
    found = CliRunner().invoke(results, ["show", str(tmp_path / "results.git")])
    assert found.exit_code == 0 and "mae" in found.output and "3/3" in found.output, found.output
    lines = CliRunner().invoke(results, ["show", str(tmp_path / "results.git"), "--cells"]).output
    assert "mae 16200 (+45.1 % on the baseline), bounded 0.92" in lines
    stored = CliRunner().invoke(results, ["show", str(tmp_path / "results.git"), "--json"]).output
    assert json.loads(stored.splitlines()[0])["headline"]["bar"] == 0.1
