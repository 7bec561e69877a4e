"""The official clients through the gateway: what they get is what the upstream sent, byte for byte."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.gateway.config import Patience
from tests.helpers.gateway_live import ALL_MODELS, MODELS, Live, live, request
from tests.helpers.provider import Reply, ScriptedUpstream, ToolCall, Usage

USAGE = Usage(input=120, output=40, cache_read=30, reasoning=0)
CLAUDE = Usage(input=120, output=40, cache_read=30, cache_write_5m=7, cache_write_1h=3)
SAID = "Grüße, a longer answer, so that it comes in pieces."
CHAT_TOOL: Any = {"type": "function", "function": {"name": "run", "description": "d", "parameters": {"type": "object"}}}
FLAT_TOOL: Any = {"type": "function", "name": "run", "parameters": {"type": "object"}, "strict": False}
CLAUDE_TOOL: Any = {
    "name": "run",
    "input_schema": {"type": "object"},
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
}


def script(body: dict[str, Any], protocol: str) -> Reply:
    return Reply(SAID, [ToolCall("run", {"command": "ls"})], CLAUDE if protocol == "messages" else USAGE)


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(script) as serving:
        yield serving


@pytest.fixture
def through(tmp_path: Path, upstream: ScriptedUpstream) -> Iterator[Live]:
    with live(tmp_path, upstream) as found:
        yield found


FIELDS: dict[str, dict[str, Any]] = {
    "chat": {"tools": [CHAT_TOOL], "tool_choice": "auto", "temperature": 0.25, "seed": 7},
    "responses": {"tools": [FLAT_TOOL], "instructions": "be brief", "store": False, "include": []},
    "messages": {
        "tools": [CLAUDE_TOOL],
        "system": [{"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "disabled"},
    },
}


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
@pytest.mark.parametrize("stream", [False, True])
def test_bytes_and_headers_are_the_upstreams(
    through: Live, upstream: ScriptedUpstream, protocol: str, stream: bool
) -> None:
    fields = FIELDS[protocol] | ({"stream": True} if stream else {})
    if protocol == "chat" and stream:
        fields["stream_options"] = {"include_usage": True}
    got = through.post(protocol, **fields)
    assert got.status_code == 200
    assert got.content == upstream.sent[0]
    seen = upstream.requests[0]
    asked = request(protocol) | fields
    assert seen.body == asked | {"model": "scripted"}, "nothing but the model's name is altered"
    direct = httpx.post(upstream.url + seen.path, json=seen.body, timeout=60)
    hop = {"date", "server", "transfer-encoding", "content-length", "connection"}
    assert {k: v for k, v in got.headers.items() if k not in hop} == {
        k: v for k, v in direct.headers.items() if k not in hop
    }
    key = seen.headers.get("authorization", "").removeprefix("Bearer ") or seen.headers["x-api-key"]
    assert key == upstream.environment()["OPENAI_API_KEY"]


def test_usage_is_asked_for_in_a_chat_stream_and_taken_out_again(through: Live, upstream: ScriptedUpstream) -> None:
    got = through.post("chat", stream=True)
    assert upstream.requests[0].body["stream_options"] == {"include_usage": True}
    direct = httpx.post(
        f"{upstream.url}/v1/chat/completions", json=request("chat") | {"stream": True, "model": "scripted"}
    )
    assert b"usage" not in direct.content
    assert got.content.replace(b"chatcmpl-0", b"chatcmpl-1") == direct.content.replace(
        b"call_1_0", b"call_0_0"
    ).replace(b"chatcmpl-0", b"chatcmpl-1")
    assert through.gateway.state().usage[0].tokens.output == USAGE.output


def test_the_openai_client_gets_the_same_as_from_the_upstream(through: Live, upstream: ScriptedUpstream) -> None:
    import openai

    def talk(url: str, key: str, model: str) -> list[Any]:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
        said: list[Any] = [{"role": "user", "content": "hi"}]
        made: list[Any] = [client.chat.completions.create(model=model, messages=said, tools=[CHAT_TOOL]).model_dump()]
        with client.chat.completions.stream(model=model, messages=said, tools=[CHAT_TOOL]) as stream:
            made.append(stream.get_final_completion().model_dump())
        made.append(client.responses.create(model=model, input=said, tools=[FLAT_TOOL]).model_dump())
        with client.responses.stream(model=model, input=said, tools=[FLAT_TOOL]) as events:
            made.append([event.model_dump() for event in events])
        made.append(client.embeddings.create(model=model, input=["a", "b"], encoding_format="float").model_dump())
        return made

    mine = talk(through.url, through.gateway.key, "bench-main")
    count = len(upstream.requests)
    theirs = talk(upstream.url, "any", "scripted")
    assert _without_numbers(mine) == _without_numbers(theirs)
    assert through.gateway.state().usage[0].calls == count - 1, "an embedding is no step"


def test_the_anthropic_client_gets_the_same_as_from_the_upstream(through: Live, upstream: ScriptedUpstream) -> None:
    import anthropic

    def talk(url: str, key: str, model: str) -> list[Any]:
        client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
        asked: dict[str, Any] = {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
        made: list[Any] = [client.messages.create(**asked, tools=[CLAUDE_TOOL]).model_dump()]
        with client.messages.stream(**asked, tools=[CLAUDE_TOOL]) as stream:
            made.append([event.model_dump() for event in stream])
        return made

    mine = talk(through.url, through.gateway.key, "bench-claude")
    theirs = talk(upstream.url, "any", "scripted")
    assert _without_numbers(mine) == _without_numbers(theirs)
    tokens = through.gateway.state().usage[1].tokens
    assert (tokens.input_uncached, tokens.cache_read, tokens.cache_write, tokens.cache_write_1h, tokens.output) == (
        240, 60, 20, 6, 80,
    )  # fmt: skip


def _without_numbers(made: list[Any]) -> str:
    """The upstream numbers its answers; everything else must be equal."""
    return re.sub(r"(chatcmpl-|resp_|msg_|fc_|call_|toolu_)\d+", r"\1N", json.dumps(made, default=str))


def test_counting_tokens_and_listing_models_cost_nothing(through: Live) -> None:
    import anthropic
    import openai

    client = anthropic.Anthropic(base_url=through.url, api_key=through.gateway.key)
    counted = client.messages.count_tokens(model="bench-claude", messages=[{"role": "user", "content": "hi"}])
    assert counted.input_tokens > 0
    assert [model.id for model in client.models.list()] == ["bench-main", "bench-claude", "scripted"]
    other = openai.OpenAI(base_url=f"{through.url}/v1", api_key=through.gateway.key)
    assert [model.id for model in other.models.list()] == ["bench-main", "bench-claude", "scripted"]
    assert other.models.retrieve("bench-main").id == "bench-main"
    assert [(usage.calls, usage.cost_usd) for usage in through.gateway.state().usage] == [(0, 0.0), (0, 0.0)]


def test_totals_are_the_upstreams_own(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    with live(tmp_path, upstream) as through:
        for protocol in ("chat", "responses", "messages"):
            for stream in (False, True):
                assert through.post(protocol, stream=stream).status_code == 200
    usages = through.gateway.state().usage
    billed = upstream.usage_totals
    assert sum(usage.calls for usage in usages) == billed.calls == 6
    assert sum(usage.tokens.input_uncached or 0 for usage in usages) == billed.input
    assert sum(usage.tokens.cache_read or 0 for usage in usages) == billed.cache_read
    assert sum(usage.tokens.cache_write or 0 for usage in usages) == billed.cache_write_5m + billed.cache_write_1h
    assert sum(usage.tokens.output or 0 for usage in usages) == billed.output
    assert sum(usage.cost_usd or 0 for usage in usages) == pytest.approx(billed.cost_usd, abs=1e-12)
    assert {usage.cost_status for usage in usages} == {"exact"}
    assert {usage.price_version for usage in usages} == {"own tests"}


def test_an_answer_is_gone_on_from_only_where_it_was_given_here(through: Live, upstream: ScriptedUpstream) -> None:
    first = through.post("responses").json()["id"]
    assert through.post("responses", previous_response_id=first).status_code == 200
    refused = through.post("responses", previous_response_id="resp_of_another_cell")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "not_allowed")
    assert len(upstream.requests) == 2


def test_going_on_from_an_answer_that_was_hung_up_sets_aside_all_that_it_may_have_grown_to(tmp_path: Path) -> None:
    """The provider stores it at its whole length, and bills that as input."""
    grown = Reply("word " * 200, usage=Usage(10, 60_000), slow_after=2)
    with ScriptedUpstream([grown] * 2) as upstream, live(tmp_path, upstream, cost_usd=1.0) as through:
        begun = {**request("responses"), "stream": True, "max_output_tokens": 60_000}
        with httpx.stream("POST", f"{through.url}/v1/responses", json=begun, headers=through.headers) as answer:
            first = next(line for line in answer.iter_lines() if "response.created" in line and "data:" in line)
        told = json.loads(first.removeprefix("data:"))["response"]["id"]
        deadline = time.monotonic() + 30
        while not through.lines and time.monotonic() < deadline:
            time.sleep(0.05)
        refused = through.post("responses", previous_response_id=told, max_output_tokens=1)
    assert (refused.status_code, refused.json()["error"]["limit"]) == (402, "cost_limit")


HOSTED: list[tuple[str, dict[str, Any]]] = [
    ("chat", {"web_search_options": {"search_context_size": "low"}}),
    ("chat", {"tools": [{"type": "web_search_preview"}]}),
    ("chat", {"service_tier": "priority"}),
    (
        "chat",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}]},
    ),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]}),
    ("responses", {"tools": [{"type": "web_search"}]}),
    ("responses", {"tools": [{"type": "mcp", "server_url": "https://x"}]}),
    ("responses", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
    ("responses", {"background": True}),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://x"}]}]}),
    ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    ("messages", {"tools": [{"type": "code_execution_20250825", "name": "c"}]}),
    ("messages", {"mcp_servers": [{"type": "url", "url": "https://x", "name": "x"}]}),
    (
        "messages",
        {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "u"}}]}]},
    ),
]


@pytest.mark.parametrize(("protocol", "fields"), HOSTED)
def test_what_the_provider_would_run_or_fetch_is_refused(
    through: Live, upstream: ScriptedUpstream, protocol: str, fields: dict[str, Any]
) -> None:
    refused = through.post(protocol, **fields)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "not_allowed"
    assert (
        next(iter(fields)) in refused.text
        or "image_url" in refused.text
        or "source" in refused.text
        or "file" in refused.text
    )
    assert upstream.requests == []


def test_hosted_tools_beside_others_are_taken_out_and_noted(through: Live, upstream: ScriptedUpstream) -> None:
    assert through.post("responses", tools=[FLAT_TOOL, {"type": "web_search"}]).status_code == 200
    assert upstream.requests[0].body["tools"] == [FLAT_TOOL]
    (note,) = through.gateway.state().notes
    assert (note.name, "'web_search' (1 times)" in note.evidence) == ("hosted_tools", True)


def test_a_case_with_network_lets_hosted_tools_through(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    with live(tmp_path, upstream, hosted_tools=True) as through:
        assert through.post("responses", tools=[{"type": "web_search"}]).status_code == 200
    assert upstream.requests[0].body["tools"] == [{"type": "web_search"}]


def test_betas_that_reach_out_are_not_asked_for(through: Live, upstream: ScriptedUpstream) -> None:
    beta = "mcp-client-2025-04-04,interleaved-thinking-2025-05-14,files-api-2025-04-14"
    headers = {"x-api-key": through.gateway.key, "anthropic-beta": beta, "anthropic-version": "2023-06-01"}
    httpx.post(f"{through.url}/v1/messages", json=request("messages"), headers=headers, timeout=60)
    assert upstream.requests[0].headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"
    assert through.gateway.key not in json.dumps(upstream.requests[0].headers)


def test_a_roles_key_admits_to_that_role_alone(through: Live) -> None:
    headers = {"x-api-key": through.gateway.role_key("claude")}
    mine = httpx.post(f"{through.url}/v1/messages", json=request("messages"), headers=headers, timeout=60)
    other = httpx.post(f"{through.url}/v1/chat/completions", json=request("chat"), headers=headers, timeout=60)
    assert (mine.status_code, other.status_code, other.json()["error"]["code"]) == (200, 404, "model_not_found")
    assert set(MODELS) == {"main", "claude"}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
@pytest.mark.parametrize("stream", [False, True])
def test_litellm_finds_gemini_at_the_address_that_google_names(
    tmp_path: Path, upstream: ScriptedUpstream, stream: bool
) -> None:
    """The key belongs to that address, and is nothing that Google itself may be sent."""
    with live(tmp_path, upstream, patience=Patience(), models=ALL_MODELS) as through:
        asked = request("chat") | {"model": "bench-gemini", "stream": stream}
        got = httpx.post(f"{through.url}/v1/chat/completions", json=asked, headers=through.headers, timeout=90)
        assert got.status_code == 200, got.text
    (seen,) = upstream.requests
    assert seen.protocol == "generate"
    assert seen.headers["x-goog-api-key"] == upstream.environment()["GEMINI_API_KEY"]
    gemini = through.gateway.state().usage[2]
    assert (gemini.calls, gemini.tokens.input_uncached, gemini.tokens.cache_read) == (1, 120, 30)
    assert gemini.tokens.output == 40


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
def test_other_protocols_of_a_model_go_through_litellm(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    with live(tmp_path, upstream, patience=Patience()) as through:
        assert through.post("chat").status_code == 200
        status = Path(f"/proc/{through.gateway.pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        assert resident < 60_000, "litellm is not loaded before it is needed"
        said = [{"role": "user", "content": "hello"}]
        asked = {"model": "bench-claude", "messages": said, "max_tokens": 100, "tools": [CHAT_TOOL]}
        got = httpx.post(f"{through.url}/v1/chat/completions", json=asked, headers=through.headers, timeout=90)
        assert got.status_code == 200, got.text
        message = got.json()["choices"][0]["message"]
        assert message["content"] == SAID
        assert message["tool_calls"][0]["function"]["name"] == "run"
        streamed = httpx.post(
            f"{through.url}/v1/chat/completions", json=asked | {"stream": True}, headers=through.headers, timeout=90
        )
        assert streamed.text.rstrip().endswith("data: [DONE]")
    assert [seen.protocol for seen in upstream.requests] == ["chat", "messages", "messages"]
    claude = through.gateway.state().usage[1]
    assert (claude.calls, claude.tokens.cache_write, claude.tokens.cache_write_1h) == (2, 20, 6)
    assert claude.cost_usd == pytest.approx(2 * (120 * 3 + 30 * 0.3 + 7 * 3.75 + 3 * 6 + 40 * 15) / 1e6)
