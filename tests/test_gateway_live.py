"""The live backend against a scripted upstream over real HTTP: retries, keys, limits, prices."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

import pytest

from bench.errors import UserError
from bench.gateway.backend import BackendError, Reply
from bench.gateway.live import LiveBackend, Patience
from bench.gateway.protocol import read_chat
from bench.gateway.server import open_gateway
from tests.gatewaykit import UNLIMITED, Client, Json, Scripted, Upstream, completion, ledger_lines, spec_in, user

QUICK = Patience(tries=3, first_wait_s=0.01, longest_wait_s=2.0, connect_s=2.0, answer_s=0.5)
KEY = "sk-upstream-secret-0123456789"
OVERLOADED = Scripted(503, {"error": {"message": "busy"}})


def ask(upstream: Upstream, patience: Patience = QUICK, left_s: float = 60.0, affordable: bool = True) -> Reply:
    backend = LiveBackend("openai/some-model", upstream.environment(), time.time() + left_s, patience)
    call = read_chat(json.dumps({"model": "bench-main", "messages": [user()]}).encode())
    try:
        return backend.complete(call, lambda: affordable)
    finally:
        backend.close()


def test_the_request_is_forwarded_with_the_real_model_and_a_cap() -> None:
    body: Json = {"model": "bench-main", "messages": [user()], "temperature": 0.5}
    body |= {"user": "me", "store": True, "seed": None}
    with Upstream([completion()]) as upstream:
        backend = LiveBackend("openai/some-model", upstream.environment(), time.time() + 60, QUICK)
        reply = backend.complete(read_chat(json.dumps(body).encode()), lambda: True)
        backend.close()
    ((headers, seen),) = upstream.requests
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert seen == {
        "path": "/v1/chat/completions", "model": "some-model", "messages": [user()], "temperature": 0.5,
        "max_completion_tokens": 4096,
    }  # fmt: skip
    assert (reply.message["content"], reply.model, reply.retries) == ("hello", "gpt-4o-mini-2024-07-18", 0)


def test_cached_input_is_taken_out_of_the_input() -> None:
    with Upstream([completion(prompt=1000, output=50, cached=640)]) as upstream:
        tokens = ask(upstream).tokens
    assert tokens is not None
    assert (tokens.input_uncached, tokens.cache_read, tokens.output, tokens.reasoning) == (360, 640, 50, 10)


@pytest.mark.parametrize(
    "usage",
    [None, {}, [], {"prompt_tokens": 5}, {"prompt_tokens": -1, "completion_tokens": 2},
     {"prompt_tokens": True, "completion_tokens": 2}, {"prompt_tokens": 1.5, "completion_tokens": 2},
     {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}}],
)  # fmt: skip
def test_usage_that_makes_no_sense_is_unknown(usage: object) -> None:
    with Upstream([completion(usage=usage)]) as upstream:
        assert ask(upstream).tokens is None


@pytest.mark.parametrize("fault", [Scripted(429, {}), OVERLOADED, Scripted(500, b"<html>"), Scripted(529, {})])
def test_passing_faults_are_tried_again(fault: Scripted) -> None:
    with Upstream([fault, fault, completion()]) as upstream:
        assert ask(upstream).retries == 2
    assert len(upstream.requests) == 3


@pytest.mark.parametrize(
    "fault",
    [Scripted(200, {"x": 1}), Scripted(200, b"["), Scripted(200, completion().body, hang_s=1.0),
     Scripted(200, completion().body, cut=True)],
)  # fmt: skip
def test_lost_answers_are_tried_again_only_while_affordable(fault: Scripted) -> None:
    with Upstream([fault, completion()]) as upstream:
        assert ask(upstream).retries == 1
    with Upstream([fault, completion()]) as upstream, pytest.raises(BackendError) as caught:
        ask(upstream, affordable=False)
    assert caught.value.infra
    assert len(upstream.requests) == 1


def test_retries_are_bounded_and_the_fault_is_the_providers() -> None:
    with Upstream([], always=OVERLOADED) as upstream, pytest.raises(BackendError) as caught:
        ask(upstream)
    assert len(upstream.requests) == 3
    assert (caught.value.status, caught.value.infra, caught.value.retries) == (502, True, 2)
    assert "503, after 3 tries" in str(caught.value)


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(form: str) -> None:
    wait = "1" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)
    with Upstream([Scripted(429, {}, {"Retry-After": wait}), completion()]) as upstream:
        start = time.monotonic()
        assert ask(upstream).retries == 1
        assert time.monotonic() - start > 0.9, "it waited although its own first wait is at most 10 ms"


def test_a_retry_after_beyond_all_patience_ends_the_call() -> None:
    with Upstream([Scripted(429, {}, {"Retry-After": "3600"})]) as upstream, pytest.raises(BackendError) as caught:
        ask(upstream)
    assert caught.value.infra
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_the_agent_asked_wrong_is_told_to_it(status: int) -> None:
    error = {"message": "maximum context length is 128000", "code": "context_length_exceeded"}
    fault = Scripted(status, {"error": error})
    with Upstream([fault]) as upstream, pytest.raises(BackendError, match="maximum context length") as caught:
        ask(upstream)
    assert (caught.value.status, caught.value.infra) == (status, False)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 301])
def test_faults_of_our_account_are_not_the_agents_and_not_repeated(status: int) -> None:
    fault = Scripted(status, {"error": {"message": f"bad key {KEY[:8]}...{KEY[-4:]} or {KEY}"}})
    with Upstream([fault]) as upstream, pytest.raises(BackendError) as caught:
        ask(upstream)
    assert caught.value.infra
    assert KEY not in str(caught.value)
    if status in (401, 403):
        assert KEY[-4:] not in str(caught.value), "not even the end of it, which providers like to show"
    assert len(upstream.requests) == 1


def test_an_empty_account_is_not_waited_for() -> None:
    fault = Scripted(429, {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}})
    with Upstream([fault, completion()]) as upstream, pytest.raises(BackendError, match="insufficient_quota"):
        ask(upstream)


def test_nobody_listening_is_not_billed() -> None:
    with Upstream([]) as upstream:
        environment = upstream.environment()
    lost: list[str] = []

    def note_loss() -> bool:
        lost.append("billed")
        return True

    backend = LiveBackend("openai/some-model", environment, time.time() + 60, QUICK)
    call = read_chat(json.dumps({"model": "m", "messages": [user()]}).encode())
    with pytest.raises(BackendError, match="cannot be reached"):
        backend.complete(call, note_loss)
    backend.close()
    assert not lost


def test_the_deadline_ends_a_call_under_way() -> None:
    patience = Patience(tries=5, first_wait_s=0.01, answer_s=30.0)
    with Upstream([], always=Scripted(200, completion().body, hang_s=3.0)) as upstream:
        start = time.monotonic()
        with pytest.raises(BackendError) as caught:
            ask(upstream, patience, left_s=0.4)
        assert time.monotonic() - start < 2
    assert (caught.value.limit, caught.value.infra) == ("time_limit", False)


def test_a_bad_address_is_a_user_error() -> None:
    with pytest.raises(UserError, match="OPENAI_BASE_URL"):
        LiveBackend("openai/m", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "localhost:8000"}, 0.0, QUICK)


@pytest.fixture
def priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A litellm of known prices: only its table is ever read."""
    package = tmp_path / "site" / "litellm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('litellm must not be imported')\n")
    entry = {
        "litellm_provider": "openai", "input_cost_per_token": 1e-6, "output_cost_per_token": 4e-6,
        "cache_read_input_token_cost": 1e-7,
    }  # fmt: skip
    table = package / "model_prices_and_context_window_backup.json"
    table.write_text(json.dumps({"sample_spec": {"mode": "chat"}, "some-model": entry}))
    info = tmp_path / "site" / "litellm-9.9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: litellm\nVersion: 9.9.9\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def live_spec(tmp_path: Path, **changes: object) -> Json:
    return {"models": {"main": "openai/some-model"}, "cassettes": None, **changes}


def set_environment(monkeypatch: pytest.MonkeyPatch, upstream: Upstream) -> None:
    for name, value in upstream.environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("priced")
def test_live_calls_through_the_gateway_are_priced_and_leave_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Upstream([OVERLOADED, completion(prompt=1000, output=50, cached=400), completion(usage=None)]) as upstream:
        set_environment(monkeypatch, upstream)
        with open_gateway(spec_in(tmp_path, **live_spec(tmp_path))) as gateway:
            client = Client(tmp_path / "g.sock", gateway.key)
            heard = client.chat(user())
            assert heard.body["model"] == "bench-main", "the agent does not learn the real name"
            (usage,) = gateway.usage()
            assert (usage.calls, usage.retries, usage.cost_status) == (1, 1, "exact")
            assert usage.cost_usd == pytest.approx((600 * 1 + 400 * 0.1 + 50 * 4) / 1e6)
            assert usage.price_version == "litellm 9.9.9"
            assert client.chat(user(), max_tokens=10).status == 200
    (usage,) = gateway.usage()
    assert usage.cost_status == "estimated"
    assert usage.tokens.input_uncached is None
    lines = ledger_lines(tmp_path / "calls.jsonl")
    assert [line["retries"] for line in lines] == [1, 0]
    assert lines[0]["answered_by"] == "gpt-4o-mini-2024-07-18"
    assert lines[1]["cost_usd"] > 40e-6, "charged with its worst case"
    assert KEY not in (tmp_path / "calls.jsonl").read_text()
    assert KEY not in json.dumps(heard.body)


@pytest.mark.usefixtures("priced")
def test_parallel_calls_cannot_spend_more_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = completion(prompt=100, output=1000)
    slow = Scripted(200, one.body, hang_s=0.1)
    limit = 0.02
    with Upstream([], always=slow) as upstream:
        set_environment(monkeypatch, upstream)
        with open_gateway(spec_in(tmp_path, **live_spec(tmp_path, max_calls=1000, max_cost_usd=limit))) as gateway:
            client = Client(tmp_path / "g.sock", gateway.key)
            with ThreadPoolExecutor(12) as pool:
                statuses = list(pool.map(lambda _: client.chat(user(), max_tokens=1000).status, range(24)))
    (usage,) = gateway.usage()
    assert usage.cost_usd is not None
    each = 100e-6 + 1000 * 4e-6
    assert usage.cost_usd <= limit
    assert usage.cost_usd == pytest.approx(statuses.count(200) * each)
    assert statuses.count(200) == int(limit / each) == len(upstream.requests)
    assert upstream.most_under_way <= limit / each
    assert gateway.limit_hit == "cost_limit"


@pytest.mark.usefixtures("priced")
def test_calls_under_way_count_as_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Upstream([], always=Scripted(200, completion().body, hang_s=0.1)) as upstream:
        set_environment(monkeypatch, upstream)
        with open_gateway(spec_in(tmp_path, **live_spec(tmp_path, max_calls=3))) as gateway:
            client = Client(tmp_path / "g.sock", gateway.key)
            with ThreadPoolExecutor(8) as pool:
                statuses = list(pool.map(lambda _: client.chat(user()).status, range(8)))
    assert sorted(statuses) == [200] * 3 + [402] * 5
    assert len(upstream.requests) == 3


@pytest.mark.usefixtures("priced")
def test_a_call_waits_for_what_others_may_give_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = Scripted(200, completion(prompt=10, output=1).body, hang_s=0.1)
    with Upstream([], always=cheap) as upstream:
        set_environment(monkeypatch, upstream)
        with open_gateway(spec_in(tmp_path, **live_spec(tmp_path, max_cost_usd=0.005))) as gateway:
            client = Client(tmp_path / "g.sock", gateway.key)
            with ThreadPoolExecutor(6) as pool:
                statuses = list(pool.map(lambda _: client.chat(user(), max_tokens=1000).status, range(6)))
        assert statuses == [200] * 6, "each worst case fills the limit, all real costs together do not"
        assert upstream.most_under_way == 1
    assert gateway.limit_hit is None


@pytest.mark.usefixtures("priced")
def test_a_call_under_way_at_the_end_is_charged_and_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Upstream([], always=Scripted(200, completion().body, hang_s=2.0)) as upstream:
        set_environment(monkeypatch, upstream)
        with open_gateway(spec_in(tmp_path, **live_spec(tmp_path))) as gateway:
            client = Client(tmp_path / "g.sock", gateway.key)
            heard: list[object] = []

            def ask_and_be_cut() -> None:
                try:
                    heard.append(client.chat(user(), max_tokens=1000))
                except OSError as error:
                    heard.append(error)

            asking = threading.Thread(target=ask_and_be_cut)
            asking.start()
            while not upstream.requests:
                time.sleep(0.01)
            start = time.monotonic()
        assert time.monotonic() - start < 1.5, "the end does not wait for the upstream"
        asking.join(10)
    (usage,) = gateway.usage()
    assert (usage.calls, usage.failed_calls, usage.cost_status) == (0, 1, "estimated")
    assert usage.cost_usd is not None
    assert usage.cost_usd > 1000 * 4e-6
    assert (gateway.error, gateway.limit_hit) == (None, None), "an ended cell is nobody's fault"
    assert [line["status"] for line in ledger_lines(tmp_path / "calls.jsonl")] == ["abandoned"]


@pytest.mark.usefixtures("priced")
def test_a_broken_upstream_is_an_infra_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Upstream([], always=Scripted(401, {"error": {"message": f"Incorrect API key: {KEY}"}})) as upstream:
        set_environment(monkeypatch, upstream)
        with open_gateway(spec_in(tmp_path, **live_spec(tmp_path))) as gateway:
            client = Client(tmp_path / "g.sock", gateway.key)
            assert client.chat(user()).code == "upstream_broken"
            assert gateway.error == "upstream_broken: the upstream answered 401"
            assert client.chat(user()).code == "gateway_fault"
    assert len(upstream.requests) == 1
    (usage,) = gateway.usage()
    assert (usage.calls, usage.failed_calls, usage.cost_status, usage.cost_usd) == (0, 1, "none", 0.0)


@pytest.mark.usefixtures("priced")
def test_an_unpriced_model_needs_the_limit_to_be_lifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Upstream([completion()]) as upstream:
        set_environment(monkeypatch, upstream)
        models = {"main": "openai/home-made"}
        with pytest.raises(UserError, match="no price"), open_gateway(spec_in(tmp_path, models=models)):
            pass
        assert not (tmp_path / "g.sock").exists()
        with open_gateway(spec_in(tmp_path, models=models, max_cost_usd=UNLIMITED)) as gateway:
            assert Client(tmp_path / "g.sock", gateway.key).chat(user()).status == 200
        (usage,) = gateway.usage()
        assert (usage.cost_usd, usage.cost_status, usage.tokens.output) == (None, "unknown", 50)
        assert ledger_lines(tmp_path / "calls.jsonl")[0]["cost_usd"] is None
