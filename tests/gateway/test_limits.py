"""Limits under parallel calls, over a cell and over a run; what happens after the first refusal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.formats.run_limits import RunLimits
from bench.gateway.config import RunBudgetConfig
from bench.gateway.run_budget import RunBudget
from bench.sandbox.job import Job, JobLimits, Mount, Sandbox
from bench.sandbox.running import run_job
from tests.helpers.gateway_live import UNLIMITED, live, storm
from tests.helpers.provider import Reply, ScriptedUpstream, Usage
from tests.helpers.sampling import at_night

CALL = Usage(100, 50)
EACH = (100 * 3 + 50 * 15) / 1e6
"""What such a call costs."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["calls", "dollars"])
@pytest.mark.parametrize("times", [5, at_night(20)])
def test_64_parallel_callers_never_overshoot_a_budget_of_ten(tmp_path: Path, kind: str, times: int) -> None:
    """Again and again: at most ten are served, and what the upstream bills stays within the limit."""
    bounds: dict[str, Any] = {"calls": 10} if kind == "calls" else {"cost_usd": 10 * EACH}
    for repetition in range(times):
        folder = tmp_path / str(repetition)
        folder.mkdir()
        with ScriptedUpstream(lambda body, protocol: Reply("x", usage=CALL)) as upstream:
            with live(folder, upstream, **bounds) as through:
                statuses = storm(through, 64, max_tokens=50)
            assert set(statuses) <= {200, 402}
            assert upstream.usage_totals.calls == statuses.count(200) <= 10
            assert upstream.usage_totals.cost_usd <= 10 * EACH + 1e-12
            if kind == "calls":
                assert statuses.count(200) == 10, "and none is refused that fits"
            usage = through.gateway.state().usage[0]
            assert (usage.calls, usage.refused_calls) == (statuses.count(200), statuses.count(402))
            assert usage.cost_usd == pytest.approx(upstream.usage_totals.cost_usd)


def test_the_token_limit_counts_input_and_output(tmp_path: Path) -> None:
    with ScriptedUpstream(lambda body, protocol: Reply("x", usage=CALL)) as upstream:
        with live(tmp_path, upstream, tokens=450, cost_usd=UNLIMITED) as through:
            statuses = [through.post("chat", max_tokens=50).status_code for _ in range(5)]
            refused = through.post("chat", max_tokens=50).json()["error"]
        assert statuses == [200, 200, 200, 402, 402]
        assert (refused["code"], refused["limit"]) == ("budget_exceeded", "token_limit")
        assert through.gateway.state().limit_hit == "token_limit"


def test_a_call_without_a_cap_gets_one_while_there_is_a_limit(tmp_path: Path) -> None:
    with ScriptedUpstream([Reply("x"), Reply("x")]) as upstream, live(tmp_path, upstream) as through:
        through.post("chat", max_tokens=None)
        through.post("responses", max_output_tokens=None)
    assert upstream.requests[0].body["max_completion_tokens"] == 16_384
    assert upstream.requests[1].body["max_output_tokens"] == 16_384


@pytest.mark.parametrize("caps", [(1, 100_000), (100_000, 1)])
def test_of_two_caps_the_larger_is_set_aside(tmp_path: Path, caps: tuple[int, int]) -> None:
    fields = dict(zip(("max_completion_tokens", "max_tokens"), caps, strict=True))
    with ScriptedUpstream([Reply("x"), Reply("x")]) as upstream, live(tmp_path, upstream, cost_usd=1.0) as through:
        refused = through.post("chat", **fields).json()["error"]
        assert (refused["code"], refused["limit"]) == ("budget_exceeded", "cost_limit")
        assert through.post("chat", **{**fields, "max_tokens": 9, "max_completion_tokens": None}).status_code == 200
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    "fields",
    [{"thinking_budget": 100_000}, {"reasoning": {"max_tokens": 100_000}}, {"thinking_token_budget": 100_000},
     {"thinking": {"type": "enabled", "budget_tokens": 100_000}}],
)  # fmt: skip
def test_thoughts_that_are_asked_for_by_number_are_set_aside(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Some providers do not count them within the cap."""
    dynamic = {"thinking_budget": -1, "reasoning": {"max_tokens": None}}
    with ScriptedUpstream([Reply("x")]) as upstream, live(tmp_path, upstream, cost_usd=1.0) as through:
        assert through.post("chat", **fields, max_tokens=1).json()["error"]["limit"] == "cost_limit"
        assert through.post("chat", **dynamic, max_tokens=1).status_code == 200


def test_the_refusal_is_in_the_protocols_own_spelling(tmp_path: Path) -> None:
    with ScriptedUpstream([]) as upstream, live(tmp_path, upstream, calls=0) as through:
        chat, messages = through.post("chat"), through.post("messages")
    assert chat.json()["error"]["code"] == messages.json()["error"]["type"] == "budget_exceeded"
    assert (messages.json()["type"], messages.json()["error"]["limit"]) == ("error", "step_limit")
    assert (chat.status_code, messages.status_code, chat.headers["x-should-retry"]) == (402, 402, "false")


def test_after_the_grace_the_agent_is_to_be_stopped(tmp_path: Path) -> None:
    with ScriptedUpstream([Reply("x")]) as upstream, live(tmp_path, upstream, calls=1, grace_s=0.5) as through:
        assert through.post("chat").status_code == 200
        assert not through.gateway.should_stop()
        assert through.post("chat").status_code == 402
        assert not through.gateway.should_stop(), "it may still write down what it has"
        deadline = time.monotonic() + 10
        while not through.gateway.should_stop() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert through.gateway.should_stop()


def test_a_job_ends_when_its_owner_says_so(plain: Sandbox, tmp_path: Path) -> None:
    job = Job(["sleep", "60"], [], Mount(tmp_path, "/w", writable=True), JobLimits(wall_s=30))
    began = time.monotonic()
    ended = run_job(plain, job, lambda: time.monotonic() > began + 0.5)
    assert ended.reason == "stopped"
    assert ended.wall_s < 20


def test_cells_share_the_limits_of_their_run(tmp_path: Path) -> None:
    limits = RunLimits(calls=6, cost_usd=1.0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    shared: dict[str, Any] = {"run_budget": RunBudgetConfig(path=tmp_path / "budget.json", limits=limits)}
    with (
        ScriptedUpstream(lambda body, protocol: Reply("x", usage=CALL, hang_s=0.02)) as upstream,
        live(tmp_path / "a", upstream, **shared) as one,
        live(tmp_path / "b", upstream, **shared) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        served = [status for them in pool.map(lambda it: storm(it, 8), (one, other)) for status in them]
    assert (served.count(200), served.count(402)) == (6, 10)
    budget = RunBudget(tmp_path / "budget.json", limits)
    left = budget.balance()
    assert left.spent_usd == pytest.approx(6 * EACH)
    assert left.held_usd == pytest.approx(0.0, abs=1e-12)
    assert (left.tokens, left.calls, left.held_tokens, left.held_calls) == (900, 6, 0, 0)


def test_what_a_killed_gateway_held_stays_held(tmp_path: Path) -> None:
    limits = RunLimits(cost_usd=1.0)
    killed, living = (RunBudget(tmp_path / "budget.json", limits) for _ in range(2))
    assert killed.hold(0.7, 1000, True) is None
    refusal = living.hold(0.5, 1000, True)
    assert refusal is not None
    assert (refusal.limit, refusal.may_pass) == ("cost_limit", True)
    assert living.hold(0.3, 1000, True) is None
    living.settle(0.3, 1000, True, 0.1, 200)
    assert living.hold_more(0.2, 1000)
    assert not living.hold_more(0.1, 1000)


def test_the_runs_time_is_a_limit(tmp_path: Path) -> None:
    shared: dict[str, Any] = {
        "run_budget": RunBudgetConfig(path=tmp_path / "budget.json", limits=RunLimits(deadline=time.monotonic() - 1))
    }
    with ScriptedUpstream([]) as upstream, live(tmp_path, upstream, **shared) as through:
        assert through.post("chat").json()["error"]["limit"] == "time_limit"


def test_a_gateway_that_dies_is_told_and_its_cell_is_infra(tmp_path: Path) -> None:
    with ScriptedUpstream([]) as upstream, live(tmp_path, upstream) as through:
        os.kill(through.gateway.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while not through.gateway.should_stop() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "gateway_broken" in (through.gateway.state().error or "")
    assert "gateway_broken" in (through.gateway.state().error or "")


def test_the_gateway_ends_with_the_runner(tmp_path: Path) -> None:
    code = (
        "import os, sys, time, pathlib\n"
        "from tests.helpers.gateway import *\n"
        "folder = pathlib.Path(sys.argv[1]); write_cassette(folder / 'cassettes', [turn('x')])\n"
        "with open_gateway(spec_in(folder)) as gateway:\n"
        "    print(gateway.pid, flush=True); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
    assert not (tmp_path / "g.sock").exists()
