"""A gateway that breaks: over what its cell sent it is the agent's doing, by a hand from outside it is not."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.cell.run import run_cell
from bench.formats.model_usage import ModelUsage, Tokens
from bench.formats.record import Record
from bench.gateway import launch
from bench.gateway.breakage import broken_by_cell, usage_so_far
from bench.sandbox.job import Sandbox
from bench.store.recompute import RULES
from tests.helpers.asking_agent import AGENT, GOOD
from tests.helpers.cells import make_agent, make_case, make_cell, make_context
from tests.helpers.gateway_live import live, own_prices
from tests.helpers.provider import Reply, ScriptedUpstream
from tests.helpers.sampling import at_night

FRAGILE = """
import os, sys
if sys.argv[0] == "-c" and "bench.gateway.process" in " ".join(sys.orig_argv):
    import bench.gateway.calls as calls
    sound = calls.read_call

    def fragile(dialect, body, *rest):
        if b"ABORT" in body:
            os.abort()
        if b"EXIT" in body:
            os._exit(3)
        while b"HANG" in body:
            pass
        if b"HUGE" in body:
            bytearray(5 << 30)
        return sound(dialect, body, *rest)

    calls.read_call = fragile
"""
"""What Python loads at its start: a gateway with faults that we do not know."""


@pytest.fixture
def fragile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "sitecustomize.py").write_text(FRAGILE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "python"))


def run(tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tail: str) -> Record:
    with ScriptedUpstream(lambda body, protocol: GOOD) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MLDB_PRICES", str(own_prices(tmp_path)))
        agent = make_agent(tmp_path / "agents", AGENT + tail, models={"main": "openai/scripted"})
        return run_cell(make_cell(agent, make_case(tmp_path / "cases")), make_context(tmp_path, sandbox))


@pytest.mark.usefixtures("fragile")
@pytest.mark.parametrize("word", ["ABORT", at_night("EXIT"), at_night("HANG")])
def test_an_agent_that_breaks_its_gateway_is_judged(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setattr(launch, "_SILENT_S", 3.0)
    monkeypatch.setattr(launch, "_REPLY_S", 3.0)
    tail = f"""
ask("chat/completions")
pathlib.Path("answer.py").write_text("def double(x):\\n    return 3 * x\\n")
try:
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", b'{{"model": "{word}"}}',
        {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}})
    urllib.request.urlopen(request, timeout=2)
except OSError:
    sys.exit(1)
"""
    record = run(tmp_path, plain, monkeypatch, tail)
    assert (record.outcome, record.success, record.tries) == ("graded", False, []), "no second try by breaking it"
    (flag,) = [it for it in record.flags if it.name == "gateway_broken"]
    assert "a fresh one answers" in flag.evidence
    (usage,) = record.usage
    assert (usage.calls, usage.cost_status) == (1, "estimated")
    assert usage.cost_usd is not None and usage.cost_usd > 0, "what it had used before is not forgotten"


@pytest.mark.usefixtures("fragile")
def test_a_cell_whose_first_request_breaks_its_gateway_is_collected(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record would contradict itself: a cost that is estimated, and no call."""
    tail = """
body = b'{"model": "ABORT"}'
pathlib.Path("answer.py").unlink()
try:
    urllib.request.urlopen(urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}), timeout=2)
except OSError:
    sys.exit(1)
"""
    record = run(tmp_path, plain, monkeypatch, tail)
    assert (record.outcome, record.success) == ("graded", False)
    assert [it.name for it in record.flags if it.name == "gateway_broken"]
    nothing_else: Any = None
    assert list(RULES["usage"](record, nothing_else)) == []


@pytest.mark.usefixtures("fragile")
def test_an_outage_that_was_found_stays_one_when_the_gateway_breaks_after_it(tmp_path: Path) -> None:
    with ScriptedUpstream(lambda body, protocol: Reply(status=401)) as upstream:
        environment = {**upstream.environment(), "PYTHONPATH": os.environ["PYTHONPATH"], "PATH": "/usr/bin:/bin"}
        with live(tmp_path, upstream, environment=environment) as through:
            assert through.post("chat").status_code == 502
            assert "401" in (through.gateway.state().error or "")
            with contextlib.suppress(httpx.HTTPError):
                through.post("chat", messages=[{"role": "user", "content": "ABORT"}])
        state = through.gateway.state()
    assert not state.broken
    assert "401" in (state.error or "")


@pytest.mark.usefixtures("fragile")
def test_a_request_for_more_memory_than_there_is_fails_alone(tmp_path: Path) -> None:
    upstream_env = {"PYTHONPATH": os.environ["PYTHONPATH"], "PATH": "/usr/bin:/bin"}
    with ScriptedUpstream([GOOD]) as upstream:
        environment = {**upstream.environment(), **upstream_env}
        with live(tmp_path, upstream, environment=environment) as through:
            refused = through.post("chat", messages=[{"role": "user", "content": "HUGE"}])
            assert refused.status_code == 500
            assert through.post("chat").status_code == 200, "the next one is answered"
            assert through.gateway.state().error is None


def test_what_ended_a_gateway_from_outside_is_no_doing_of_the_cell(tmp_path: Path) -> None:
    assert not broken_by_cell(-signal.SIGKILL, tmp_path)
    assert broken_by_cell(-signal.SIGABRT, tmp_path)
    assert broken_by_cell(None, tmp_path), "a gateway that hangs, where another one answers"


def test_where_no_gateway_works_the_machine_is_at_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os, sys\nif sys.argv[0] == '-c': os._exit(1)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert not broken_by_cell(-signal.SIGABRT, tmp_path)


def test_usage_that_was_told_is_kept_where_the_ledger_says_less(tmp_path: Path) -> None:
    told = ModelUsage(model="m", calls=3, tokens=Tokens(input_uncached=30), cost_usd=0.5, cost_status="exact")
    (found,) = usage_so_far([told], tmp_path / "calls.jsonl")
    assert (found.calls, found.cost_usd, found.tokens, found.cost_status) == (3, 0.5, told.tokens, "estimated")
