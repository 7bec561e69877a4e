"""Which tools and fields are the client's and which the provider's: by what they do, one fixture each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.gateway.backends.litellm import plain_caches
from bench.gateway.call_log import read_trace
from bench.gateway.media import Formula, media_bound
from bench.gateway.request import Dialect, RequestRefused
from bench.gateway.steps import read_steps
from tests.helpers.gateway import Json
from tests.helpers.gateway_live import live
from tests.helpers.policy import SAID, passed
from tests.helpers.provider import Reply, ScriptedUpstream
from tests.helpers.sampling import at_night

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
        ({"type": "custom", "name": "x", "environment": {"type": "container_auto"}}, "custom"),
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
    call = passed("responses", input=[SAID, asked, found])
    assert media_bound(call, Formula("openai", "openai/gpt-5.5")).encoded == 0
    with ScriptedUpstream([Reply("hello")]) as upstream, live(tmp_path, upstream) as through:
        assert through.post("responses", input=[SAID, asked, found], tools=[CLIENTS["responses"][3]]).status_code == 200
    assert upstream.requests[0].body["input"] == [SAID, asked, found]
    assert not through.gateway.state().notes
    (step,) = read_steps(read_trace(tmp_path / "calls.jsonl"))
    assert [(it.speaker, it.text) for it in step.said] == [("user", "hello"), ("tool", "crm_find")]


def test_a_search_cannot_bring_what_the_provider_runs() -> None:
    found = {"type": "tool_search_output", "call_id": "1", "execution": "client", "tools": [FOUND, {"type": "mcp"}]}
    with pytest.raises(RequestRefused, match="field `tools`"):
        passed("responses", input=[found])


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "count_tokens", "embeddings"])
@pytest.mark.parametrize("tools", [{"type": "web_search"}, "web_search", 5, {"0": {"type": "mcp"}}, True])
def test_tools_are_a_list(dialect: Dialect, tools: object) -> None:
    if dialect == "embeddings":
        assert passed(dialect, tools=tools).removed == ["tools"]
        return
    with pytest.raises(RequestRefused, match="field `tools`"):
        passed(dialect, tools=tools)


def test_googles_tools_are_a_list_too() -> None:
    for tools in (5, True, "googleSearch"):
        with pytest.raises(RequestRefused, match="field `tools`"):
            passed("generate", tools=tools)


def test_a_key_that_nobody_knows_is_taken_out_of_a_tool() -> None:
    call = passed("chat", tools=[{**CLIENTS["chat"][0], "made_tomorrow": {"search": True}}])
    assert (call.data["tools"], call.stripped, call.removed) == ([CLIENTS["chat"][0]], [], ["tools.made_tomorrow"])


def test_keys_that_nobody_knows_are_taken_out_of_tools_in_tools() -> None:
    inner = {"type": "function", "name": "a"}
    group = {"type": "namespace", "name": "n", "tools": [{**inner, "made_tomorrow": 1}]}
    call = passed("responses", tools=[group])
    assert (call.data["tools"], call.removed) == ([{**group, "tools": [inner]}], ["tools.made_tomorrow"])
    function = {"name": "a", "parameters": {"made_tomorrow": 1}}
    call = passed("chat", tools=[{"type": "function", "function": {**function, "made_tomorrow": 1}}])
    assert call.data["tools"] == [{"type": "function", "function": function}]


@pytest.mark.parametrize(
    "tool",
    [{"type": "function", "function": {"name": "$web_search"}}, {"type": "function", "name": "$web_search"},
     {"type": "function", "function": {"name": "run", "googleSearch": {}}}],
)  # fmt: skip
def test_a_function_is_the_providers_by_what_it_says(tool: Json) -> None:
    with pytest.raises(RequestRefused, match="field `tools`"):
        passed("chat", tools=[tool])


def test_functions_of_the_older_spelling_are_tools_too() -> None:
    own = {"name": "run", "parameters": {}}
    call = passed("chat", functions=[own, {"type": "web_search"}, {"googleSearch": {}}])
    assert (call.data["functions"], call.stripped) == ([own], ["web_search", "None"])
    refused: list[object] = [{"0": own}, [{"googleSearch": {}}], "web_search"]
    for functions in refused:
        with pytest.raises(RequestRefused, match="field `functions`"):
            passed("chat", functions=functions)


def test_a_tool_without_type_and_name_is_the_providers() -> None:
    with pytest.raises(RequestRefused, match="field `tools`"):
        passed("chat", tools=[{"exaAiSearch": {}}, {"made_tomorrow": {}}])


def test_a_tool_of_the_client_brings_no_file_of_the_providers() -> None:
    skill = {"type": "skill_reference", "skill_id": "skill_1"}
    with pytest.raises(RequestRefused, match="skill_id"):
        passed("responses", tools=[{"type": "shell", "environment": {"type": "local", "skills": [skill]}}])


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "web_search_preview"},
        {"type": "mcp", "server_label": "x"},
        "web_search",
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "mcp", "server_label": "x"}]},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "web_search"}]}},
    ],
)
def test_what_the_provider_runs_cannot_be_chosen(choice: object) -> None:
    with pytest.raises(RequestRefused, match="field `tool_choice`"):
        passed("responses", tools=[CLIENTS["responses"][0]], tool_choice=choice)


@pytest.mark.parametrize(
    ("dialect", "choice"),
    [("chat", "auto"), ("chat", "required"), ("chat", {"type": "function", "function": {"name": "run"}}),
     ("responses", {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "run"}]}),
     ("responses", {"type": "apply_patch"}), ("messages", {"type": "any", "disable_parallel_tool_use": True}),
     ("messages", {"type": "tool", "name": "web_search"})],
)  # fmt: skip
def test_what_the_client_runs_can_be_chosen(dialect: Dialect, choice: object) -> None:
    assert passed(dialect, tools=[CLIENTS[dialect][0]], tool_choice=choice).data["tool_choice"] == choice


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "generate"])
def test_with_hosted_tools_allowed_only_prices_are_looked_at(dialect: Dialect) -> None:
    fields: Json = {"madeTomorrow": 1, "plugins": [1], "tools": [HOSTED[dialect][0][0]]}
    call = passed(dialect, hosted=True, **fields)
    assert {name: call.data[name] for name in fields} == fields
    assert (call.stripped, call.removed) == ([], [])
    if dialect != "generate":
        half_a_day = {"prompt_cache_options": {"ttl": "24h"}}
        for price in ({"service_tier": "priority"}, {"background": True}, {"speed": "fast"}, half_a_day):
            with pytest.raises(RequestRefused, match=next(iter(price))):
                passed(dialect, hosted=True, **price)


@pytest.mark.parametrize("hosted", [False, True])
@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_no_part_of_a_message_asks_for_a_cache_at_another_price(dialect: Dialect, hosted: bool) -> None:
    """OpenAI's marks in parts have a life of their own, and half a day is billed as twice what the table says."""
    field = "messages" if dialect == "chat" else "input"

    def marked(**mark: object) -> Json:
        part = {"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", **mark}}
        return {field: [{"role": "user", "content": [{"type": "text", "text": "y"}, part]}]}

    for plain in ({}, {"ttl": "30m"}):
        assert passed(dialect, hosted=hosted, **marked(**plain)).data[field] == marked(**plain)[field]
    for life in ("12h", "24h", 43200, ["30m"]):
        with pytest.raises(RequestRefused, match=r"prompt_cache_breakpoint\.ttl"):
            passed(dialect, hosted=hosted, **marked(ttl=life))


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        ("gemini/gemini-2.5-pro", None), ("vertex_ai/gemini-2.5-pro", None), ("mistral/x", None),
        ("vertex_ai/x/claude/../../gemini-x", None), ("anthropic/claude-x", {"type": "ephemeral"}),
        ("bedrock/us.anthropic.claude-x-v1:0", {"type": "ephemeral"}),
    ],
)  # fmt: skip
def test_litellm_is_asked_for_no_cache_that_the_answer_does_not_bill(model: str, kept: Json | None) -> None:
    """For Gemini it stores what is marked at Google, which bills that by the hour, for as long as the mark says."""
    mark: Json = {"cache_control": {"type": "ephemeral", "ttl": "876000h"}}
    schema: Json = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
    taken: set[str] = set()
    said = [{"role": "user", "content": [{"type": "text", "text": "x", **mark}], **mark}]
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}, **mark}]
    found, tool = plain_caches(said, model, taken)[0], plain_caches(tools, model, taken)[0]
    assert [it.get("cache_control") for it in (found, found["content"][0], tool)] == [kept] * 3
    assert tool["function"]["parameters"] == schema, "what a schema names is no mark"
    assert taken == {"cache_control" if kept is None else "cache_control.ttl"}


@pytest.mark.slow
@pytest.mark.parametrize("hosted", [at_night(False), True])
def test_no_field_of_a_request_leads_litellm_elsewhere(tmp_path: Path, hosted: bool) -> None:
    """With hosted tools allowed nothing but the list of what goes to litellm keeps them from it."""
    elsewhere: Json = {"api_key": "x", "custom_llm_provider": "openai", "extra_headers": {"x": "y"}, "num_retries": 3}
    with (
        ScriptedUpstream(lambda body, protocol: Reply("hello")) as upstream,
        ScriptedUpstream(lambda body, protocol: Reply("gotcha")) as other,
        live(tmp_path, upstream, hosted_tools=hosted) as through,
    ):
        fallbacks: Json = {"fallbacks": [{"model": "openai/x", "api_base": other.url}]}
        for name in ("api_base", "base_url"):
            fields = {**elsewhere, name: other.url, **(fallbacks if hosted else {})}
            assert through.post("chat", model="bench-claude", **fields, mock_response="z").status_code == 200
            assert through.post("messages", model="bench-main", **fields).status_code == 200
            assert through.post("responses", model="bench-claude", **fields).status_code == 200
        if not hosted:
            assert "field `fallbacks`" in through.post("chat", model="bench-claude", **fallbacks).text
    assert other.requests == []
    assert len(upstream.requests) == 6
    assert not any("x" in seen.headers for seen in upstream.requests)
    assert ("api_base" in through.lines[0]["taken_out"]) == (not hosted)


def test_invented_fields_fill_no_trace(tmp_path: Path) -> None:
    """What is taken out is written down with every call, and of a trace that is too large nothing is kept."""
    with ScriptedUpstream([Reply("hello")]) as upstream, live(tmp_path, upstream) as through:
        assert through.post("chat", **{f"f{it:040}": 1 for it in range(5000)}).status_code == 200
        (line,) = through.lines
    assert len(line["taken_out"]) == 51 and line["taken_out"][-1] == "and 4950 more"


@pytest.mark.parametrize("odd", [{}, [], {"a": 1}, ["x"], 5, True, 1.5, ""])
def test_values_of_any_kind_are_refused_or_pass_and_break_nothing(odd: object) -> None:
    part: Json = dict.fromkeys(("type", "file", "audio", "tools", "definition", "name", "id", "output"), odd)
    tool: Json = dict.fromkeys(("type", "name", "function", "environment", "tools", "execution"), odd)
    asked: list[tuple[Dialect, Json]] = [
        ("messages", {"messages": [{"role": "user", "content": [{**part, "source": {"type": odd}}]}]}),
        ("messages", {"context_management": {"edits": [{"type": odd}]}}), ("messages", {"system": odd}),
        ("responses", {"input": [part]}), ("responses", {"tools": [tool]}), ("responses", {"include": [odd]}),
        ("responses", {"tool_choice": {"type": odd, "tools": [tool], "allowed_tools": odd}}),
        ("chat", {"functions": [tool], "tool_choice": odd}), ("chat", {"reasoning": {"mode": odd}}),
        ("chat", {"thinking_budget": odd, "thinking": {"budget_tokens": odd}}), ("chat", {"service_tier": odd}),
        ("generate", {"tools": [odd]}), ("generate", {"tools": odd}), ("generate", {"systemInstruction": odd}),
        ("count_generate", {"generateContentRequest": {"tools": odd, "contents": odd}}),
    ]  # fmt: skip
    for dialect, fields in asked:
        with contextlib.suppress(RequestRefused):
            assert passed(dialect, **fields).dialect == dialect


@pytest.mark.parametrize("odd", [100_000.0, "100000", True, [], {}])
@pytest.mark.parametrize(
    "place",
    [
        lambda it: {"thinking_budget": it},
        lambda it: {"thinking": {"budget_tokens": it}},
        lambda it: {"reasoning": {"max_tokens": it}},
        lambda it: {"chat_template_kwargs": {"thinking_budget": it}},
    ],
)
def test_a_budget_of_thinking_is_a_whole_number_that_is_reserved(place: Callable[[object], Json], odd: object) -> None:
    with pytest.raises(RequestRefused, match="must be a whole number"):
        passed("chat", **place(odd))
    assert passed("chat", **place(100_000)).thinking == 100_000
