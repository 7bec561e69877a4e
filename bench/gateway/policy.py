"""What a request may not have: what the provider would run, fetch, keep or bill in another way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.gateway import google
from bench.gateway.request import Call, Dialect, Json, RequestRefused

_PLAIN_TIERS = frozenset({"auto", "default", "standard", "standard_only"})
_REFUSED_FIELDS: dict[Dialect, frozenset[str]] = {
    "chat": frozenset({"web_search_options", "plugins", "models", "route", "audio", "mcp_servers", "prompt"})
    | {"search_parameters", "search_settings", "enable_search", "search_options", "compound_custom"},
    "responses": frozenset({"conversation", "prompt", "mcp_servers", "plugins", "models"}),
    "messages": frozenset({"mcp_servers", "container", "speed", "inference_geo"}),
}
_CLIENT_TOOLS = frozenset(
    {"function", "custom", "namespace", "local_shell", "apply_patch", "computer", "computer_use_preview"}
)
_CLIENT_TOOL_STEMS = ("bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
"""Anthropic's own tool types, without the date they end with: the client carries them out, but for the search, which
looks among the tools of the request and nowhere else."""
_HOSTED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("web_search", "web_fetch", "browser", "$web_search", "google", "enterprise_web_search", "url_context",
      "x_search"), "reads the web"),
    (("code_interpreter", "code_execution", "shell"), "runs code at the provider"),
    (("file_search", "retrieval", "collections_search", "document_library", "vector"), "reads files stored there"),
    (("mcp", "connector"), "calls other servers"),
    (("image_generation",), "makes images"),
    (("tool_search",), "searches at the provider"),
    (("advisor",), "asks another model"),
)  # fmt: skip
"""What tools of the provider do, by how their types begin. Types that are not known are not let through either."""
_GOOGLE_KEYS = frozenset(
    {
        "googlesearch", "googlesearchretrieval", "enterprisewebsearch", "codeexecution", "urlcontext", "googlemaps",
        "filesearch", "retrieval", "mcpservers",
    }
)  # fmt: skip
"""Keys by which a tool of any protocol becomes one of Google's where litellm translates; without case and `_`."""
_HOSTED_BETAS = ("mcp-", "code-execution", "files-api", "web-search", "web-fetch", "fast-mode", "skills")


def apply_policy(call: Call, hosted: bool) -> None:
    """Refuse or strip what `call` may not have; raises `RequestRefused`."""
    tier = call.data.get("service_tier")
    if tier is not None and not (isinstance(tier, str) and tier in _PLAIN_TIERS):
        raise _not_allowed("service_tier", "more expensive service is not part of the benchmark")
    if call.data.get("background"):
        raise _not_allowed("background", "answers are taken while the cell lives")
    if call.dialect in ("generate", "count_generate"):
        _check_google(call, hosted)
        return
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


def _check_google(call: Call, hosted: bool) -> None:
    tier, config = call.data.get("serviceTier"), call.data.get("generationConfig") or {}
    if tier is not None and not (isinstance(tier, str) and tier.lower() in _PLAIN_TIERS | {"unspecified"}):
        raise _not_allowed("serviceTier", "more expensive service is not part of the benchmark")
    modalities = config.get("responseModalities")
    if modalities not in (None, [], ["TEXT"], ["text"], "TEXT", "text"):
        raise _not_allowed("generationConfig.responseModalities", "only text comes back")
    if call.data.get("cachedContent"):
        raise _not_allowed("cachedContent", "what is stored there is not known; send the content itself")
    if hosted:
        return
    call.data, call.stripped = _google_without_hosted(call.data)
    inner = call.data.get("generateContentRequest")
    if isinstance(inner, dict):
        call.data = {**call.data, "generateContentRequest": _google_without_hosted(inner)[0]}
    for content in google.contents_of(call.data):
        if any("fileData" in part for part in google.parts_of(content)):
            raise _not_allowed("fileData", "the provider would fetch it; send the content itself as inlineData")


def _google_without_hosted(data: Json) -> tuple[Json, list[str]]:
    """A request without the tools that Google runs, and their names."""
    tools = data.get("tools")
    if not isinstance(tools, list):
        return data, []
    kept = [
        {name: value for name, value in tool.items() if name in google.CLIENT_TOOLS}
        for tool in tools
        if isinstance(tool, dict)
    ]
    kept = [tool for tool in kept if tool]
    stripped = [
        name[:60] for tool in tools if isinstance(tool, dict) for name in tool if name not in google.CLIENT_TOOLS
    ]
    stripped += [type(tool).__name__ for tool in tools if not isinstance(tool, dict)]
    if stripped and not kept:
        raise _not_allowed("tools", _run_elsewhere(stripped))
    return {**data, "tools": kept}, stripped


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
        raise _not_allowed("tools", _run_elsewhere(names))
    call.data = {**call.data, "tools": [tool for tool in tools if _is_clients(tool)]}
    call.stripped = names


def _is_clients(tool: object) -> bool:
    """Whether the client carries this tool out."""
    if not isinstance(tool, dict):
        return False
    if any(str(name).replace("_", "").lower() in _GOOGLE_KEYS for name in tool):
        return False
    kind = tool.get("type", "custom")
    if kind == "shell":
        environment = tool.get("environment")
        return isinstance(environment, dict) and environment.get("type") == "local"
    if kind == "tool_search":
        return tool.get("execution") == "client"
    if kind == "namespace":
        inner = tool.get("tools")
        return isinstance(inner, list) and all(_is_clients(it) for it in inner)
    return kind is None or (isinstance(kind, str) and (kind in _CLIENT_TOOLS or kind.startswith(_CLIENT_TOOL_STEMS)))


def _run_elsewhere(names: list[str]) -> str:
    """Why tools of these types are not let through."""
    reasons = {
        name: next((does for stems, does in _HOSTED if _snake(name).startswith(stems)), "") for name in names[:5]
    }
    said = ", ".join(f"{name} ({does})" if does else name for name, does in reasons.items())
    return f"{said} would be run by the provider"


def _snake(name: str) -> str:
    return "".join(f"_{it.lower()}" if it.isupper() else it for it in name)


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
    # What a client's search has found is offered to the model as the tools of the request are.
    if isinstance(part.get("tools"), list) and not all(_is_clients(tool) for tool in part["tools"]):
        return "tools"
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
