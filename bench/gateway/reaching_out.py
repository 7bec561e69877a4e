"""What a provider would fetch for a request: addresses, files and items that are stored there, other servers.

Every object at every depth is looked at, whatever it stands in, but for the agent's own data: the arguments of tool
calls, the schemas of tools, metadata, and what an earlier answer cited. A provider reads none of that as a place.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Literal

from bench.gateway.client_tools import is_clients
from bench.gateway.json_values import Json

_Kind = Literal["address", "stored", "text", "own", "schema", "plain"]
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ADDRESS_KEY = re.compile(r"(?:.*[_.])?(?:url|uri|href)s?")
_STORED_KEY = re.compile(
    r"(?:.*_)?(?:file|container|skill|vector_store|connector|asset|upload|attachment|document|media|image|audio|video)"
    r"_ids?"
)
_OWN_KEYS = frozenset(
    {"arguments", "metadata", "annotations", "logprobs", "part_metadata", "function_call", "grounding_metadata"}
)
"""What is in these is the agent's own data, or what an earlier answer said of itself."""
_TOOL_FIELDS = frozenset({"tools", "functions", "definition"})
_SCHEMA_KEYS = frozenset(
    {"parameters", "parameters_json_schema", "input_schema", "output_schema", "input_examples", "response",
     "response_json_schema", "format"}
)  # fmt: skip
_TEXT_KEYS = frozenset(
    {
        "text", "content", "output", "arguments", "input", "thinking", "thought", "reasoning", "reasoning_content",
        "refusal", "summary", "title", "context", "name", "description", "instructions", "system", "system_instruction",
        "prompt", "stdout", "stderr", "logs", "result", "code", "query", "queries", "diff", "patch", "pattern",
        "cited_text", "document_title", "filename", "display_name", "path", "error", "message", "reason", "id",
        "call_id", "tool_call_id", "tool_use_id", "role", "type", "status", "snippet", "tool_name",
    }
)  # fmt: skip
"""Fields whose strings are words for the model, and may begin with an address as any text may."""
_SCHEME = re.compile(
    r"[\x00-\x20]*(?:(?:https?|ftps?|file|gs|s3|oss|blob|ipfs):|(?!data:)[A-Za-z][\w+.-]*:[/\\]{2})", re.I
)
_PLAIN_SOURCES = ("base64", "text", "content", "json")
_FETCHING_TYPES = frozenset(
    {
        "item_reference", "container_upload", "compaction_trigger", "program", "program_output",
        "image_generation_call",
    }
)  # fmt: skip
"""Objects that stand for something at the provider, or make it do something, by their type alone."""
_OWN_BY_TYPE: dict[str, frozenset[str]] = {
    **dict.fromkeys(("tool_use", "server_tool_use", "custom_tool_call"), frozenset({"input"})),
    **dict.fromkeys(("local_shell_call", "shell_call", "computer_call", "apply_patch_call"),
                    frozenset({"action", "actions", "operation"})),
    "browser_state": frozenset({"tabs", "state_changes"}),
    "computer_call_output": frozenset({"current_url"}),
    "search_result": frozenset({"source"}),
    "text": frozenset({"citations"}),
}  # fmt: skip
"""Type of an object -> what of it is the agent's own data. The addresses in there are those that the client was at."""


def find_fetched(value: Any, name: str) -> str:
    """The name of the field by which the provider would fetch something for `value`, which is field `name`; or ""."""
    pending: list[tuple[Any, str, bool]] = [(value, name, name in _TOOL_FIELDS)]
    while pending:
        held, key, in_tool = pending.pop()
        if isinstance(held, list):
            pending.extend((it, key, in_tool) for it in held)
        elif isinstance(held, str):
            if _is_place(held, key):
                return key
        elif isinstance(held, dict):
            if fault := _fetched_by(held, key):
                return fault
            pending.extend(_inside(held, key, in_tool))
    return ""


def _inside(held: Json, key: str, in_tool: bool) -> list[tuple[Any, str, bool]]:
    kind = held.get("type")
    own = _OWN_BY_TYPE.get(kind, frozenset()) if isinstance(kind, str) else frozenset()
    found: list[tuple[Any, str, bool]] = []
    for name, value in held.items():
        if value is None or isinstance(value, bool | int | float) or name in own:
            continue
        what = _kind(name)
        if what == "own" or (what == "schema" and (in_tool or _spelled(key) == "function_response")):
            continue
        if kind == "text" and name == "data":
            continue
        shown = f"{key[:60]}.{name}" if name in ("url", "uri") else name
        found.append((value, shown, in_tool or name in _TOOL_FIELDS))
    return found


def _fetched_by(held: Json, key: str) -> str:
    """The field of this one object that names something to fetch by more than an address."""
    kind = held.get("type")
    if isinstance(kind, str) and (kind.lower() in _FETCHING_TYPES or kind.lower().startswith("mcp_")):
        return kind[:60]
    # A call without its result is carried out when the conversation goes on. The search for tools looks at the request.
    if kind == "server_tool_use" and not str(held.get("name")).startswith("tool_search_tool"):
        return "server_tool_use"
    for name in held:
        if _kind(name) == "stored" and held[name]:
            return str(name)
    tools = held.get("tools")
    # What a client's search has found is offered to the model as the tools of the request are.
    if tools and not (isinstance(tools, list) and all(is_clients(tool) for tool in tools)):
        return "tools"
    definition = held.get("definition")
    if kind == "tool_definition" and not is_clients(definition):
        return "definition"
    source, file, audio = held.get("source"), held.get("file"), held.get("audio")
    if isinstance(source, dict) and source.get("type") not in _PLAIN_SOURCES:
        return f"source.{str(source.get('type'))[:60]}"
    if isinstance(file, dict) and not file.get("file_data"):
        return "file"
    if isinstance(audio, dict) and audio.get("id"):
        return "audio"
    # Google's, at whatever depth and in whichever of its spellings; OpenAI's holds the content itself.
    return "fileData" if _spelled(key) == "file_data" else ""


def _is_place(text: str, key: str) -> bool:
    what = _kind(key)
    if what == "address":
        return not text.startswith("data:")
    # Readers of addresses leave these characters out, wherever they stand.
    return what != "text" and bool(_SCHEME.match(text[:200].translate(_LEFT_OUT)))


_LEFT_OUT = {ord(it): None for it in "\t\r\n"}


@lru_cache(maxsize=4096)
def _spelled(name: str) -> str:
    return _CAMEL.sub("_", name[:100]).lower().replace("-", "_")


@lru_cache(maxsize=4096)
def _kind(name: str) -> _Kind:
    spelled = _spelled(name)
    if spelled in _OWN_KEYS:
        return "own"
    if _ADDRESS_KEY.fullmatch(spelled):
        return "address"
    if _STORED_KEY.fullmatch(spelled):
        return "stored"
    if spelled in _SCHEMA_KEYS:
        return "schema"
    return "text" if spelled in _TEXT_KEYS else "plain"
