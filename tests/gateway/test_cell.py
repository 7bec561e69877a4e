"""Whole cells with a live gateway: stop reasons, infrastructure faults, the record's usage, and the canary key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cell.run import run_cell
from bench.formats.record import Record
from bench.formats.run_limits import RunLimits
from bench.sandbox.job import Sandbox
from tests.helpers.asking_agent import AGENT, GOOD
from tests.helpers.cells import make_agent, make_case, make_cell, make_context
from tests.helpers.gateway_live import CANARY, own_prices, written_below
from tests.helpers.provider import Reply, ScriptedUpstream, Usage


def run(
    tmp_path: Path, sandbox: Sandbox, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, tail: str,
    limits: dict[str, Any] | None = None, **changes: Any,
) -> Record:  # fmt: skip
    for name, value in upstream.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLDB_PRICES", str(own_prices(tmp_path)))
    agent = make_agent(tmp_path / "agents", AGENT + tail, models={"main": "openai/scripted"})
    case = make_case(tmp_path / "cases", limits=limits or {})
    return run_cell(make_cell(agent, case), make_context(tmp_path, sandbox, **changes))


def test_a_cell_records_what_the_upstream_billed(
    tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = "for stream in (False, True): ask('chat/completions', stream)\n"
    with ScriptedUpstream([GOOD, Reply(status=429), GOOD]) as upstream:
        monkeypatch.setenv("MLDB_RECORD", "1")
        record = run(tmp_path, bubblewrap, upstream, monkeypatch, tail)
    assert (record.outcome, record.stop_reason, record.success, record.steps) == ("graded", "finished", True, 2)
    (usage,) = record.usage
    assert record.cost_usd == pytest.approx(upstream.usage_totals.cost_usd, abs=1e-12)
    assert (usage.cost_status, usage.price_version, usage.retries, usage.faults) == (
        "exact",
        "own tests",
        1,
        {"429": 1},
    )
    assert usage.waited_s >= 0
    (cassette,) = (tmp_path / "run").rglob("cassettes/double_it.yaml")
    assert "hello" in cassette.read_text()
    everything = written_below(tmp_path / "run") + record.to_line()
    seen = json.loads(next((tmp_path / "run").rglob("env.json")).read_text())
    assert seen["OPENAI_API_KEY"].startswith("bench-")
    assert CANARY not in everything, "the provider's key is in no file, environment, trace or record"
    assert upstream.requests[0].headers["authorization"] == f"Bearer {CANARY}", "and yet it was used"


@pytest.mark.slow
def test_an_agent_that_goes_on_after_its_limit_is_ended_and_judged(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = """
while True:
    try:
        ask("chat/completions")
    except urllib.error.HTTPError as error:
        assert error.code == 402
        time.sleep(1)
"""
    with ScriptedUpstream(lambda body, protocol: GOOD) as upstream:
        record = run(tmp_path, plain, upstream, monkeypatch, tail, {"steps": 2, "agent_s": 300})
    assert (record.outcome, record.stop_reason, record.success) == ("graded", "step_limit", True)
    assert (record.steps, record.limits_hit) == (2, ["step_limit"])


def test_an_agent_whose_last_call_cost_more_than_was_left_has_met_its_limit(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider may bill more than its cap allows. A record that does not say so is refused, and its failure lost."""
    dear = replace(GOOD, usage=Usage(input=100, output=200_000))
    with ScriptedUpstream([dear]) as upstream:
        record = run(tmp_path, plain, upstream, monkeypatch, "ask('chat/completions')\n", {"cost_usd": 2.0})
    assert record.cost_usd is not None and record.cost_usd > 2
    assert (record.outcome, record.success, record.stop_reason) == ("graded", True, "cost_limit")
    assert record.limits_hit == ["cost_limit"]


def test_a_provider_that_stays_broken_ends_the_cell_as_infra(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = """
try:
    ask("chat/completions")
except urllib.error.HTTPError:
    time.sleep(1000)
"""
    with ScriptedUpstream(lambda body, protocol: Reply(status=401)) as upstream:
        record = run(tmp_path, plain, upstream, monkeypatch, tail, {"agent_s": 300})
    assert (record.outcome, record.cause) == ("infra", "gateway_error")
    assert "401" in record.error


def test_a_crash_over_a_lost_stream_is_no_fault_of_the_agent(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedUpstream(lambda body, protocol: Reply("word " * 100, cut=0.5)) as upstream:
        record = run(tmp_path, plain, upstream, monkeypatch, "ask('chat/completions', True)\n")
    assert (record.outcome, record.cause) == ("infra", "gateway_error")
    assert "known-good request was not answered" in record.error


def test_a_runs_budget_is_kept_beside_it_and_stops_the_cell(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = "ask('chat/completions')\nask('chat/completions')\n"
    with ScriptedUpstream(lambda body, protocol: GOOD) as upstream:
        record = run(tmp_path, plain, upstream, monkeypatch, tail, run_limits=RunLimits(calls=1))
    assert (record.outcome, record.stop_reason, record.steps) == ("graded", "step_limit", 1)
    assert json.loads((tmp_path / "run" / "budget.json").read_text())["calls"] == 1
