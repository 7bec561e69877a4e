"""Which tools and fields are the client's and which the provider's: by what they do, one fixture each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.gateway.call_log import read_trace
from bench.gateway.google import find_target
from bench.gateway.media import Formula, media_bound
from bench.gateway.policy import apply_policy
from bench.gateway.request import Call, Dialect, RequestRefused, read_call
from bench.gateway.steps import read_steps
from tests.helpers.gateway import Json
from tests.helpers.gateway_live import live
from tests.helpers.provider import Reply, ScriptedUpstream

CLIENTS: dict[Dialect, list[Json]] = {
    "responses": [
        {"type": "function", "name": "run", "parameters": {}},
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark"}},
        {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "find", "defer_loading": True}]},
        {"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}},
        {"type": "local_shell"}, {"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"},
        {"type": "computer"}, {"type": "computer_use_preview", "display_width": 8, "display_height": 6},
    ],
    "chat": [{"type": "function", "function": {"name": "run"}}, {"type": "custom", "custom": {"name": "run"}}],
    "messages": [
        {"name": "run", "input_schema": {}}, {"type": "custom", "name": "run", "input_schema": {}},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "computer_20251124", "name": "computer"}, {"type": "memory_20250818", "name": "memory"},
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    ],
    "generate": [{"functionDeclarations": [{"name": "run"}]}, {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}],
}  # fmt: skip
HOSTED: dict[Dialect, list[tuple[Json, str]]] = {
    "responses": [
        ({"type": "web_search"}, "reads the web"), ({"type": "web_search_preview_2025_03_11"}, "reads the web"),
        ({"type": "file_search", "vector_store_ids": ["v"]}, "reads files stored there"),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, "runs code at the provider"),
        ({"type": "shell", "environment": {"type": "container_auto"}}, "runs code at the provider"),
        ({"type": "shell"}, "runs code at the provider"),
        ({"type": "mcp", "server_label": "x", "server_url": "https://x"}, "calls other servers"),
        ({"type": "image_generation"}, "makes images"),
        ({"type": "tool_search"}, "searches at the provider"),
        ({"type": "tool_search", "execution": "server"}, "searches at the provider"),
        ({"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}, "namespace"),
        ({"type": "made_tomorrow"}, "made_tomorrow"),
    ],
    "chat": [
        ({"type": "web_search", "web_search": {}}, "reads the web"),
        ({"type": "builtin_function", "function": {"name": "$web_search"}}, "builtin_function"),
        ({"googleSearch": {}}, "provider"), ({"google_search": {}}, "provider"), ({"code_execution": {}}, "provider"),
        ({"type": "function", "function": {"name": "run"}, "urlContext": {}}, "function"),
    ],
    "messages": [
        ({"type": "web_search_20250305", "name": "web_search"}, "reads the web"),
        ({"type": "web_fetch_20250910", "name": "web_fetch"}, "reads the web"),
        ({"type": "code_execution_20250825", "name": "code_execution"}, "runs code at the provider"),
        ({"type": "mcp_toolset", "mcp_server_name": "x"}, "calls other servers"),
        ({"type": "advisor_20260301", "name": "advisor"}, "asks another model"),
    ],
    "generate": [
        ({"googleSearch": {}}, "reads the web"), ({"google_search": {}}, "reads the web"),
        ({"googleSearchRetrieval": {}}, "reads the web"), ({"googleMaps": {}}, "reads the web"),
        ({"enterpriseWebSearch": {}}, "reads the web"), ({"urlContext": {}}, "reads the web"),
        ({"codeExecution": {}}, "runs code at the provider"), ({"fileSearch": {}}, "reads files stored there"),
        ({"retrieval": {}}, "reads files stored there"), ({"mcpServers": [{}]}, "calls other servers"),
    ],
}  # fmt: skip
_SAID = {"role": "user", "content": "hello"}
_BODIES: dict[Dialect, Json] = {
    "chat": {"model": "m", "messages": [_SAID]},
    "responses": {"model": "m", "input": [_SAID]},
    "messages": {"model": "m", "messages": [_SAID], "max_tokens": 9},
    "generate": {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
}


def passed(dialect: Dialect, **fields: Any) -> Call:
    """The call that is left of a request with these fields."""
    target = find_target("/v1beta/models/m:generateContent") if dialect == "generate" else None
    call = read_call(dialect, json.dumps({**_BODIES[dialect], **fields}).encode(), {}, target)
    apply_policy(call, hosted=False)
    return call


@pytest.mark.parametrize(("dialect", "tool"), [(it, tool) for it, tools in CLIENTS.items() for tool in tools])
def test_what_the_client_carries_out_passes(dialect: Dialect, tool: Json) -> None:
    call = passed(dialect, tools=[tool])
    assert (call.data["tools"], call.stripped) == ([tool], [])


@pytest.mark.parametrize(("dialect", "tool", "does"), [(it, *tool) for it, tools in HOSTED.items() for tool in tools])
def test_what_the_provider_runs_is_taken_out_and_named_by_what_it_does(dialect: Dialect, tool: Json, does: str) -> None:
    own = CLIENTS[dialect][0]
    call = passed(dialect, tools=[tool, own])
    assert (call.data["tools"], len(call.stripped)) == ([own], 1)
    with pytest.raises(RequestRefused, match="would be run by the provider") as refused:
        passed(dialect, tools=[tool])
    assert does in str(refused.value)


def test_of_one_tool_of_googles_only_the_clients_part_stays() -> None:
    call = passed("generate", tools=[{"functionDeclarations": [{"name": "run"}], "google_search": {}}])
    assert (call.data["tools"], call.stripped) == ([{"functionDeclarations": [{"name": "run"}]}], ["googleSearch"])


FOUND = {"type": "function", "name": "crm_find", "parameters": {}, "defer_loading": True}


def test_what_a_clients_search_found_goes_back_and_is_priced(tmp_path: Path) -> None:
    asked = {"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {"query": "crm"}}
    found = {"type": "tool_search_output", "call_id": "1", "execution": "client", "tools": [FOUND]}
    call = passed("responses", input=[_SAID, asked, found])
    assert media_bound(call, Formula("openai", "openai/gpt-5.5")).encoded == 0
    with ScriptedUpstream([Reply("hello")]) as upstream, live(tmp_path, upstream) as through:
        assert (
            through.post("responses", input=[_SAID, asked, found], tools=[CLIENTS["responses"][3]]).status_code == 200
        )
    assert upstream.requests[0].body["input"] == [_SAID, asked, found]
    assert not through.gateway.state().notes
    (step,) = read_steps(read_trace(tmp_path / "calls.jsonl"))
    assert [(it.speaker, it.text) for it in step.said] == [("user", "hello"), ("tool", "crm_find")]


def test_a_search_cannot_bring_what_the_provider_runs() -> None:
    found = {"type": "tool_search_output", "call_id": "1", "execution": "client", "tools": [FOUND, {"type": "mcp"}]}
    with pytest.raises(RequestRefused, match="field `tools`"):
        passed("responses", input=[found])


@pytest.mark.parametrize("name", ["search_parameters", "enable_search", "web_search_options", "plugins"])
def test_a_field_that_makes_the_provider_search_is_refused(name: str) -> None:
    with pytest.raises(RequestRefused, match=f"field `{name}`"):
        passed("chat", **{name: True})


@pytest.mark.slow
def test_no_field_of_a_request_leads_litellm_elsewhere(tmp_path: Path) -> None:
    elsewhere: Json = {"api_key": "x", "custom_llm_provider": "openai", "extra_headers": {"x": "y"}, "num_retries": 3}
    with (
        ScriptedUpstream(lambda body, protocol: Reply("hello")) as upstream,
        ScriptedUpstream(lambda body, protocol: Reply("gotcha")) as other,
        live(tmp_path, upstream) as through,
    ):
        for name in ("api_base", "base_url"):
            fields = {**elsewhere, name: other.url, "fallbacks": [{"model": "openai/x", "api_base": other.url}]}
            assert through.post("chat", model="bench-claude", **fields, mock_response="z").status_code == 200
            assert through.post("messages", model="bench-main", **fields).status_code == 200
            assert through.post("responses", model="bench-claude", **fields).status_code == 200
    assert other.requests == []
    assert len(upstream.requests) == 6
    assert not any("x" in seen.headers for seen in upstream.requests)
