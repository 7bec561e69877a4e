"""What a request may not have: what the provider would run, fetch, keep or bill in another way.

Tools are told apart in `client_tools`, fields in `known_fields`, and `reaching_out` looks into what is left.
"""

from __future__ import annotations

from typing import Any

from bench.gateway.client_tools import google_without_hosted, strip_tools
from bench.gateway.json_values import Json, objects_in
from bench.gateway.known_fields import keep_known
from bench.gateway.reaching_out import find_fetched
from bench.gateway.request import ITEMS, Call, not_allowed

_PLAIN_TIERS = frozenset({"auto", "default", "standard", "standard_only"})
_PLAIN_LIVES = (None, "5m", "30m", "1h")
"""Of a cache of OpenAI's: half a day and more has a price of its own, which usage does not tell apart."""
_CACHE_MARKS = frozenset({"prompt_cache_options", "prompt_cache_breakpoint"})
"""OpenAI's objects that say how long what is cached lives: all of a request, what ends with a part of a message."""
_EXPENSIVE = "more expensive service is not part of the benchmark"
_FETCHED = "the provider would fetch it; send the content itself"
_OTHER_PARTS = (
    "system",
    "instructions",
    "documents",
    "tools",
    "functions",
    "systemInstruction",
    "generateContentRequest",
)
"""Fields beside the conversation that hold what the model is shown."""
_RUN = frozenset({"tools", "definition", "program", "server_tool_use"})
_NO_CONTENT = frozenset({"id", "type", "role", "status", "phase", "object"})
_HOSTED_BETAS = (
    "mcp-", "code-execution", "files-api", "web-search", "web-fetch", "fast-mode", "skills", "advisor",
    "server-side-fallback", "fallback-credit", "user-profiles", "message-threads", "managed-agents", "agent-memory",
    "compact-",
)  # fmt: skip


def apply_policy(call: Call, hosted: bool) -> None:
    """Refuse or strip what `call` may not have; raises `RequestRefused`."""
    _check_price(call.data)
    google = call.dialect in ("generate", "count_generate")
    if google:
        _check_google(call.data)
    elif call.data.get("modalities") not in (None, ["text"]):
        raise not_allowed("modalities", "only text comes back")
    if hosted:
        return
    call.data, call.removed = keep_known(call.dialect, call.data)
    if google:
        _strip_google(call)
    else:
        strip_tools(call)
    _check_reach(call)


def allowed_betas(value: str, hosted: bool) -> str:
    """An `anthropic-beta` header without what the provider would run or fetch."""
    names = [name.strip() for name in value.split(",")]
    return ",".join(name for name in names if name and (hosted or not name.lower().startswith(_HOSTED_BETAS)))


def _check_price(data: Json) -> None:
    """Refuse other prices than those of the table, and answers that come after the cell's end."""
    if not _is_plain(data.get("service_tier")):
        raise not_allowed("service_tier", _EXPENSIVE)
    if not _is_plain(data.get("speed")):
        raise not_allowed("speed", _EXPENSIVE)
    reasoning = data.get("reasoning")
    if isinstance(reasoning, dict) and not _is_plain(reasoning.get("mode")):
        raise not_allowed("reasoning.mode", "several answers are thought out and billed, of which a cap bounds one")
    if fault := _long_lived(data):
        raise not_allowed(fault, _EXPENSIVE)
    if data.get("background"):
        raise not_allowed("background", "answers are taken while the cell lives")


def _long_lived(data: Json) -> str:
    """The mark for a cache, at whatever depth, that would have it live longer than usage tells; or ""."""
    for held in objects_in(data):
        for name in _CACHE_MARKS & held.keys():
            if isinstance(held[name], dict) and held[name].get("ttl") not in _PLAIN_LIVES:
                return f"{name}.ttl"
    return ""


def _is_plain(tier: Any) -> bool:
    return tier is None or (isinstance(tier, str) and tier in _PLAIN_TIERS)


def _check_google(data: Json) -> None:
    tier, config = data.get("serviceTier"), data.get("generationConfig") or {}
    if tier is not None and not (isinstance(tier, str) and tier.lower() in _PLAIN_TIERS | {"unspecified"}):
        raise not_allowed("serviceTier", _EXPENSIVE)
    modalities = config.get("responseModalities")
    if modalities not in (None, [], ["TEXT"], ["text"], "TEXT", "text"):
        raise not_allowed("generationConfig.responseModalities", "only text comes back")
    if data.get("cachedContent"):
        raise not_allowed("cachedContent", "what is stored there is not known; send the content itself")


def _strip_google(call: Call) -> None:
    call.data, call.stripped = google_without_hosted(call.data)
    inner = call.data.get("generateContentRequest")
    if isinstance(inner, dict):
        inner, removed = keep_known("generate", inner)
        call.removed += [f"generateContentRequest.{name}" for name in removed]
        inner, stripped = google_without_hosted(inner)
        call.stripped += stripped
        call.data = {**call.data, "generateContentRequest": inner}


def _check_reach(call: Call) -> None:
    for name in (ITEMS[call.dialect], *_OTHER_PARTS):
        if fault := find_fetched(call.data.get(name), name):
            raise not_allowed(fault, "the provider would run it" if fault in _RUN else _FETCHED)
    for item in call.items if call.dialect == "responses" else []:
        # OpenAI takes an item without content for a reference, whether it says so or not.
        if isinstance(item, dict) and (item.keys() <= _NO_CONTENT or not (item.get("type") or item.get("role"))):
            raise not_allowed("item_reference", _FETCHED)
