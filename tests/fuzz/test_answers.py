"""Whatever a provider answers, the agent gets an answer or one clear fault, and what was used is on record."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.gateway.answers import read_answer
from bench.gateway.backends import Response, TransportFault
from bench.gateway.backends.google_translation import as_google
from bench.gateway.backends.live import retry_after
from bench.gateway.prices import Prices, Rates
from bench.gateway.request import Call
from bench.gateway.streams import StreamLost
from bench.gateway.usage import Rule, normalise
from tests.helpers.fuzz import FRAGMENTS, Tally, as_json, damaged, fuzzed, json_bytes
from tests.helpers.fuzz_answers import ANSWERS
from tests.helpers.fuzz_gateway import Rig, answer, post, responses
from tests.helpers.fuzz_requests import BODIES, GENERATE_ROUTE, STREAM_ROUTE
from tests.helpers.usage_fixtures import FIXTURES

EVENTS: dict[str, list[Any]] = {
    "/chat/completions": [
        {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "x"}}],
        "usage": None},
        {"choices": [{"index": 0, "delta": {"reasoning_content": "y", "tool_calls": [
            {"index": 0, "id": "1", "function": {"name": "run", "arguments": "{"}}]}}]},
        {"choices": [{"index": 1, "delta": {"content": "z"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}, "[DONE]"],
    "/responses": [
        {"type": "response.created", "response": {"id": "r1", "model": "m"}},
        {"type": "response.output_text.delta", "delta": "x"},
        {"type": "response.completed", "response": ANSWERS["/responses"]}],
    "/messages": [
        {"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {"input_tokens": 3,
        "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "1", "name": "r",
        "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"}],
    GENERATE_ROUTE: [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "x"}]}}], "modelVersion": "m"},
        {"candidates": [{"content": {"parts": [{"text": "t", "thought": True}, {"functionCall": {"name": "run"}}]}}]},
        ANSWERS[GENERATE_ROUTE]],
}  # fmt: skip
_STATUSES = [
    b"200 OK",
    b"200 OK",
    b"200 OK",
    b"400 Bad",
    b"401 No",
    b"413 Large",
    b"418 x",
    b"429 Slow",
    b"503 Gone",
    b"204 x",
]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, record=True)
    yield made
    made.close()


def judge(rig: Rig, route: str, said: bytes, tally: Tally, *, stream: bool = False) -> None:
    """Ask once of an upstream that says `said`, in a cell of its own."""
    rig.upstream.answer = said
    google = route == GENERATE_ROUTE
    body = as_json({**BODIES[route], "stream": stream} if route in EVENTS and not google else BODIES[route])
    route = STREAM_ROUTE if google and stream else route
    with tally.example(), contextlib.ExitStack() as stack:
        stack.callback(rig.renew)
        heard = list(responses(rig.ask(post(route, body))))
        assert len(heard) <= 1
        for status, content, whole in heard:
            assert status == 200 or 400 <= status < 600, (status, content[:300])
            assert whole or stream or b"event-stream" in said
        (line,) = rig.new_lines()
        tally.refused += line.status != "ok"
        assert rig.state().usage
        assert not rig.unseen, rig.unseen


def with_status(bodies: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(answer, bodies, st.just(b"application/json"), st.sampled_from(_STATUSES))


ANSWER_TRAPS = [
    {"choices": 5}, {"choices": [{"message": {"content": "@@half@@"}}], "usage": {"prompt_tokens": 10**400,
    "completion_tokens": 1}},
    {"choices": [{"message": {"content": "@@deeper@@"}}]}, {"choices": [{"message": {"a": "@@nan@@"}}],
    "usage": "@@deep@@"},
    {"choices": [{"message": {}}], "usage": {"a": "@@half@@"}}, {"error": {"message": "@@half@@"}},
    {"choices": [{"message": {"content": "@@deep@@"}}]},
    {"choices": [{"message": {}, "finish_reason": "@@half@@"}], "model": "@@half@@", "id": "@@long@@"},
    {"choices": "@@open@@"},
    {"output": [{"type": "message", "content": 5}, {"type": "reasoning", "summary": 5}]}, {"content": "@@deep@@"},
    {"output": [{"type": "x_call", "arguments": "@@deep@@"}], "id": "@@long@@"},
    {"content": [{"type": "tool_use", "input": "@@deep@@"}], "usage": {"input_tokens": 10**300, "output_tokens": 1}},
    {"content": [{"type": "text", "text": "@"}]}, {"choices": [{"message": {"content": "a\u2028b\x85c"}}]},
]  # fmt: skip


def with_traps(test: Any) -> Any:
    for trap in ANSWER_TRAPS:
        for status in (b"200 OK", b"400 Bad", b"503 Gone"):
            test = example(answer(as_json(trap), status=status))(test)
    return test


@fuzzed
@given(with_status(json_bytes(ANSWERS["/chat/completions"])))
@with_traps
def test_chat_completions(rig: Rig, tally: Tally, said: bytes) -> None:
    judge(rig, "/chat/completions", said, tally)


@fuzzed
@given(with_status(json_bytes(ANSWERS["/responses"])))
@with_traps
def test_responses(rig: Rig, tally: Tally, said: bytes) -> None:
    judge(rig, "/responses", said, tally)


@fuzzed
@given(with_status(json_bytes(ANSWERS["/messages"])))
@with_traps
def test_messages(rig: Rig, tally: Tally, said: bytes) -> None:
    judge(rig, "/messages", said, tally)


@fuzzed
@given(st.sampled_from(["/messages/count_tokens", "/embeddings"]), st.data())
def test_counts_and_embeddings(rig: Rig, tally: Tally, route: str, data: st.DataObject) -> None:
    judge(rig, route, data.draw(with_status(json_bytes(ANSWERS[route]))), tally)


# --- streams ---------------------------------------------------------------------------------------------------------


def as_events(events: list[bytes], end: bytes = b"\n\n") -> bytes:
    return b"".join(b"data: " + event + end for event in events)


@st.composite
def streams(draw: st.DrawFn, route: str) -> bytes:
    """The events of a stream, some of them changed, left out, doubled or damaged."""
    events = [as_json(event) if event != "[DONE]" else b"[DONE]" for event in EVENTS[route]]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(events) - 1))
        kind = draw(st.sampled_from(["change", "change", "change", "drop", "double", "swap", "fragment"]))
        if kind == "change":
            events[at] = draw(json_bytes(EVENTS[route][min(at, len(EVENTS[route]) - 1)]))
        elif kind == "drop" and len(events) > 1:
            del events[at]
        elif kind == "double":
            events.insert(at, events[at])
        elif kind == "swap":
            events.insert(at, events.pop())
        elif kind == "fragment":
            events[at] = FRAGMENTS[draw(st.integers(0, len(FRAGMENTS) - 1))]
    text = as_events(events, draw(st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n", b"\n\nevent: x\n", b"\n: x\n\n"])))
    return answer(draw(damaged(st.just(text))) if draw(st.integers(0, 4)) == 0 else text, b"text/event-stream")


def stream_traps(*traps: Any) -> Callable[[Any], Any]:
    def add(test: Any) -> Any:
        for trap in traps:
            test = example(answer(as_events([as_json(trap), b"[DONE]"]), b"text/event-stream"))(test)
        return test

    return add


@fuzzed
@given(streams("/chat/completions"))
@stream_traps(
    {"choices": 5}, {"choices": [{"delta": {"tool_calls": 5}, "finish_reason": "stop"}]}, {"usage": "@@deep@@",
    "choices": []},
    {"choices": [{"delta": {"content": "@@half@@"}, "finish_reason": "@@half@@"}], "model": "@@deep@@",
    "usage": {"a": "@@half@@"}},
    {"choices": [{"delta": {"tool_calls": [{"index": 10**400, "id": {}, "function": {"name": [],
    "arguments": "@@deep@@"}}]}}]},
)  # fmt: skip
def test_a_stream_of_chat(rig: Rig, tally: Tally, said: bytes) -> None:
    judge(rig, "/chat/completions", said, tally, stream=True)


@fuzzed
@given(streams("/responses"))
@stream_traps(
    {"type": "response.completed", "response": {"output": [{"type": "message", "content": 5}]}},
    {
        "type": "response.completed",
        "response": {"output": [{"type": "reasoning", "summary": True}], "usage": "@@deeper@@"},
    },
    {"type": [], "response": {"id": {}}, "delta": "@@half@@"},
)
def test_a_stream_of_responses(rig: Rig, tally: Tally, said: bytes) -> None:
    judge(rig, "/responses", said, tally, stream=True)


@fuzzed
@given(streams("/messages"))
@stream_traps(
    {"type": "content_block_start", "index": 0, "content_block": {"grows": ["x"]}},
    {"type": "message_start", "message": {"usage": {"a": "@@deep@@"}, "model": [], "id": "@@half@@"}},
    {"type": "content_block_delta", "index": True, "delta": {"text": "@@half@@", "thinking": 5}},
    {
        "type": {},
        "index": -1,
        "delta": {"partial_json": "x"},
        "content_block": {"type": "tool_use", "input": "@@deep@@"},
    },
)
def test_a_stream_of_messages(rig: Rig, tally: Tally, said: bytes) -> None:
    judge(rig, "/messages", said, tally, stream=True)


@fuzzed
@given(with_status(json_bytes(ANSWERS[GENERATE_ROUTE])))
@with_traps
@example(answer(as_json({"candidates": 5, "promptFeedback": {"blockReason": ["x"]}})))
@example(answer(as_json({"candidates": [{"content": {"parts": [{"functionCall": {"args": "@@deep@@"}}]}}]})))
@example(answer(as_json({"candidates": [{"index": {}, "finishReason": "@@half@@"}], "usageMetadata": "@@deep@@"})))
def test_generate_content(rig: Rig, tally: Tally, said: bytes) -> None:
    judge(rig, GENERATE_ROUTE, said, tally)


@fuzzed
@given(streams(GENERATE_ROUTE))
@stream_traps(
    {"candidates": [{"index": {}, "finishReason": {}, "content": {"parts": [{"text": "@@half@@"}, 5]}}]},
    {"candidates": "@@deep@@", "usageMetadata": {"promptTokenCount": "@@deeper@@"}, "modelVersion": []},
    {"promptFeedback": {"blockReason": {}}, "usageMetadata": 5, "responseId": "@@half@@"},
    {"candidates": [{"content": {"parts": [{"functionCall": {"id": [], "name": {}, "args": "@@deep@@"}}]}}]},
)
def test_a_stream_of_google(rig: Rig, tally: Tally, said: bytes) -> None:
    judge(rig, GENERATE_ROUTE, said, tally, stream=True)


_ASKED = Call("generate", {"contents": []}, 1, "", "m", {})


@fuzzed
@given(st.sampled_from([200, 400, 503]), json_bytes(ANSWERS["/chat/completions"]))
@example(200, as_json({"choices": [{"message": {"tool_calls": [{"function": {"arguments": "@@deep@@"}}]}}]}))
@example(400, as_json({"error": "@@deep@@"}))
def test_a_translated_answer_is_googles_or_a_fault(tally: Tally, status: int, said: bytes) -> None:
    with tally.example(TransportFault):
        made = asyncio.run(as_google(_ASKED, Response(status, [], said), "openai"))
        found = json.loads(made.content)
        assert (made.status, "error" in found) == (status, status != 200)
        assert status != 200 or read_answer("generate", made.content) is not None


@fuzzed
@given(streams("/chat/completions"))
def test_a_translated_stream_is_googles_or_a_fault(tally: Tally, said: bytes) -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield said.partition(b"\r\n\r\n")[2]

    async def read() -> list[bytes]:
        made = await as_google(_ASKED, Response(200, [], chunks=pieces()), "openai")
        assert made.chunks is not None
        return [chunk async for chunk in made.chunks]

    with tally.example(TransportFault, StreamLost):
        for chunk in asyncio.run(read()):
            assert isinstance(json.loads(chunk.removeprefix(b"data: "))["candidates"], list)


# --- HTTP and headers ------------------------------------------------------------------------------------------------

_BODY = as_json(ANSWERS["/chat/completions"])
_HEADERS = [
    b"Content-Length: 5", b"Content-Length: 999", b"Content-Length: -1", b"Content-Encoding: gzip",
    b"Retry-After: \xe9",
    b"Transfer-Encoding: chunked", b"X: \xe9\xff", b"Content-Type: text/event-stream", b"Retry-After: Mon, 99",
    b"Upgrade: x",
    b"Connection: upgrade", b"Set-Cookie: x", b"X: " + b"y" * 9000, b": x",
    b"Retry-After: 1 Jan 99999999999 00:00:00 +0000",
]  # fmt: skip


@st.composite
def raw_answers(draw: st.DrawFn) -> bytes:
    start = draw(
        st.sampled_from([b"HTTP/1.1 " + status for status in _STATUSES] + [b"HTTP/1.1 101 x", b"HTTP/1.1 100 x", b"x"])
    )
    headers = b"".join(b"\r\n" + line for line in draw(st.lists(st.sampled_from(_HEADERS), max_size=3)))
    whole = (
        start
        + headers
        + b"\r\n\r\n"
        + draw(st.sampled_from([_BODY, b"", b"5\r\nhello\r\n0\r\n\r\n", b"\x1f\x8b\x08\x00"]))
    )
    return draw(damaged(st.just(whole))) if draw(st.booleans()) else whole


@fuzzed
@given(raw_answers() | st.binary())
@example(b"HTTP/1.1 200 OK\r\nX: \xe9\r\nConnection: close\r\n\r\n" + _BODY)
@example(b"HTTP/1.1 101 Switching\r\n\r\n" + _BODY)
@example(b"HTTP/1.1 429 x\r\nRetry-After: 1 Jan 99999999999 00:00:00 +0000\r\nConnection: close\r\n\r\n" + _BODY)
def test_what_answers_in_http_or_does_not(rig: Rig, tally: Tally, said: bytes) -> None:
    judge(rig, "/chat/completions", said, tally)


@fuzzed
@given(
    st.one_of(
        st.text(max_size=30),
        st.from_regex(r"\A(Mon, )?\d{1,12} (Jan|Feb) \d{1,12} \d\d:\d\d:\d\d ([+-]\d{4}|GMT|-0000)?\Z"),
        st.floats().map(str),
    ),
    st.text(max_size=10),
)
@example("1 Jan 99999999999 00:00:00 +0000", "")
@example("1 Jan 0001 00:00:00 -0000", "")
def test_the_wait_that_is_asked_for(tally: Tally, value: str, exact: str) -> None:
    with tally.example():
        wait = retry_after({"retry-after": value, "retry-after-ms": exact})
        assert wait is None or wait >= 0


# --- usage -----------------------------------------------------------------------------------------------------------

_PRICES = Prices(Rates(1e-6, 2e-6, 1e-7, 1e-6, 2e-6), "test")


@fuzzed
@given(json_bytes(*(it[2] for it in FIXTURES)))
@example(as_json({"prompt_tokens": 10**400, "completion_tokens": 1, "input_tokens": 10**400, "output_tokens": 1}))
@example(as_json({"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10**300}))
def test_usage_of_each_provider(tally: Tally, content: bytes) -> None:
    try:
        usage = json.loads(content)
    except (ValueError, RecursionError):
        usage = content.decode("utf-8", "replace")
    known = 0
    with tally.example():
        for rule in get_args(Rule):
            tokens = normalise(rule, usage)
            if tokens is not None:
                known += 1
                assert 0 <= _PRICES.cost(tokens) < 1e9
                assert json.loads(tokens.model_dump_json())["output"] == tokens.output
    tally.refused += not known
