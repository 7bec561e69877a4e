"""Whether a provider is down is settled by requests of our own, which the run pays for."""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.base.errors import InfraError
from bench.formats.run_limits import RunLimits
from bench.gateway.atif import to_atif
from bench.gateway.backends import Response, TransportFault
from bench.gateway.backends.probe import Probe, Probed
from bench.gateway.backends.traffic import LastAnswer, Traffic
from bench.gateway.call_log import read_trace
from bench.gateway.config import RunBudgetConfig
from bench.gateway.json_values import Json
from bench.gateway.launch import open_gateway
from bench.gateway.request import Call, Dialect
from bench.gateway.run_budget import RunBudget
from tests.helpers.gateway import spec_in, turn, write_cassette
from tests.helpers.gateway_live import QUICK, asked_by_agent, live
from tests.helpers.lost_ways import is_probe, poisoned
from tests.helpers.provider import Reply, ScriptedUpstream, Usage

PROTOCOLS: list[Dialect] = ["chat", "responses", "messages"]
POISON = [{"role": "user", "content": "poison"}]


def poison(protocol: str) -> dict[str, Any]:
    return {"input" if protocol == "responses" else "messages": POISON}


@pytest.mark.parametrize("status", [401, 402, 403, 404, 429, 500, 503])
def test_what_only_the_agents_request_meets_is_an_answer(tmp_path: Path, status: int) -> None:
    script = poisoned(Reply(status=status, error="no such thing"))
    with ScriptedUpstream(script) as upstream, live(tmp_path, upstream) as through:
        for protocol in PROTOCOLS:
            told = through.post(protocol, **poison(protocol))
            assert told.status_code == status
            assert isinstance(told.json()["error"]["message"], str)
            assert (told.json().get("type") == "error") == (protocol == "messages")
            assert told.headers["x-should-retry"] == "false", "it was repeated here"
            assert through.gateway.state().error is None
            assert through.post(protocol).status_code == 200, "the cell goes on"
        assert through.gateway.settle().error is None


def test_a_probe_is_paid_by_the_run_and_is_not_the_cells(tmp_path: Path) -> None:
    limits = RunLimits(cost_usd=1.0)
    budget = RunBudgetConfig(path=tmp_path / "budget.json", limits=limits)
    script = poisoned(Reply(status=404))
    with ScriptedUpstream(script) as upstream, live(tmp_path, upstream, run_budget=budget) as through:
        through.post("chat", **poison("chat"))
    (usage, _) = through.gateway.state().usage
    assert (usage.calls, usage.failed_calls, usage.cost_usd, usage.tokens.output) == (0, 1, 0.0, 0)
    left = RunBudget(tmp_path / "budget.json", limits).balance()
    assert left.spent_usd == pytest.approx(upstream.usage_totals.cost_usd)
    assert left.calls == 0
    assert left.held_usd == pytest.approx(0.0, abs=1e-12)
    assert left.spent_usd > 0
    (probe,) = [line for line in through.lines if line["status"] == "probe"]
    assert (probe["code"], probe["cost_usd"]) == ("ok", pytest.approx(left.spent_usd))
    said = str(to_atif(read_trace(tmp_path / "calls.jsonl"), "a", "s"))
    assert "probe" not in said, "the trajectory is the agent's"


def test_a_run_without_money_does_not_probe_and_loses_no_cell(tmp_path: Path) -> None:
    budget = RunBudgetConfig(path=tmp_path / "budget.json", limits=RunLimits(cost_usd=0.00055))
    with ScriptedUpstream(lambda body, _: Reply(status=404)) as upstream:
        with live(tmp_path, upstream, run_budget=budget) as through:
            assert through.post("chat", max_tokens=1).status_code == 404
            assert through.gateway.settle().error is None
        assert not [seen for seen in upstream.requests if is_probe(seen.body)]


def test_one_probe_at_a_time_and_a_few_in_all(tmp_path: Path) -> None:
    def script(body: dict[str, Any], protocol: str) -> Reply:
        if not is_probe(body):
            return Reply(status=404)
        with lock:
            under_way.append(time.monotonic())
        return Reply("OK", hang_s=0.05)

    lock, under_way = threading.Lock(), list[float]()
    patience = QUICK.model_copy(update={"probes": 3})
    with ScriptedUpstream(script) as upstream, live(tmp_path, upstream, patience=patience) as through:
        with ThreadPoolExecutor(8) as agents:
            statuses = list(agents.map(lambda _: through.post("chat").status_code, range(30)))
        assert set(statuses) == {404}
        assert 1 <= len(under_way) <= 3
        assert all(later - earlier > 0.04 for earlier, later in itertools.pairwise(under_way))


def test_a_rate_that_the_cell_itself_uses_up_is_no_outage(tmp_path: Path) -> None:
    """A provider that refuses whatever comes within a moment of the agent's own calls."""
    last = [0.0]

    def script(body: dict[str, Any], protocol: str) -> Reply:
        if is_probe(body):
            return Reply(status=429) if time.monotonic() - last[0] < 0.3 else Reply("OK")
        last[0] = time.monotonic()
        return Reply(status=429)

    patience = QUICK.model_copy(update={"quiet_s": 0.5})
    with ScriptedUpstream(script) as upstream, live(tmp_path, upstream, patience=patience) as through:
        with ThreadPoolExecutor(4) as agents:
            assert set(agents.map(lambda _: through.post("chat").status_code, range(8))) == {429}
        assert through.gateway.settle().error is None


def test_another_cell_that_is_answered_shows_that_the_provider_works(tmp_path: Path) -> None:
    """Cells of one run share a rate: one that is crowded out by the others has not met an outage."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    crowded = threading.Event()

    def script(body: dict[str, Any], protocol: str) -> Reply:
        return Reply("OK") if "other" in str(body) else Reply(status=429)

    shared = {"answered": tmp_path / "answered", "patience": QUICK.model_copy(update={"quiet_s": 1.0})}
    with (
        ScriptedUpstream(script) as upstream,
        live(tmp_path / "a", upstream, **shared) as one,
        live(tmp_path / "b", upstream, **shared) as other,
        ThreadPoolExecutor(1) as pool,
    ):

        def crowd() -> None:
            while not crowded.is_set():
                said = [{"role": "user", "content": "other"}]
                assert other.post("chat", messages=said).status_code == 200

        crowding = pool.submit(crowd)
        assert one.post("chat").status_code == 429
        assert one.gateway.settle().error is None
        crowded.set()
        crowding.result()
    with (
        ScriptedUpstream(lambda body, _: Reply(status=429)) as upstream,
        live(tmp_path / "b", upstream, **{**shared, "answered": tmp_path / "new"}) as alone,
    ):
        assert alone.post("chat").status_code == 502
        assert "429" in (alone.gateway.state().error or "")


def _account(calls: int, refusal: Reply) -> Any:
    """An account that is good for so many calls, whoever makes them, over all models."""
    left = itertools.count(calls, -1)
    return lambda body, protocol: Reply("OK") if next(left) > 0 else refusal


@pytest.mark.parametrize(
    "refusal",
    [
        Reply(status=429, error="insufficient_quota"),
        Reply(status=429),
        Reply(status=402),
        Reply(status=400, error="Your credit balance is too low"),
        Reply(status=400, error="You have reached your specified API usage limits. You will regain access soon."),
    ],
    ids=["quota", "rate", "payment", "credit", "own limit"],
)
def test_an_account_that_the_cell_has_used_of_is_told_from_an_outage(tmp_path: Path, refusal: Reply) -> None:
    """An agent can use it up at will; so who has is found out by the runner, which knows the others."""
    with ScriptedUpstream(_account(2, refusal)) as upstream, live(tmp_path, upstream) as through:
        assert [through.post("chat").status_code for _ in range(3)] == [200, 200, 502]
        code = "upstream_rate_used_up: " if refusal == Reply(status=429) else "upstream_used_up: "
        assert str(through.gateway.state().error).startswith(code)


@pytest.mark.parametrize("status", [429, 402])
def test_an_account_that_was_empty_before_is_an_outage(tmp_path: Path, status: int) -> None:
    with ScriptedUpstream(_account(0, Reply(status=status))) as upstream, live(tmp_path, upstream) as through:
        assert through.post("chat").status_code == 502
        assert str(through.gateway.state().error).startswith("upstream_broken: ")


@pytest.mark.parametrize("answered", [0, 1])
@pytest.mark.parametrize(
    "said",
    [
        "API key not valid. Please pass a valid API key.",
        "API key expired. Please renew the API key.",
        "This organization has been disabled.",
        "User location is not supported for the API use.",
    ],
)
def test_an_account_that_is_refused_as_a_wrong_request_would_be_is_an_outage(
    tmp_path: Path, said: str, answered: int
) -> None:
    """By the status 400, with which an agent's own mistakes are answered, too."""
    account = _account(answered, Reply(status=400, error=said))
    with ScriptedUpstream(account) as upstream, live(tmp_path, upstream) as through:
        assert [through.post("chat").status_code for _ in range(answered + 1)] == [200] * answered + [502]
        assert str(through.gateway.state().error).startswith("upstream_broken: ")


def test_an_account_is_not_refused_by_what_an_agent_has_echoed(tmp_path: Path) -> None:
    def script(body: dict[str, Any], spoken: str) -> Reply:
        return Reply(status=400, error="what is API key not valid?") if "hello" in str(body) else Reply("OK")

    with ScriptedUpstream(script) as upstream, live(tmp_path, upstream) as through:
        assert through.post("chat").status_code == 400
        assert through.gateway.state().error is None


def test_a_provider_that_breaks_after_its_answers_is_an_outage(tmp_path: Path) -> None:
    with ScriptedUpstream(_account(1, Reply(status=503))) as upstream, live(tmp_path, upstream) as through:
        assert [through.post("chat").status_code for _ in range(2)] == [200, 502]
        assert str(through.gateway.state().error).startswith("upstream_broken: ")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_that_worked_and_fails_is_an_outage(tmp_path: Path, protocol: str) -> None:
    """What never worked may not be offered; what did is broken, even where another protocol still works."""
    down = threading.Event()

    def script(body: dict[str, Any], spoken: str) -> Reply:
        return Reply(status=500) if spoken == protocol and down.is_set() else Reply("OK")

    with ScriptedUpstream(script) as upstream, live(tmp_path, upstream) as through:
        assert through.post(protocol).status_code == 200
        down.set()
        assert through.post(protocol).status_code == 502
        assert through.gateway.state().error is not None


def test_a_client_that_leaves_a_stream_is_not_a_fault(tmp_path: Path) -> None:
    long = Reply("word " * 20_000, usage=Usage(10, 10))
    with ScriptedUpstream(lambda body, _: Reply("OK") if is_probe(body) else long) as upstream:
        with live(tmp_path, upstream) as through:
            asked = {"model": "bench-main", "messages": POISON, "stream": True}
            url = f"{through.url}/v1/chat/completions"
            with httpx.stream("POST", url, json=asked, headers=through.headers, timeout=60) as stream:
                next(stream.iter_bytes())
            assert through.gateway.settle().error is None
        assert len(asked_by_agent(upstream)) == 1


def test_a_busy_gateway_is_not_a_broken_one(tmp_path: Path) -> None:
    """An agent can keep it busy at will: what counts is whether its process lives."""
    part = b'{"type":"text","text":""}'
    many = b'{"model":"bench-main","messages":[{"role":"user","content":[' + b",".join([part] * 200_000) + b"]}]}"
    with ScriptedUpstream(lambda body, _: Reply("OK")) as upstream, live(tmp_path, upstream) as through:

        def flood(_: int) -> int:
            url = f"{through.url}/v1/chat/completions"
            return httpx.post(url, content=many, headers=through.headers, timeout=300).status_code

        with ThreadPoolExecutor(3) as agents:
            floods = agents.map(flood, range(3))
            for _ in range(20):
                assert not through.gateway.should_stop()
                time.sleep(0.05)
            assert set(floods) <= {200, 402, 400, 413}
        assert through.gateway.state().error is None


def test_a_cassette_for_another_task_is_found_before_the_agent_begins(tmp_path: Path) -> None:
    write_cassette(tmp_path / "cassettes", [turn("hello")])
    stale = open_gateway(spec_in(tmp_path, task_sha256="0" * 64))
    with pytest.raises(InfraError, match="made for another task") as caught, stale:
        pass
    assert caught.value.cause == "cassette_miss"


@pytest.mark.parametrize("busy", [True, False])
def test_a_probe_that_this_process_was_too_busy_for_says_nothing(busy: bool) -> None:
    def send() -> None:
        time.sleep(0.05)  # as a request of the agent's that takes long to read
        raise TransportFault("unreachable", "nothing was heard", billed=False)

    assert _is_outage(send, late_s=0.01 if busy else QUICK.late_s) is not busy


@pytest.mark.parametrize(
    ("lacking", "ours"),
    [
        (MemoryError(), True),
        (OSError(errno.EMFILE, "Too many open files"), True),
        (OSError(errno.ECONNREFUSED, "Connection refused"), False),
        (ValueError("an answer that no client reads"), False),
    ],
)
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_probe_for_which_this_process_had_no_room_says_nothing(lacking: Exception, ours: bool, wrapped: bool) -> None:
    def send() -> None:
        if not wrapped:
            raise lacking
        try:
            raise lacking
        except Exception:
            raise TransportFault("unreachable", "nothing was heard", billed=False) from None

    assert _is_outage(send) is not ours


@pytest.mark.parametrize(("times", "proven"), [(0, True), (2, True), (100, False)])
def test_a_last_probe_for_which_this_process_had_no_room_is_sent_again(times: int, proven: bool) -> None:
    sent = itertools.count()

    def send() -> None:
        if next(sent) < times:
            raise MemoryError
        raise TransportFault("unreachable", "nothing was heard", billed=False)

    assert _is_outage(send, final=True) is proven
    # An outage is believed at its second probe.
    assert next(sent) == (times + 2 if proven else 3)


def _is_outage(send: Callable[[], None], late_s: float = QUICK.late_s, *, final: bool = False) -> bool:
    """What is found where each request to the provider fails as `send` does."""

    class Sender:
        async def send(self, call: Call, body: Json, timeout_s: float) -> Response:
            send()
            raise AssertionError("it has to fail")

    class Account:
        def hold(self) -> bool:
            return True

        def settle(self, probed: Probed) -> None:
            assert not probed.ok

    patience = QUICK.model_copy(update={"late_s": late_s})
    probe = Probe("m", PROTOCOLS[:1], Sender(), patience, Account(), Traffic(), LastAnswer(None), str)
    asked = probe.settle_finally("chat", False) if final else probe.settle("chat", False, math.inf)
    verdict = asyncio.run(asked)
    assert not verdict.works
    return bool(verdict.outage)
