"""What goes wrong upstream: retried, counted, charged once, and never the agent's fault."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.base.errors import UserError
from bench.formats.run_limits import RunLimits
from bench.gateway.config import Patience, RunBudgetConfig
from bench.gateway.launch import open_gateway
from bench.gateway.run_budget import RunBudget
from tests.helpers.gateway import spec_in
from tests.helpers.gateway_live import (
    CANARY,
    HASTY,
    NO_TLS,
    QUICK,
    UNLIMITED,
    Live,
    asked_by_agent,
    live,
    request,
    written_below,
)
from tests.helpers.provider import Reply, ScriptedUpstream, Usage

GOOD = Reply("hello", usage=Usage(1000, 50, 640))
PROTOCOLS = ["chat", "responses", "messages"]


def role_of(through: Live, protocol: str) -> Any:
    return through.gateway.state().usage[1 if protocol == "messages" else 0]


_PASSING = {
    "429": Reply(status=429), "500": Reply(status=500, raw=b"<html>"), "503": Reply(status=503),
    "529": Reply(status=529), "lost": Reply(cut=0.0),
}  # fmt: skip
_CHARGED = (1000 * 3 + 640 * 0.3 + 50 * 15) / 1e6


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_passing_faults_are_tried_again(tmp_path: Path, protocol: str, stream: bool) -> None:
    replies = [reply for fault in _PASSING.values() for reply in (fault, fault, GOOD)]
    with ScriptedUpstream(replies) as upstream, live(tmp_path, upstream) as through:
        for number, name in enumerate(_PASSING, 1):
            before = role_of(through, protocol)
            assert through.post(protocol, stream=stream).status_code == 200
            usage = role_of(through, protocol)
            assert (usage.calls, usage.failed_calls, usage.retries) == (number, 0, 2 * number)
            assert usage.faults == before.faults | {name: 2}
            assert usage.waited_s > before.waited_s
            assert usage.cost_usd == pytest.approx(number * _CHARGED), "charged once"
            assert (usage.at_risk_usd > before.at_risk_usd) == (name == "lost")
            assert through.lines[-1]["faults"] == [name, name]
    assert len(upstream.requests) == len(replies)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_provider_that_hangs_is_asked_again(tmp_path: Path, protocol: str) -> None:
    replies = [Reply(hang_s=1.0), Reply(hang_s=1.0), GOOD] * 2
    with ScriptedUpstream(replies) as upstream, live(tmp_path, upstream, patience=HASTY) as through:
        for stream in (False, True):
            assert through.post(protocol, stream=stream).status_code == 200
        usage = role_of(through, protocol)
    assert (usage.calls, usage.retries, usage.faults) == (2, 4, {"timeout": 4})
    assert usage.at_risk_usd > 0


def test_answers_that_are_none_are_tried_again(tmp_path: Path) -> None:
    odd = [b"[", b"{}", b'{"choices": []}', b"null", b'{"choices": [{"message": 5}]}']
    replies = [reply for raw in odd for reply in (Reply(raw=raw), GOOD)]
    with ScriptedUpstream(replies) as upstream, live(tmp_path, upstream) as through:
        for raw in odd:
            assert through.post("chat").status_code == 200, raw
    assert role_of(through, "chat").faults == {"invalid": len(odd)}


def test_what_stays_broken_is_infra_and_ends_the_cell(tmp_path: Path) -> None:
    with ScriptedUpstream([]) as upstream, live(tmp_path, upstream) as through:
        broken = through.post("messages")
        assert (broken.status_code, broken.json()["error"]["type"]) == (502, "upstream_broken")
        error = through.gateway.state().error or ""
        assert error.startswith("upstream_broken: the upstream answered 500, after 3 tries; our own known-good request")
        assert through.gateway.should_stop()
        assert through.post("chat").json()["error"]["code"] == "gateway_fault"
    assert len(asked_by_agent(upstream)) == 3
    assert {line["status"] for line in through.lines} == {"probe", "failed"}
    assert (role_of(through, "messages").failed_calls, role_of(through, "messages").cost_usd) == (1, 0.0)


@pytest.mark.parametrize("form", ["seconds", "milliseconds", "date"])
def test_retry_after_is_honoured(tmp_path: Path, form: str) -> None:
    def script(body: dict[str, Any], protocol: str) -> Reply:
        if len(upstream.requests) > 1:
            return GOOD
        date = formatdate(time.time() + 2, usegmt=True)
        headers = {
            "seconds": {"Retry-After": "1"}, "milliseconds": {"retry-after-ms": "1000"}, "date": {"Retry-After": date},
        }  # fmt: skip
        return Reply(status=429, headers=headers[form])

    upstream = ScriptedUpstream(script)
    with upstream, live(tmp_path, upstream) as through:
        assert through.post("chat").status_code == 200
    assert role_of(through, "chat").waited_s > 0.9, "it waited although its own first wait is at most 10 ms"


def test_a_retry_after_beyond_all_patience_ends_the_call(tmp_path: Path) -> None:
    with (
        ScriptedUpstream([Reply(status=429, headers={"Retry-After": "3600"})]) as upstream,
        live(tmp_path, upstream) as through,
    ):
        assert through.post("chat").status_code == 502
    assert len(asked_by_agent(upstream)) == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_the_agent_asked_wrong_is_told_to_it_word_for_word(tmp_path: Path, status: int) -> None:
    with ScriptedUpstream([Reply(status=status, error="context too long")]) as upstream, live(tmp_path, upstream) as it:
        told = it.post("messages")
        assert (told.status_code, told.content) == (status, upstream.sent[0])
        assert it.gateway.state().error is None
    assert (role_of(it, "messages").failed_calls, role_of(it, "messages").retries) == (1, 0)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 301])
def test_faults_of_our_account_are_not_the_agents_and_not_repeated(tmp_path: Path, status: int) -> None:
    said = f"bad key {CANARY[:8]}...{CANARY[-4:]} or {CANARY}"
    with ScriptedUpstream([Reply(status=status, error=said)] * 20) as upstream, live(tmp_path, upstream) as through:
        told = through.post("chat")
        assert told.status_code == 502
        assert through.gateway.state().error is not None
    for shown in (told.text, through.gateway.state().error or "", written_below(tmp_path)):
        assert CANARY not in shown
    if status in (401, 403):
        assert CANARY[-4:] not in told.text, "not even the end of it, which providers like to show"
    assert len(asked_by_agent(upstream)) == 1


def test_an_empty_account_is_not_waited_for(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}).encode()
    with ScriptedUpstream([Reply(status=429, raw=body)] * 20) as upstream, live(tmp_path, upstream) as through:
        assert "insufficient_quota" in through.post("chat").text
        assert through.gateway.state().error
    assert len(asked_by_agent(upstream)) == 1


def test_nobody_listening_puts_nothing_at_risk(tmp_path: Path) -> None:
    with ScriptedUpstream([]) as upstream:
        environment = upstream.environment()
    with live(tmp_path, upstream, environment=environment) as through:
        assert "cannot be reached" in through.post("chat").text
    usage = role_of(through, "chat")
    assert (usage.faults, usage.at_risk_usd, usage.cost_status) == ({"unreachable": 3}, 0.0, "none")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_that_breaks_is_charged_an_estimate_and_cut_for_the_client(tmp_path: Path, protocol: str) -> None:
    long = Reply("word " * 600, usage=Usage(1000, 700))
    broken = Reply(long.text, usage=long.usage, cut=0.5)
    with ScriptedUpstream([broken, GOOD]) as upstream, live(tmp_path, upstream) as through:
        with pytest.raises(httpx.RemoteProtocolError):
            through.post(protocol, stream=True)
        assert through.gateway.state().error is None, "the agent may ask again"
        usage = role_of(through, protocol)
        assert (usage.calls, usage.failed_calls, usage.cost_status) == (0, 1, "estimated")
        assert usage.faults == {"stream_broken": 1}
        assert 300 < (usage.tokens.output or 0) < 700
        if protocol == "messages":
            assert usage.tokens.input_uncached == 1000, "Anthropic says so at the start"
        assert through.post(protocol, stream=True).status_code == 200
    assert [(line["status"], line["estimated"]) for line in through.lines] == [("failed", True), ("ok", False)]
    assert "word word" in through.lines[0]["answer"]["content"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_usage_that_makes_no_sense_is_estimated_and_counted(tmp_path: Path, protocol: str) -> None:
    odd: list[object] = ["none", {}, {"prompt_tokens": -1, "completion_tokens": 2, "input_tokens": True}]
    replies = [Reply("hello " * 100, wrong_usage=usage) for usage in odd for _ in range(2)]
    with ScriptedUpstream(replies) as upstream, live(tmp_path, upstream) as through:
        for number in range(1, len(replies) + 1):
            before = role_of(through, protocol)
            assert through.post(protocol, stream=number % 2 == 0).status_code == 200
            counted = role_of(through, protocol)
            assert (counted.calls, counted.cost_status) == (number, "estimated")
            assert counted.faults == {"usage_unknown": number}
            assert (counted.tokens.output or 0) - (before.tokens.output or 0) >= 200
            assert (counted.cost_usd or 0) > (before.cost_usd or 0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_cache_whose_life_the_provider_does_not_tell_has_the_price_of_what_was_asked(
    tmp_path: Path, stream: bool
) -> None:
    usage = {"input_tokens": 10, "output_tokens": 4, "cache_creation_input_tokens": 100}
    asked = {
        "model": "bench-claude",
        "max_tokens": 50,
        "stream": stream,
        "messages": [{"role": "user", "content": "hi"}],
    }
    costs = []
    with ScriptedUpstream([Reply("hello", wrong_usage=usage)] * 2) as upstream, live(tmp_path, upstream) as through:
        for life in ("5m", "1h"):
            sent = {**asked, "cache_control": {"type": "ephemeral", "ttl": life}}
            assert httpx.post(f"{through.url}/v1/messages", json=sent, headers=through.headers).status_code == 200
            role = role_of(through, "messages")
            costs.append(((role.cost_usd or 0) * 1e6, role.cost_status, role.at_risk_usd, role.faults))
    short, hour = 10 * 3 + 4 * 15 + 100 * 3.75, 10 * 3 + 4 * 15 + 100 * 6
    assert costs[0] == (pytest.approx(short), "exact", 0, {})
    assert costs[1] == (pytest.approx(short + hour), "estimated", 0, {"cache_life_unknown": 1})


@pytest.mark.parametrize(("protocol", "stream"), [("chat", False), ("responses", True), ("messages", False)])
def test_an_answer_without_usage_is_at_risk_up_to_what_was_set_aside(
    tmp_path: Path, protocol: str, stream: bool
) -> None:
    """What was thought unseen is billed, and nothing tells how much it was."""
    replies = [Reply("hello", wrong_usage={})] * 9
    with ScriptedUpstream(replies) as upstream, live(tmp_path, upstream, cost_usd=0.05) as through:
        caps = {"max_output_tokens" if protocol == "responses" else "max_tokens": 1000}
        statuses = [through.post(protocol, stream=stream, **caps).status_code for _ in range(5)]
        usage = role_of(through, protocol)
    assert statuses == [200, 200, 200, 402, 402], "of 15 dollars a million for 1,000 tokens three fit into 5 cents"
    assert (usage.cost_usd or 0) + usage.at_risk_usd >= 3 * 0.015


def test_sound_is_charged_at_its_own_price_or_by_an_estimate(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 20_000, "completion_tokens": 1, "prompt_tokens_details": {"audio_tokens": 19_000}}
    models, prices = {"main": "openai/priced", "other": "openai/unpriced"}, tmp_path / "own.json"
    known = {"openai/priced": {"input": 3, "output": 15, "audio": 40}, "openai/unpriced": {"input": 3, "output": 15}}
    prices.write_text(json.dumps({"schema": 1, "version": "sound", "models": known}))
    facts: Any = {"models": models, "own_prices": prices, "cost_usd": UNLIMITED}
    replies = [Reply("x", wrong_usage=usage)] * 2
    with ScriptedUpstream(replies) as upstream, live(tmp_path, upstream, **facts) as through:
        for role in models:
            assert through.post("chat", model=f"bench-{role}").status_code == 200
        priced, unpriced = through.gateway.state().usage
    assert priced.cost_status == "exact"
    assert priced.cost_usd == pytest.approx((1000 * 3 + 19_000 * 40 + 15) / 1e6)
    assert (unpriced.cost_status, unpriced.faults) == ("estimated", {})


@pytest.mark.parametrize(("tier", "status"), [("default", "exact"), ("priority", "estimated"), ("flex", "estimated")])
def test_a_tier_that_the_account_has_chosen_makes_the_cost_an_estimate(tmp_path: Path, tier: str, status: str) -> None:
    """Nobody asked for it, and its price is not the table's. All that is known of the tokens is known all the same."""
    counted = {"prompt_tokens": 100, "completion_tokens": 50}
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    said = {"id": "x", "model": "scripted", "service_tier": tier, "choices": [choice], "usage": counted}
    with (
        ScriptedUpstream([Reply(raw=json.dumps(said).encode())]) as upstream,
        live(tmp_path, upstream) as through,
    ):
        assert through.post("chat").status_code == 200
        (usage,) = [it for it in through.gateway.state().usage if it.role == "main"]
        assert through.lines[0]["estimated"] == (status == "estimated")
    assert (usage.cost_status, usage.at_risk_usd, usage.faults) == (status, 0.0, {})


@pytest.mark.parametrize(("searches", "status"), [(0, "exact"), (3, "estimated")])
def test_tools_that_are_billed_by_the_piece_make_the_cost_an_estimate(
    tmp_path: Path, searches: int, status: str
) -> None:
    """On a case with a network: each search costs a cent, which is in no token."""
    counted = {"input_tokens": 100, "output_tokens": 50, "server_tool_use": {"web_search_requests": searches}}
    said = {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": counted}
    with (
        ScriptedUpstream([Reply(raw=json.dumps(said).encode())]) as upstream,
        live(tmp_path, upstream, hosted_tools=True) as through,
    ):
        assert through.post("messages").status_code == 200
        assert role_of(through, "messages").cost_status == status
    assert through.lines[0]["estimated"] == (status == "estimated")


def test_what_nests_without_end_is_charged_by_its_usage(tmp_path: Path) -> None:
    counted = {"promptTokenCount": 200, "candidatesTokenCount": 700, "thoughtsTokenCount": 15_000}
    part = {"functionCall": {"name": "f", "args": {"x": "deep"}}}
    candidate = {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [part]}}
    body = json.dumps({"candidates": [candidate], "usageMetadata": counted}).replace('"deep"', "[" * 1500 + "]" * 1500)
    gemini = {"gemini": "gemini/scripted"}
    with ScriptedUpstream([Reply(raw=body.encode())]) as upstream, live(tmp_path, upstream, models=gemini) as through:
        asked = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
        url = f"{through.url}/v1beta/models/bench-gemini:generateContent"
        answered = httpx.post(url, json=asked, headers=through.headers, timeout=30, verify=NO_TLS)
        usage = through.gateway.state().usage[0]
    assert (answered.status_code, answered.content) == (200, body.encode())
    assert (usage.cost_status, usage.tokens.output, usage.at_risk_usd) == ("exact", 15_700, 0.0)


def test_a_client_that_hangs_up_is_charged_the_whole_answer(tmp_path: Path) -> None:
    """The provider bills it, and an agent may have read all that it wants of it: a step like others."""
    long = Reply("word " * 20_000, usage=Usage(1000, 30_000, 640))
    with ScriptedUpstream([long]) as upstream, live(tmp_path, upstream, cost_usd=UNLIMITED) as through:
        assert hang_up(through, "chat", "chat/completions") == 200
        (line,) = through.lines
        usage = role_of(through, "chat")
    assert (line["status"], line["faults"], line["estimated"]) == ("ok", ["client_gone"], False)
    assert (usage.calls, usage.cost_status, usage.faults) == (1, "exact", {})
    assert usage.cost_usd == pytest.approx((1000 * 3 + 640 * 0.3 + 30_000 * 15) / 1e6)


def test_a_stream_that_nobody_waits_for_at_the_end_is_charged_with_its_worst_case(tmp_path: Path) -> None:
    """Otherwise the last calls of an agent would cost on record what it cared to wait for."""
    endless = Reply("word " * 20_000, slow_after=20)
    with (
        ScriptedUpstream([endless]) as upstream,
        live(tmp_path, upstream, patience=Patience(), cost_usd=UNLIMITED) as through,
    ):
        begin_stream(through, "chat", "chat/completions", max_tokens=10_000)
    usage = role_of(through, "chat")
    assert [line["status"] for line in through.lines] == ["abandoned"]
    assert usage.cost_usd == pytest.approx(_EACH, rel=0.05)
    assert usage.cost_status == "estimated"


def begin_stream(through: Live, protocol: str, path: str, **fields: Any) -> int:
    """Ask for a stream and hang up after its first bytes; the status."""
    asked = {**request(protocol), "stream": True, **fields}
    with httpx.stream(
        "POST", f"{through.url}/v1/{path}", json=asked, headers=through.headers, timeout=60, verify=NO_TLS
    ) as stream:
        if stream.status_code == 200:
            next(stream.iter_bytes())
    return stream.status_code


def hang_up(through: Live, protocol: str, path: str, **fields: Any) -> int:
    """The same, and wait until it is on record."""
    before = len(through.lines)
    status = begin_stream(through, protocol, path, **fields)
    deadline = time.monotonic() + 60
    while len(through.lines) == before and time.monotonic() < deadline:
        time.sleep(0.02)
    return status


_EACH = 10_000 * 15e-6
"""What the output of a call with a cap of 10,000 tokens may cost."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("limit", ["cost_limit", "token_limit"])
def test_streams_that_the_agent_hangs_up_do_not_pass_a_limit(tmp_path: Path, protocol: str, limit: str) -> None:
    """A limit of three such calls lets three begin, and the record has what all of them have cost."""
    path = {"chat": "chat/completions"}.get(protocol, protocol)
    cap = {"max_output_tokens" if protocol == "responses" else "max_tokens": 10_000}
    bounds: dict[str, Any] = (
        {"cost_usd": 3.5 * _EACH} if limit == "cost_limit" else {"cost_usd": None, "tokens": 35_000}
    )
    with (
        ScriptedUpstream(lambda body, kind: Reply("word " * 10_000, usage=Usage(10, 10_000))) as upstream,
        live(tmp_path, upstream, patience=Patience(), **bounds) as through,
    ):
        statuses = [hang_up(through, protocol, path, **cap) for _ in range(5)]
        usage, state = role_of(through, protocol), through.gateway.state()
    assert statuses == [200, 200, 200, 402, 402]
    assert (len(upstream.requests), state.limit_hit) == (3, limit)
    assert (usage.calls, usage.tokens.output, usage.at_risk_usd) == (3, 30_000, 0)
    assert usage.cost_usd == pytest.approx(3 * _EACH, rel=0.05)


def test_the_run_counts_what_hung_up_streams_have_cost(tmp_path: Path) -> None:
    limits = RunLimits(cost_usd=1.5 * _EACH, tokens=1_000_000)
    shared = {"run_budget": RunBudgetConfig(path=tmp_path / "budget.json", limits=limits)}
    with (
        ScriptedUpstream(lambda body, kind: Reply("word " * 10_000, usage=Usage(10, 10_000))) as upstream,
        live(tmp_path, upstream, patience=Patience(), **shared) as through,
    ):
        statuses = [hang_up(through, "chat", "chat/completions", max_tokens=10_000) for _ in range(2)]
    assert statuses == [200, 402]
    balance = RunBudget(tmp_path / "budget.json", limits).balance()
    assert balance.spent_usd == pytest.approx(_EACH, rel=0.05)
    assert balance.tokens == pytest.approx(10_000, rel=0.05)
    assert balance.held_usd == pytest.approx(0, abs=1e-12)
    assert (balance.held_tokens, balance.held_calls) == (0, 0)


def test_a_stream_that_the_provider_breaks_counts_as_whole_for_the_limits(tmp_path: Path) -> None:
    """It may bill what it has generated, and an agent that could break streams would pass the limit otherwise."""
    broken = Reply("word " * 60, usage=Usage(1000, 100), cut=0.5)
    with (
        ScriptedUpstream([broken, broken, GOOD]) as upstream,
        live(tmp_path, upstream, cost_usd=2.5 * _EACH) as through,
    ):
        for _ in range(2):
            with pytest.raises(httpx.RemoteProtocolError):
                through.post("chat", stream=True, max_tokens=10_000)
        assert through.post("chat", stream=True, max_tokens=10_000).status_code == 402
        assert through.post("chat", max_tokens=100).status_code == 200, "what fits is answered"
        usage = role_of(through, "chat")
    assert (usage.cost_usd or 0) + usage.at_risk_usd == pytest.approx(2 * _EACH + _CHARGED, rel=0.05)


def test_tries_whose_answer_was_lost_count_for_the_limit_of_tokens(tmp_path: Path) -> None:
    lost = Reply(cut=0.0)
    with (
        ScriptedUpstream([lost, GOOD, GOOD, GOOD]) as upstream,
        live(tmp_path, upstream, cost_usd=UNLIMITED, tokens=25_000) as through,
    ):
        assert through.post("chat", max_tokens=10_000).status_code == 200
        assert through.post("chat", max_tokens=15_000).json()["error"]["limit"] == "token_limit"
        assert through.post("chat", max_tokens=10_000).status_code == 200


def test_a_call_under_way_at_the_end_is_charged_and_on_record(tmp_path: Path) -> None:
    with ScriptedUpstream([Reply(hang_s=60.0)]) as upstream:
        with live(tmp_path, upstream, patience=Patience()) as through:

            def ask() -> None:
                with pytest.raises(httpx.HTTPError):
                    through.post("chat", max_tokens=1000)

            asking = threading.Thread(target=ask)
            asking.start()
            while not upstream.requests:
                time.sleep(0.01)
        asking.join(10)
    usage = through.gateway.state().usage[0]
    assert (usage.calls, usage.failed_calls, usage.cost_status) == (0, 1, "estimated")
    assert (usage.cost_usd or 0) > 1000 * 15e-6
    assert (through.gateway.state().error, through.gateway.state().limit_hit) == (None, None), (
        "an ended cell is nobody's fault"
    )
    assert [line["status"] for line in through.lines] == ["abandoned"]


@pytest.mark.slow
def test_a_hundred_faults_lose_no_cell_and_charge_no_call_twice(tmp_path: Path) -> None:
    """Five agents' calls at once over all protocols, each call with one fault of a random kind.

    A call names its number, so the upstream knows which fault is meant for it whatever else goes on, and sends it once.
    """
    draw = random.Random(7)
    usage = Usage(100, 20, 50)
    kinds = {
        "429": Reply(status=429), "500": Reply(status=500), "timeout": Reply(hang_s=6.0),
        "stream_broken": Reply("word " * 40, usage=usage, cut=0.5), "invalid": Reply(raw=b"{"),
        "usage_unknown": Reply("hello", wrong_usage={"nonsense": 1}),
    }  # fmt: skip
    calls: list[tuple[str, bool, str]] = []
    """Protocol, streamed, and the kind of the fault."""
    for _ in range(100):
        name = draw.choice(list(kinds))
        stream = name == "stream_broken" or (draw.random() < 0.5 and name != "invalid")
        calls.append((draw.choice(PROTOCOLS), stream, name))
    injected = Counter(name for _, _, name in calls)
    faulted: set[int] = set()

    def script(body: dict[str, Any], protocol: str) -> Reply:
        number = int((body.get("messages") or body["input"])[0]["content"])
        if number in faulted:
            return Reply("hello", usage=usage)
        faulted.add(number)
        return kinds[calls[number][2]]

    # A whole answer takes some ten milliseconds: only a hanging upstream is slower than this, however busy the machine.
    patience = QUICK.model_copy(update={"answer_s": 3.0, "first_wait_s": 0.001})
    upstream = ScriptedUpstream(script)
    with upstream, live(tmp_path, upstream, patience=patience, deadline=time.monotonic() + 600) as through:

        def ask(number: int) -> None:
            protocol, stream, name = calls[number]
            said = {"input" if protocol == "responses" else "messages": [{"role": "user", "content": str(number)}]}
            if name == "stream_broken":
                with pytest.raises(httpx.RemoteProtocolError):
                    through.post(protocol, stream=True, **said)
            else:
                assert through.post(protocol, stream=stream, **said).status_code == 200

        with ThreadPoolExecutor(5) as agents:
            list(agents.map(ask, range(len(calls))))
        assert through.gateway.state().error is None, "the cell is not lost"
    usages = through.gateway.state().usage
    counted = sum((Counter(it.faults) for it in usages), Counter())
    assert counted == injected, "every fault is in the record"
    answered = len(calls) - injected["stream_broken"]
    assert sum(it.calls for it in usages) == answered
    exact = [line for line in through.lines if not line["estimated"]]
    assert len(exact) == answered - injected["usage_unknown"]
    assert all(line["tokens"]["output"] == 20 and line["tokens"]["input_uncached"] == 100 for line in exact)
    assert len(through.lines) == len(calls), "one line a call, however often it was tried"


def test_an_unpriced_model_needs_the_limit_to_be_lifted(tmp_path: Path) -> None:
    with ScriptedUpstream([GOOD]) as upstream:
        with (
            pytest.raises(UserError, match="no price"),
            live(tmp_path, upstream, models={"main": "openai/home-made"}, own_prices=None),
        ):
            pass
        assert not (tmp_path / "g.sock").exists()
        free = {"models": {"main": "openai/home-made"}, "own_prices": None, "cost_usd": UNLIMITED}
        with live(tmp_path, upstream, **free) as through:
            assert through.post("chat", max_tokens=None).status_code == 200
        assert "max_completion_tokens" not in upstream.requests[0].body, "without a limit nothing is capped"
    usage = through.gateway.state().usage[0]
    assert (usage.cost_usd, usage.cost_status, usage.tokens.output) == (None, "unknown", 50)
    assert through.lines[0]["cost_usd"] is None


@pytest.mark.parametrize(
    ("environment", "said"),
    [({}, "OPENAI_API_KEY"), ({"OPENAI_API_KEY": "k" * 20, "OPENAI_BASE_URL": "ftp://x"}, "OPENAI_BASE_URL"),
     ({"OPENAI_API_KEY": "a\nb"}, "characters that no key has")],
)  # fmt: skip
def test_a_provider_that_cannot_be_asked_is_a_user_error(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    changes: dict[str, Any] = {"models": {"main": "openai/x"}, "cost_usd": UNLIMITED, "environment": environment}
    with pytest.raises(UserError, match=said), open_gateway(spec_in(tmp_path, **changes)):
        pass


def test_the_canary_key_is_written_nowhere(tmp_path: Path) -> None:
    """An upstream that repeats the key in everything it says."""
    parrot = Reply(f"your key is {CANARY}", usage=Usage(10, 5))
    (tmp_path / "run").mkdir()
    replies = [parrot, Reply(status=400, error=f"key {CANARY} is odd"), parrot, parrot]
    with (
        ScriptedUpstream(replies) as upstream,
        live(tmp_path / "run", upstream, record=tmp_path / "run" / "cassettes") as through,
    ):
        for protocol, stream in (("chat", False), ("chat", False), ("messages", True), ("responses", True)):
            through.post(protocol, stream=stream, metadata={"note": through.gateway.key})
        state = through.gateway.state().model_dump_json()
    written = written_below(tmp_path)
    assert "your key is [key]" in written, "the trace was written"
    for secret in (CANARY, through.gateway.key, through.gateway.role_key("claude")):
        assert secret not in written + state


def test_a_provider_that_fails_until_the_time_is_over_is_not_the_agents_fault(tmp_path: Path) -> None:
    patience = Patience(tries=200, first_wait_s=0.2, longest_wait_s=0.3, quiet_s=0.05)
    with (
        ScriptedUpstream([]) as upstream,
        # The start of the gateway's process is a part of it, which takes seconds on a busy machine.
        live(tmp_path, upstream, patience=patience, deadline=time.monotonic() + 6) as through,
    ):
        through.post("chat")
        assert "known-good" in (through.gateway.settle().error or "")
        assert through.gateway.state().error is not None


def test_an_answer_that_the_end_cuts_short_is_a_limit(tmp_path: Path) -> None:
    with (
        ScriptedUpstream([Reply(hang_s=4.0), GOOD]) as upstream,
        live(tmp_path, upstream, patience=Patience(), deadline=time.monotonic() + 2) as through,
    ):
        assert through.post("chat").json()["error"]["limit"] == "time_limit"
        assert through.gateway.settle().error is None, "a word is answered"
        assert (through.gateway.state().error, through.gateway.state().limit_hit) == (None, "time_limit")
