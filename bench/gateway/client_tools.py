"""Which tools the client carries out, and which the provider would run."""

from __future__ import annotations

from typing import Any

from bench.gateway import google
from bench.gateway.json_values import Json
from bench.gateway.request import Call, not_allowed

_CLIENT_TOOLS = frozenset(
    {"function", "custom", "namespace", "local_shell", "apply_patch", "computer", "computer_use_preview"}
)
_CLIENT_TOOL_STEMS = ("bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
"""Anthropic's own tool types, without the date they end with: the client carries them out, but for the search, which
looks among the tools of the request and nowhere else."""
_CLIENT_KEYS = frozenset(
    {
        "type", "function", "custom", "name", "description", "parameters", "input_schema", "output_schema",
        "input_examples", "strict", "format", "tools", "execution", "environment", "defer_loading", "allowed_callers",
        "cache_control", "async", "display_width", "display_height", "display_width_px", "display_height_px",
        "display_number", "enable_zoom", "max_characters", "eager_input_streaming", "configs", "id",
    }
)  # fmt: skip
"""What a tool of the client may say. A key beside these may be all that makes it one of the provider's: litellm and
others read a tool of Google's so."""
_PROVIDER_KEYS = frozenset(
    {
        "googlesearch", "googlesearchretrieval", "enterprisewebsearch", "codeexecution", "urlcontext", "googlemaps",
        "filesearch", "retrieval", "mcpservers", "parallelaisearch", "exaaisearch",
    }
)  # fmt: skip
"""Keys by which a tool is one of Google's; without case and `_`."""
_HOSTED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("web_search", "web_fetch", "browser", "$web_search", "google", "enterprise_web_search", "url_context",
      "x_search"), "reads the web"),
    (("code_interpreter", "code_execution", "shell", "programmatic_tool_calling"), "runs code at the provider"),
    (("file_search", "retrieval", "collections_search", "document_library", "vector"), "reads files stored there"),
    (("mcp", "connector"), "calls other servers"),
    (("image_generation",), "makes images"),
    (("tool_search",), "searches at the provider"),
    (("advisor",), "asks another model"),
)  # fmt: skip
"""What tools of the provider do, by how their types begin. Types that are not known are not let through either."""


def strip_tools(call: Call) -> None:
    """Take out what the provider would run; raises `RequestRefused` where nothing else is left."""
    for name in ("tools", "functions"):
        if not isinstance(call.data.get(name), list | None):
            raise not_allowed(name, "it must be a list")
    chosen = _check_choice(call.data.get("tool_choice"))
    for name in ("tools", "functions"):
        if not (tools := call.data.get(name)):
            continue
        own, stripped = [tool for tool in tools if is_clients(tool)], [tool for tool in tools if not is_clients(tool)]
        kinds = [str(tool.get("type"))[:60] if isinstance(tool, dict) else type(tool).__name__ for tool in stripped]
        if stripped and (not own or chosen in kinds or chosen == "required"):
            raise not_allowed(name, run_elsewhere(kinds))
        strange: set[str] = set()
        kept = [_known_keys(tool, strange) for tool in own]
        if stripped or strange:
            call.data = {**call.data, name: kept}
        call.stripped += kinds
        call.removed += [f"{name}.{key}"[:60] for key in sorted(strange)]


def _check_choice(choice: Any) -> object:
    """The type of the tool that the model must use; refuses what the provider would run."""
    chosen = choice.get("type") if isinstance(choice, dict) else choice
    allowed = [choice, choice.get("allowed_tools")] if isinstance(choice, dict) else []
    for listed in [it["tools"] for it in allowed if isinstance(it, dict) and isinstance(it.get("tools"), list)]:
        if strange := [
            str(tool.get("type"))[:60] for tool in listed if isinstance(tool, dict) and not is_clients(tool)
        ]:
            raise not_allowed("tool_choice", run_elsewhere(strange))
    if isinstance(chosen, str) and not _is_clients_type(chosen) and _done_by(chosen):
        raise not_allowed("tool_choice", run_elsewhere([chosen[:60]]))
    return chosen


def _known_keys(tool: Json, strange: set[str]) -> Json:
    """`tool` without keys that nobody knows, which are added to `strange`."""
    strange |= tool.keys() - _CLIENT_KEYS
    kept = {name: value for name, value in tool.items() if name in _CLIENT_KEYS}
    if isinstance(kept.get("function"), dict):
        kept["function"] = _known_keys(kept["function"], strange)
    if isinstance(kept.get("tools"), list):
        kept["tools"] = [_known_keys(it, strange) if isinstance(it, dict) else it for it in kept["tools"]]
    return kept


def is_clients(tool: object) -> bool:
    """Whether the client carries this tool out."""
    if not isinstance(tool, dict):
        return False
    kind, function = tool.get("type"), tool.get("function")
    keys = [*tool, *(function if isinstance(function, dict) else ())]
    if any(name.replace("_", "").lower() in _PROVIDER_KEYS for name in keys):
        return False
    named = (function if isinstance(function, dict) else tool).get("name")
    # So are those of Moonshot named that run there.
    if isinstance(named, str) and named.startswith("$"):
        return False
    if kind is None:
        return "name" in tool or "function" in tool
    environment = tool.get("environment")
    if kind == "shell" or isinstance(environment, dict):
        return kind == "shell" and isinstance(environment, dict) and environment.get("type") == "local"
    if kind == "tool_search":
        return tool.get("execution") == "client"
    if kind == "namespace":
        inner = tool.get("tools")
        return isinstance(inner, list) and all(is_clients(it) for it in inner)
    return isinstance(kind, str) and _is_clients_type(kind)


def _is_clients_type(kind: str) -> bool:
    return kind in _CLIENT_TOOLS or kind.startswith(_CLIENT_TOOL_STEMS)


def google_without_hosted(data: Json) -> tuple[Json, list[str]]:
    """A request of Google's without the tools that Google runs, and their names."""
    tools = data.get("tools")
    if tools is None:
        return data, []
    if not isinstance(tools, list):
        raise not_allowed("tools", "it must be a list")
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
        raise not_allowed("tools", run_elsewhere(stripped))
    return {**data, "tools": kept}, stripped


def run_elsewhere(names: list[str]) -> str:
    """Why tools of these types are not let through."""
    reasons = {name: _done_by(name) for name in names[:5]}
    said = ", ".join(f"{name} ({does})" if does else name for name, does in reasons.items())
    return f"{said} would be run by the provider"


def _done_by(name: str) -> str:
    return next((does for stems, does in _HOSTED if _snake(name).startswith(stems)), "")


def _snake(name: str) -> str:
    return "".join(f"_{it.lower()}" if it.isupper() else it for it in name)
