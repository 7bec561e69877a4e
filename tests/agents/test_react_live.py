"""The react agent on a live model: a scripted provider over real HTTP, whole cells, and what is published of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bench.cli.pages import write_site
from bench.formats.agent import load_agent
from bench.formats.case import load_cases
from bench.formats.record import Record
from bench.sandbox.job import Sandbox
from bench.stats.record_results import RecordResults
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.helpers.cells import ROOT, make_cell, make_context
from tests.helpers.records import START
from tests.helpers.sampling import on_push
from tests.helpers.workers import CASES, MODEL, assert_counted, assert_no_key, log_of, solve

pytestmark = pytest.mark.slow


def solved(case: str, folder: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Record:
    agent = load_agent(ROOT / "agents" / "react", trusted=True)
    cell = replace(make_cell(agent, load_cases(ROOT / "cases", [case])[0]), models={"main": MODEL})
    context = make_context(folder, sandbox)
    record, upstream = solve(cell, context, monkeypatch)
    assert record.success, (record.error, log_of(cell, context))
    assert_counted(record, upstream)
    return record


@pytest.mark.parametrize("case", on_push(CASES, ["parse_logs"]))
def test_cases_are_solved_and_every_token_is_counted(
    case: str, tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = solved(case, tmp_path, bubblewrap, monkeypatch)
    assert record.stop_reason == "finished"
    assert_no_key(tmp_path)


def test_nothing_that_is_published_holds_the_providers_key(
    tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = solved("hello_world", tmp_path, bubblewrap, monkeypatch)
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()
    branch.commit(Bundle(run=record.provenance.run, attempt=1, records=[record], started=START))
    (stored,) = branch.records()
    assert stored == record.model_copy(update={"artifacts": []})
    index = write_site(partial(RecordResults, [stored]), ["hello_world"], tmp_path / "site")
    assert "react" in index.read_text()
    # git packs its objects; what they hold is the record that was compared above.
    assert_no_key(tmp_path)
