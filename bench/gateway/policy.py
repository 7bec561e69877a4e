"""What may not pass: tools that the provider runs itself, addresses it would fetch, dearer service.

They are network access by the back door, and they are billed apart. `hosted` lifts this for cases that say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.gateway.protocol import Call, Dialect, Json, RequestRefused

_PLAIN_TIERS = frozenset({"auto", "default", "standard", "standard_only"})
_REFUSED_FIELDS: dict[Dialect, frozenset[str]] = {
    "chat": frozenset({"web_search_options", "plugins", "models", "route", "audio", "mcp_servers", "prompt"}),
    "responses": frozenset({"conversation", "prompt", "mcp_servers", "plugins", "models"}),
    "messages": frozenset({"mcp_servers", "container", "speed", "inference_geo"}),
}
_CLIENT_TOOLS = frozenset(
    {"function", "custom", "namespace", "local_shell", "apply_patch", "computer", "computer_use_preview"}
)
_CLIENT_TOOL_STEMS = ("bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
"""Anthropic's own tool types that the client carries out, without the date they end with."""
_HOSTED_BETAS = ("mcp-", "code-execution", "files-api", "web-search", "web-fetch", "fast-mode", "skills")


def apply_policy(call: Call, hosted: bool) -> None:
    """Refuse or strip what `call` may not have; raises `RequestRefused`."""
    tier = call.data.get("service_tier")
    if tier is not None and not (isinstance(tier, str) and tier in _PLAIN_TIERS):
        raise _not_allowed("service_tier", "dearer service is not part of the benchmark")
    if call.data.get("background"):
        raise _not_allowed("background", "answers are taken while the cell lives")
    modalities = call.data.get("modalities")
    if modalities is not None and modalities != ["text"]:
        raise _not_allowed("modalities", "only text comes back")
    if hosted:
        return
    for name in sorted(_REFUSED_FIELDS.get(call.dialect, frozenset()) & call.data.keys()):
        if call.data[name] not in (None, [], {}):
            raise _not_allowed(name, "the provider would reach out by itself")
    _strip_tools(call)
    for part in _parts(call.items):
        if fault := _reaches_out(part):
            raise _not_allowed(fault, "the provider would fetch it; send the content itself")


def allowed_betas(value: str, hosted: bool) -> str:
    """An `anthropic-beta` header without what the provider would run or fetch."""
    names = [name.strip() for name in value.split(",")]
    return ",".join(name for name in names if name and (hosted or not name.startswith(_HOSTED_BETAS)))


def _strip_tools(call: Call) -> None:
    tools = call.data.get("tools")
    if not isinstance(tools, list):
        return
    stripped = [tool for tool in tools if not _is_clients(tool)]
    if not stripped:
        return
    names = [str(tool.get("type"))[:60] if isinstance(tool, dict) else type(tool).__name__ for tool in stripped]
    choice = call.data.get("tool_choice")
    chosen = choice.get("type") if isinstance(choice, dict) else choice
    if len(stripped) == len(tools) or chosen in names or chosen == "required":
        raise _not_allowed("tools", f"{', '.join(names)} would be run by the provider")
    call.data = {**call.data, "tools": [tool for tool in tools if _is_clients(tool)]}
    call.stripped = names


def _is_clients(tool: object) -> bool:
    """Whether the client carries this tool out."""
    if not isinstance(tool, dict):
        return False
    kind = tool.get("type", "custom")
    if kind == "shell":
        environment = tool.get("environment")
        return isinstance(environment, dict) and environment.get("type") == "local"
    return kind is None or (isinstance(kind, str) and (kind in _CLIENT_TOOLS or kind.startswith(_CLIENT_TOOL_STEMS)))


def _parts(items: list[Any]) -> Iterator[Json]:
    """Every part of every message, results of tools included."""
    pending = list(items)
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            for name in ("content", "output"):
                if isinstance(item.get(name), list):
                    pending.extend(item[name])


def _reaches_out(part: Json) -> str:
    """The name of the field by which the provider would fetch something, or nothing."""
    kind = part.get("type")
    picture = part.get("image_url")
    address = picture.get("url") if isinstance(picture, dict) else picture
    if isinstance(address, str) and not address.startswith("data:"):
        return "image_url"
    for name in ("file_url", "file_id"):
        if part.get(name):
            return name
    file, source = part.get("file"), part.get("source")
    if isinstance(file, dict) and (file.get("file_id") or not file.get("file_data")):
        return "file"
    if isinstance(source, dict) and source.get("type") in ("url", "file"):
        return f"source.{source['type']}"
    if kind in ("item_reference", "container_upload", "mcp_list_tools", "mcp_approval_response"):
        return str(kind)
    return ""


def _not_allowed(name: str, why: str) -> RequestRefused:
    return RequestRefused(400, "not_allowed", f"field `{name}` is not let through by this gateway: {why}")
