"""Limits that the cells of a run share: who has used them up, and who bears it."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from bench.cell.run import run_cell
from bench.cell.shares import RunShares
from bench.formats.model_usage import ModelUsage, Tokens
from bench.formats.plan import Cell
from bench.formats.record import StopReason
from bench.formats.run_limits import RunLimits
from bench.gateway import Patience
from bench.sandbox.job import Sandbox
from tests.helpers.asking_agent import AGENT, GOOD
from tests.helpers.cells import make_agent, make_case, make_cell, make_context
from tests.helpers.gateway_live import own_prices
from tests.helpers.provider import Reply, ScriptedUpstream


def usage(calls: int = 0, dollars: float = 0.0, tokens: int = 0) -> list[ModelUsage]:
    spent = ModelUsage(model="m", calls=calls, cost_usd=dollars, tokens=Tokens(output=tokens), cost_status="exact")
    return [spent]


def cells_of(folder: Path, *names: str) -> list[Cell]:
    case = make_case(folder / "cases")
    return [make_cell(make_agent(folder / f"agents{n}", "", name=name), case) for n, name in enumerate(names)]


@pytest.mark.parametrize("limit", ["cost_limit", "token_limit", "step_limit"])
def test_the_one_that_used_more_than_its_part_bears_it(tmp_path: Path, limit: StopReason) -> None:
    greedy, modest = cells_of(tmp_path, "greedy", "modest")
    shares = RunShares([greedy, modest])
    with shares.working(greedy) as much, shares.working(modest) as little:
        much.usage, little.usage = usage(9, 0.9, 900), usage(1, 0.1, 100)
        assert shares.used_by_others(greedy, limit) == ""
        assert "50% of the cells" in shares.used_by_others(modest, limit)


def test_an_agent_alone_is_never_within_its_part(tmp_path: Path) -> None:
    (only,) = cells_of(tmp_path, "only")
    shares = RunShares([only, only, only])
    with shares.working(only) as work:
        assert shares.used_by_others(only, "cost_limit") == "", "nothing was used at all"
        work.usage = usage(dollars=0.1)
        for limit in ("cost_limit", "time_limit", "token_limit", "step_limit"):
            assert shares.used_by_others(only, limit) == ""


def test_time_is_that_of_the_agents_the_ones_at_work_among_them(tmp_path: Path) -> None:
    slow, quick = cells_of(tmp_path, "slow", "quick")
    shares = RunShares([slow, quick])
    with shares.working(slow):
        time.sleep(0.05)
        with shares.working(quick):
            assert shares.used_by_others(quick, "time_limit") != ""
            assert shares.used_by_others(slow, "time_limit") == ""


@pytest.mark.parametrize("by_rate", [True, False])
@pytest.mark.parametrize("priced", [True, False])
def test_requests_that_cost_nothing_use_up_a_quota_of_requests(tmp_path: Path, priced: bool, by_rate: bool) -> None:
    """Where a provider does not say what its quota counts, an agent could else be lost by calls that are refused."""
    flooding, paying = cells_of(tmp_path, "flooding", "paying")
    shares = RunShares([flooding, paying])
    with shares.working(flooding) as many, shares.working(paying) as dear:
        dear.usage = usage(9, 0.9 * priced, 900)
        many.usage = [it.model_copy(update={"failed_calls": 90, "retries": 9}) for it in usage(1, 0.1 * priced, 100)]
        assert bool(shares.account_used_by_others(flooding, by_rate=by_rate)) != by_rate
        assert shares.account_used_by_others(paying, by_rate=by_rate) == ""
        many.usage = usage(1, 0.1 * priced, 100)
        assert "of 1" in shares.account_used_by_others(flooding, by_rate=by_rate)


def test_a_neighbours_spending_costs_a_cell_and_no_verdict(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(tmp_path / "cases")
    ask = "\nfor _ in range({}): ask('chat/completions')\n"
    greedy, modest = (
        make_cell(
            make_agent(tmp_path / name, AGENT + ask.format(n), name=name, models={"main": "openai/scripted"}), case
        )
        for name, n in (("greedy", 4), ("modest", 2))
    )
    with ScriptedUpstream(lambda body, protocol: GOOD) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MLDB_PRICES", str(own_prices(tmp_path)))
        context = make_context(
            tmp_path, plain, run_limits=RunLimits(calls=4), shares=RunShares([greedy, modest])
        )  # fmt: skip
        first, second = run_cell(greedy, context), run_cell(modest, context)
        third = run_cell(greedy, context)
    assert (first.outcome, first.stop_reason, first.steps) == ("graded", "finished", 4)
    assert (second.outcome, second.cause, second.tries) == ("infra", "run_limit", [])
    assert "used 0 of 4 calls" in second.error
    assert (third.outcome, third.stop_reason) == ("graded", "step_limit"), "what it has used up itself, it bears"


@pytest.mark.parametrize("planned", ["alone", "beside another", "of several shards"])
def test_an_account_that_an_agent_uses_up_is_its_own_doing_unless_others_have(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch, planned: str
) -> None:
    """A failure in sight, an agent could else spend what is left, and be lost in place of judged."""
    case = make_case(tmp_path / "cases")
    script = AGENT.replace("return 2 * x", "return 0") + "\nfor _ in range(6): ask('chat/completions')\n"
    cell, other = (
        make_cell(make_agent(tmp_path / name, script, name=name, models={"main": "openai/scripted"}), case)
        for name in ("burns", "other")
    )
    left = itertools.count(3, -1)
    empty = Reply(status=429, error="insufficient_quota")
    with ScriptedUpstream(lambda body, protocol: GOOD if next(left) > 0 else empty) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MLDB_PRICES", str(own_prices(tmp_path)))
        shares = RunShares([cell, other] if planned == "beside another" else [cell],
                           elsewhere=planned == "of several shards")  # fmt: skip
        patience = Patience(tries=2, first_wait_s=0.01, longest_wait_s=0.1, quiet_s=0.05)
        with shares.working(other) as work:
            work.usage = usage(9, 9.0, 9000) if planned == "beside another" else []
            record = run_cell(cell, make_context(tmp_path, plain, shares=shares, patience=patience))
    if planned == "alone":
        assert (record.outcome, record.success, record.steps, record.tries) == ("graded", False, 3, [])
        assert "insufficient_quota" in next(it.evidence for it in record.flags if it.name == "quota_used_up")
    else:
        assert (record.outcome, record.cause, record.tries) == ("infra", "quota_used_up", [])
