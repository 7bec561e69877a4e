"""Whatever an agent sends to the gateway is answered, by the model or by one clear refusal; the run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.gateway.backends.google_translation import as_chat
from bench.gateway.google import find_target, parts_of
from bench.gateway.policy import apply_policy
from bench.gateway.request import ROUTES, RequestRefused, read_call
from tests.helpers.fuzz import Tally, as_json, damaged, fuzzed, json_bytes
from tests.helpers.fuzz_gateway import Rig, answer, post, responses
from tests.helpers.fuzz_requests import (
    _TOOL,
    BODIES,
    CHAT,
    COUNT_ROUTE,
    EMBEDDINGS,
    GENERATE,
    GENERATE_ROUTE,
    MESSAGES,
    RESPONSES,
)  # fmt: skip

_USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "input_tokens": 3, "output_tokens": 2}
_WHOLE = {
    "/chat/completions": {"id": "1", "choices": [{"message": {"role": "assistant", "content": "x"}}], "usage": _USAGE},
    "/responses": {"id": "1", "output": [], "usage": _USAGE},
    "/messages": {"id": "1", "content": [], "usage": _USAGE},
    "/messages/count_tokens": {"input_tokens": 3},
    "/embeddings": {"data": [], "usage": {"prompt_tokens": 3}},
    GENERATE_ROUTE: {"candidates": [], "usageMetadata": {"promptTokenCount": 3}},
    COUNT_ROUTE: {"totalTokens": 3},
}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


def check_answers(rig: Rig, said: bytes, tally: Tally) -> None:
    """Each answer is whole and of a kind that tells the agent what is wrong; the run goes on."""
    refused = False
    for status, body, whole in responses(said):
        assert whole, (status, body[:300])
        assert status in (200, 501) or 400 <= status < 500, (status, body[:300])
        if status != 200:
            refused = True
            assert isinstance(json.loads(body)["error"]["message"], str)
    tally.refused += refused
    fault, unseen = rig.state().error, list(rig.unseen)
    if fault or unseen:
        rig.renew()
    assert (fault, unseen) == (None, [])


def ask(rig: Rig, route: str, body: bytes, tally: Tally) -> None:
    rig.upstream.answer = answer(json.dumps(_WHOLE[route]).encode())
    with tally.example():
        said = rig.ask(post(route, body))
        assert len(list(responses(said))) == 1
        check_answers(rig, said, tally)


BODY_TRAPS: list[bytes] = [
    as_json({**CHAT, "stream_options": 5}), as_json({**CHAT, "stream_options": [1]}),
    as_json({**CHAT, "service_tier": []}), as_json({**CHAT, "tools": [{"type": {}}, _TOOL]}),
    as_json({**CHAT, "messages": [{"role": "user", "content": "@@half@@"}]}),
    as_json({**CHAT, "messages": [{"role": "user", "content": "@"}]}).replace(b"@", b"\xed\xa0\x80"),
    json.dumps(CHAT).encode("utf-16"), b"\xef\xbb\xbf" + as_json(CHAT), b"[" * 100_000, b'{"a":' * 100_000, b"",
    b"null",
    as_json({**CHAT, "seed": "@@digits@@"}), as_json({**CHAT, "top_p": "@@overflow@@"}), as_json({**CHAT, "stream": 0}),
    as_json({**CHAT, "messages": "@@deep@@"}), as_json({**CHAT, "model": "bench-\u2028"}), as_json({**CHAT,
    "n": 10**30}),
    as_json({**CHAT, "tools": [{"type": "\ud800"}, _TOOL]}),
]  # fmt: skip


def with_traps(test: Any) -> Any:
    for trap in BODY_TRAPS:
        test = example(trap)(test)
    return test


@fuzzed
@given(json_bytes(CHAT, {**CHAT, "stream": False}))
@with_traps
def test_chat_completions(rig: Rig, tally: Tally, body: bytes) -> None:
    ask(rig, "/chat/completions", body, tally)


@fuzzed
@given(json_bytes(RESPONSES))
@example(as_json({**RESPONSES, "previous_response_id": []}))
@example(as_json({**RESPONSES, "tool_choice": {"type": []}, "tools": [{"type": "web_search"}, {"type": "function"}]}))
@with_traps
def test_responses(rig: Rig, tally: Tally, body: bytes) -> None:
    ask(rig, "/responses", body, tally)


@fuzzed
@given(json_bytes(MESSAGES, {**MESSAGES, "stream": False}))
@with_traps
def test_messages(rig: Rig, tally: Tally, body: bytes) -> None:
    ask(rig, "/messages", body, tally)


@fuzzed
@given(json_bytes(MESSAGES))
def test_count_tokens(rig: Rig, tally: Tally, body: bytes) -> None:
    ask(rig, "/messages/count_tokens", body, tally)


@fuzzed
@given(json_bytes(EMBEDDINGS))
@with_traps
def test_embeddings(rig: Rig, tally: Tally, body: bytes) -> None:
    ask(rig, "/embeddings", body, tally)


GOOGLE_TRAPS: list[bytes] = [
    as_json({**GENERATE, "contents": "@@deep@@"}), as_json({**GENERATE, "contents": {"parts": {"text": "x"}}}),
    as_json({**GENERATE, "contents": ["x", 5]}), as_json({**GENERATE, "tools": ["x"]}),
    as_json({**GENERATE, "tools": [{"google_search": {}, "functionDeclarations": []}, 5]}),
    as_json({**GENERATE, "toolConfig": [1]}), as_json({"generateContentRequest": [GENERATE]}),
    as_json({**GENERATE, "generationConfig": {"thinkingConfig": 5}}),
    as_json({**GENERATE, "generateContentRequest": {"generateContentRequest": "@@deep@@", "tools": 5}}),
    as_json({"contents": [{"parts": [{"functionResponse": {"parts": "@@deep@@"}}]}]}),
    as_json({**GENERATE, "systemInstruction": "x"}), as_json({**GENERATE, "_": 1, "__": 2, "a__b": 3}),
]  # fmt: skip


def with_google_traps(test: Any) -> Any:
    for trap in GOOGLE_TRAPS:
        test = example(trap)(test)
    return with_traps(test)


@fuzzed
@given(json_bytes(GENERATE))
@with_google_traps
def test_generate_content(rig: Rig, tally: Tally, body: bytes) -> None:
    ask(rig, GENERATE_ROUTE, body, tally)


@fuzzed
@given(json_bytes(GENERATE, {"generateContentRequest": GENERATE}))
@with_google_traps
def test_counts_of_google(rig: Rig, tally: Tally, body: bytes) -> None:
    ask(rig, COUNT_ROUTE, body, tally)


@fuzzed
@given(json_bytes(GENERATE))
@with_google_traps
def test_a_request_of_google_without_its_journey(tally: Tally, body: bytes) -> None:
    target = find_target(f"/v1beta{GENERATE_ROUTE}")
    with tally.example(RequestRefused):
        call = read_call("generate", body, {}, target)
        apply_policy(call, hosted=False)
        forwarded = call.upstream("gpt", 10)
        again = read_call("generate", json.dumps(forwarded).encode(), {}, target)
        assert (again.items, "model" in again.data) == (call.items, False)
        assert not any("fileData" in json.dumps(list(part)) for item in call.items for part in parts_of(item))
        chat, data = as_chat(call, forwarded)
        assert json.loads(json.dumps(data))["messages"] == chat.items


@fuzzed
@given(st.sampled_from(sorted(ROUTES)), st.data())
def test_a_request_without_its_journey(tally: Tally, route: str, data: st.DataObject) -> None:
    body = data.draw(json_bytes(BODIES[route]))
    with tally.example(RequestRefused):
        call = read_call(ROUTES[route], body, {})
        apply_policy(call, hosted=False)
        forwarded = call.upstream("gpt", 10)
        assert read_call(ROUTES[route], json.dumps({**forwarded, "model": call.model}).encode(), {}).items == call.items


_HEADS = st.sampled_from(
    [b"user-agent", b"anthropic-beta", b"openai-beta", b"idempotency-key", b"accept", b"x-api-key", b"expect", b"te",
     b"transfer-encoding", b"content-length", b"connection", b"authorization", b"host", b"upgrade", b"content-encoding"]
)  # fmt: skip
_VALUES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"\xe9", b"", b" ", b"100-continue", b"chunked", b"gzip", b"-1", b"9" * 30, b"bearer", b"a" * 9000]
    ),
    st.text("abcdefgh,-=;", max_size=10).map(str.encode),
)
_REQUESTS = st.builds(
    lambda headers, body: post("/chat/completions", body, *headers),
    st.lists(st.tuples(_HEADS, _VALUES), max_size=3),
    st.sampled_from([as_json(CHAT), b"", b"{}", b"5\r\nhello\r\n0\r\n\r\n"]),
)
_LINES = st.sampled_from(
    [b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", b"GET http://a/v1/models HTTP/1.0\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\n\r\n",
     b"POST /v1/chat/completions?x=%00 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"\x16\x03\x01",
     b"\r\n",
     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n"]
)  # fmt: skip


@fuzzed
@given(
    _REQUESTS
    | damaged(_REQUESTS)
    | st.lists(_REQUESTS | _LINES, max_size=3).map(b"".join)
    | damaged(_LINES)
    | st.binary()
)
@example(post("/chat/completions", as_json(CHAT), (b"User-Agent", b"\xe9")))
@example(post("/chat/completions", as_json(CHAT), (b"anthropic-beta", b"\xff,\xe9")))
@example(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
@example(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n")
@example(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n")
def test_what_speaks_http_or_does_not(rig: Rig, tally: Tally, data: bytes) -> None:
    rig.upstream.answer = answer(json.dumps(_WHOLE["/chat/completions"]).encode())
    with tally.example():
        check_answers(rig, rig.ask(data), tally)
