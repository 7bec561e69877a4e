"""What a runner reads: nothing that others have written makes it show less than there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli.results_collect import Report, show
from bench.github import add_summary
from bench.report import render
from bench.store.artifacts import Refusal
from bench.store.collect import Collected
from tests.helpers.records import make_record

SHOWN = 1 << 20
"""Of a step's summary with more bytes than this GitHub shows nothing."""


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    return tmp_path / "summary"


def test_what_does_not_fit_any_more_is_left_out_and_counted(summary: Path) -> None:
    for number in range(4):
        add_summary("".join(f"- part {number}, line {line}: {'é' * 200}\n" for line in range(1000)))
    text = summary.read_text(encoding="utf-8")
    assert len(text.encode()) <= SHOWN
    assert "- part 0, line 999" in text and "Left out here: " in text


def test_files_with_bad_names_do_not_hide_what_a_night_has_found(summary: Path) -> None:
    reports = []
    for number in range(8):
        report = Report(f"run-{number}", Collected([], [], 0, []))
        report.refused = [Refusal("@" * 250, "@" * 400) for _ in range(200)]
        reports.append(report)
    show(reports, "mldb-results", dry_run=False, as_json=False)
    records = [make_record(case=f"case_{number}") for number in range(50)]
    add_summary(render(records))
    text = summary.read_text(encoding="utf-8")
    assert len(text.encode()) <= SHOWN
    assert text.count("| case_") == 50
    assert all(f"run run-{number}:" in text for number in range(8)), "each run has its line"
