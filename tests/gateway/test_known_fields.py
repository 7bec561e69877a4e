"""Which fields of a request pass, which are refused, and that what nobody knows is taken out and written down."""

from __future__ import annotations

import pkgutil
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from bench.gateway.known_fields import keep_known, known_fields, refused_fields
from bench.gateway.request import Dialect, RequestRefused
from tests.helpers.gateway import Json
from tests.helpers.gateway_live import live
from tests.helpers.policy import passed
from tests.helpers.provider import Reply, ScriptedUpstream

_CLIENTS: list[tuple[Dialect, str]] = [
    ("chat", "openai.types.chat.completion_create_params:CompletionCreateParamsNonStreaming"),
    ("chat", "openai.types.chat.completion_create_params:CompletionCreateParamsStreaming"),
    ("responses", "openai.types.responses.response_create_params:ResponseCreateParamsNonStreaming"),
    ("responses", "openai.types.responses.response_create_params:ResponseCreateParamsStreaming"),
    ("embeddings", "openai.types.embedding_create_params:EmbeddingCreateParams"),
    ("messages", "anthropic.types.message_create_params:MessageCreateParamsStreaming"),
    ("messages", "anthropic.types.beta.message_create_params:MessageCreateParamsStreaming"),
    ("count_tokens", "anthropic.types.message_count_tokens_params:MessageCountTokensParams"),
    ("count_tokens", "anthropic.types.beta.message_count_tokens_params:MessageCountTokensParams"),
]  # fmt: skip
"""By name: the clients take seconds to import, in every process that collects tests."""
_IN_A_HEADER = {"betas"}
_NOT_WORDS = {
    "audioTimestamp", "enableAffectiveDialog", "speechConfig", "translationConfig", "audioTranscriptionConfig",
    "responseFormat",
}  # fmt: skip
"""Settings of Google's for sound, pictures and the delivery of files: taken out."""


@pytest.mark.parametrize(("dialect", "fields"), _CLIENTS)
def test_every_field_of_the_installed_clients_is_decided_on(dialect: Dialect, fields: str) -> None:
    """A newer client's new field fails here, until somebody has read what it does."""
    hints = get_type_hints(pkgutil.resolve_name(fields))
    client = fields.partition(".")[0]
    assert hints, f"{client} has no {fields}"
    undecided = hints.keys() - known_fields(dialect) - refused_fields() - _IN_A_HEADER
    assert undecided == set(), f"{client} {version(client)}"
    assert known_fields(dialect) & refused_fields() == set()


def test_every_setting_of_googles_client_is_decided_on() -> None:
    from google.genai import types

    spelled = {re.sub("_(.)", lambda it: it[1].upper(), name) for name in types.GenerationConfig.model_fields}
    settings: Json = {**dict.fromkeys(spelled - refused_fields(), 1), "responseModalities": ["TEXT"]}
    left = passed("generate", generationConfig=settings).removed
    assert {name.partition(".")[2] for name in left} == _NOT_WORDS


HARMLESS: dict[Dialect, Json] = {
    "chat": {
        "top_k": 40, "min_p": 0.1, "typical_p": 0.9, "repetition_penalty": 1.1, "guided_json": {"type": "object"},
        "chat_template_kwargs": {"enable_thinking": False}, "reasoning": {"effort": "high", "max_tokens": 9},
        "thinking": {"type": "enabled", "budget_tokens": 9}, "verbosity": "low", "prompt_cache_key": "k", "store": True,
        "safety_identifier": "s", "metadata": {"image_url": "https://x", "file_id": "f"}, "user": "u", "seed": 1,
        "stream_options": {"include_usage": True}, "usage": {"include": True}, "stop": ["x"], "logit_bias": {"5": 1},
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"properties": {"url": {}}}}},
    },
    "responses": {
        "include": ["reasoning.encrypted_content"], "store": False, "client_metadata": {"a": "b"},
        "reasoning": {"effort": "high", "summary": "auto"}, "prompt_cache_key": "k", "truncation": "auto",
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "x", "schema": {"file_id": {}}}},
    },
    "messages": {
        "thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "high"}, "top_k": 5,
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, "speed": "standard",
        "metadata": {"user_id": "u"}, "cache_control": {"type": "ephemeral"}, "service_tier": "auto",
    },
    "embeddings": {"dimensions": 8, "encoding_format": "float", "input_type": "query"},
    "generate": {
        "safetySettings": [], "labels": {"a": "b"}, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"temperature": 1, "thinkingConfig": {"thinkingBudget": 5}, "responseJsonSchema": {}},
    },
}  # fmt: skip


@pytest.mark.parametrize("dialect", HARMLESS)
def test_harmless_fields_pass_unaltered(dialect: Dialect) -> None:
    call = passed(dialect, **HARMLESS[dialect])
    assert {name: call.data[name] for name in HARMLESS[dialect]} == HARMLESS[dialect]
    assert call.removed == []


REFUSED: list[tuple[Dialect, str, Any]] = [
    *(("chat", name, {"x": 1}) for name in (
        "web_search_options", "search_parameters", "search_settings", "enable_search", "search_options", "plugins",
        "models", "route", "provider", "preset", "fallbacks", "prediction", "audio", "prompt", "mcp_servers",
        "container", "moderation", "deferred", "kv_transfer_params",
    )),
    *(("responses", name, ["x"]) for name in (
        "conversation", "prompt", "mcp_servers", "plugins", "models", "container", "moderation", "access_programs",
        "background_options", "fallbacks", "web_search_options",
    )),
    *(("messages", name, "x") for name in (
        "mcp_servers", "container", "inference_geo", "compaction", "thread", "fallbacks", "fallback_credit_token",
        "billing_policy", "user_profile_id", "workspace_id", "speed",
    )),
    ("chat", "web_search_options", {}), ("chat", "enable_search", True),
    ("responses", "context_management", [{"type": "compaction", "compact_threshold": 1000}]),
    ("chat", "context_management", [{"type": "compaction"}]),
    ("messages", "context_management", {"edits": [{"type": "compact_20260112"}]}),
    ("messages", "context_management", {"edits": {"type": "compact_20260112"}}),
    ("count_tokens", "mcp_servers", [{"type": "url", "url": "https://x"}]),
    ("responses", "reasoning.mode", "pro"), ("chat", "reasoning.mode", "pro"),
    ("chat", "service_tier", "fast"), ("generate", "serviceTier", "priority"), ("generate", "cachedContent", "c"),
    ("generate", "continuationToken", "c"), ("generate", "generationConfig.routingConfig", {"autoMode": {}}),
    ("generate", "generationConfig.modelSelectionConfig", {"x": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "name", "value"), REFUSED)
def test_what_the_provider_would_do_or_bill_in_another_way_is_refused(dialect: Dialect, name: str, value: Any) -> None:
    outer, _, inner = name.partition(".")
    fields: Json = {outer: {inner: value} if inner else value}
    with pytest.raises(RequestRefused, match=f"field `{re.escape(name)}` is not let through") as refused:
        passed(dialect, **fields)
    assert refused.value.code == "not_allowed"


@pytest.mark.parametrize("value", [None, False, []])
def test_what_is_not_asked_for_is_not_refused(value: object) -> None:
    call = passed("chat", enable_search=value, mcp_servers=value, plugins=value)
    assert call.data.keys() == {"model", "messages"}


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "count_tokens", "embeddings", "generate"])
def test_a_field_that_nobody_knows_is_taken_out(dialect: Dialect) -> None:
    call = passed(dialect, made_tomorrow={"web": True}, extra_body={"plugins": ["web"]}, nothing=None)
    assert not {"made_tomorrow", "madeTomorrow", "extra_body", "extraBody", "nothing"} & call.data.keys()
    assert len(call.removed) == 2


@pytest.mark.parametrize(
    ("dialect", "field"),
    [("chat", "reasoning"), ("chat", "thinking"), ("chat", "stream_options"), ("responses", "text"),
     ("responses", "prompt_cache_options"), ("messages", "output_config"), ("messages", "diagnostics"),
     ("generate", "generationConfig"), ("generate", "toolConfig")],
)  # fmt: skip
def test_options_that_nobody_knows_are_taken_out_of_what_is_known(dialect: Dialect, field: str) -> None:
    fields: Json = {field: {"madeTomorrow": 1}}
    call = passed(dialect, **fields)
    assert (call.data[field], call.removed) == ({}, [f"{field}.madeTomorrow"])


def test_how_context_is_cleared_is_looked_into() -> None:
    edit = {"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}}
    call = passed("messages", context_management={"edits": [{**edit, "then": {"type": "compact_20260112"}}]})
    assert (call.data["context_management"], call.removed) == ({"edits": [edit]}, ["context_management.edits.then"])


def test_what_nobody_knows_is_not_included() -> None:
    call = passed("responses", include=["reasoning.encrypted_content", "made.tomorrow", {}])
    assert call.data["include"] == ["reasoning.encrypted_content"]
    assert call.removed == ["include.made.tomorrow", "include.{}"]


def test_what_is_included_is_looked_at_once() -> None:
    class Counted(dict[str, int]):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return super().__eq__(other)

        __hash__ = None

    kept, removed = keep_known("responses", {"include": [Counted(number=number) for number in range(100)]})
    assert (kept["include"], len(removed), Counted.compared) == ([], 100, 0)


def test_a_count_of_googles_is_looked_into() -> None:
    inner = {"model": "models/m", "contents": [{"parts": [{"text": "x"}]}], "madeTomorrow": 1}
    call = passed("count_generate", contents=None, generateContentRequest=inner)
    assert call.removed == ["generateContentRequest.madeTomorrow"]
    parts = [{"file_data": {"file_uri": "https://x"}}]
    with pytest.raises(RequestRefused, match="fileData"):
        passed("count_generate", generateContentRequest={"contents": [{"parts": parts}]})


def test_the_call_log_names_what_was_taken_out(tmp_path: Path) -> None:
    with ScriptedUpstream(lambda body, protocol: Reply("x")) as upstream, live(tmp_path, upstream) as through:
        own = {"type": "function", "name": "run", "parameters": {}}
        assert through.post("responses", tools=[own, {"type": "web_search"}], made_tomorrow=1).status_code == 200
        assert through.post("chat").status_code == 200
        notes = through.gateway.state().notes
    assert upstream.requests[0].body.keys() == {"model", "input", "max_output_tokens", "tools"}
    assert [line["taken_out"] for line in through.lines] == [["web_search", "made_tomorrow"], []]
    assert [note.name for note in notes] == ["hosted_tools"], "an extra of a client is no finding about the agent"
