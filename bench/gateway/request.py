"""A request as the gateway understands it, whatever the protocol, and how one is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from pydantic import JsonValue

from bench.base.files import sha256_bytes
from bench.base.text import printable
from bench.gateway.run_budget import Limit

Dialect = Literal["chat", "responses", "messages", "count_tokens", "embeddings"]
Json = dict[str, Any]
MAX_BODY_BYTES = 20_000_000
MAX_OUTPUT_CAP = 1_000_000
_DEEPEST = 60
_LONGEST_REASON = 1000
_MOST_COPIES = 16
_MOST_ITEMS = 10_000
"""Each is written down by itself."""
ROUTES: dict[str, Dialect] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
    "/messages/count_tokens": "count_tokens",
    "/embeddings": "embeddings",
}
ITEMS: dict[Dialect, str] = {
    "chat": "messages",
    "responses": "input",
    "messages": "messages",
    "count_tokens": "messages",
    "embeddings": "input",
}
"""The field that grows as a conversation goes on."""
_CAPS: dict[Dialect, tuple[str, ...]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}
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


class RequestRefused(Exception):
    """A request that goes no further: HTTP status, machine-readable code, and the reason in one line."""

    def __init__(self, status: int, code: str, message: str, limit: Limit | None = None) -> None:
        super().__init__(printable(message[:_LONGEST_REASON]))
        self.status = status
        self.code = code
        self.limit = limit

    def body(self, dialect: Dialect | None = None) -> dict[str, JsonValue]:
        """The error in the spelling of the protocol."""
        error: dict[str, JsonValue] = {"message": str(self), "type": self.code, "code": self.code}
        if self.limit:
            error["limit"] = self.limit
        if dialect in ("messages", "count_tokens"):
            return {"type": "error", "error": error}
        return {"error": {**error, "param": None}}


@dataclass
class Call:
    """One request that may go on."""

    dialect: Dialect
    data: Json
    """The body as it came."""
    size: int
    digest: str
    """Of the body as it came."""
    model: str
    headers: Mapping[str, str]
    """Of the request, names in lower case."""
    stream: bool = False
    output_cap: int | None = None
    """The most tokens the client wants back; None: it did not say."""
    copies: int = 1
    earlier_tokens: int = 0
    """Tokens of an earlier answer that this request goes on from without sending it again."""
    media_tokens: int = 0
    """The most that images and documents can be billed as."""
    media_bytes: int = 0
    """Of the body, in images and documents that are not billed as text."""
    stripped: list[str] = field(default_factory=list)
    """Tools that were taken out."""

    @property
    def items(self) -> list[Any]:
        """The conversation as a list, whatever form it came in."""
        found = self.data.get(ITEMS[self.dialect])
        return found if isinstance(found, list) else [found]

    @property
    def frame(self) -> Json:
        """Everything but the conversation."""
        return {key: value for key, value in self.data.items() if key != ITEMS[self.dialect]}

    @property
    def worst_input(self) -> int:
        """A cautious count of input tokens: text that averages under two bytes a token is rare."""
        return (self.size - self.media_bytes) // 2 + 1 + self.earlier_tokens + self.media_tokens

    @property
    def likely_input(self) -> int:
        """What the input probably counts, for answers that do not say."""
        return (self.size - self.media_bytes) // 3 + 1 + self.earlier_tokens + self.media_tokens

    @property
    def counts_as_step(self) -> bool:
        return self.dialect in ("chat", "responses", "messages")

    def wants_stream_usage(self) -> bool:
        """Whether a chat client asked for usage in its stream by itself."""
        options = self.data.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    def upstream(self, model: str, cap: int | None) -> Json:
        """The body to forward: the real model, usage in the stream, and the output cap `cap` where none is named."""
        body = {**self.data, "model": model}
        if self.dialect == "chat" and self.stream and not self.wants_stream_usage():
            body["stream_options"] = {**(self.data.get("stream_options") or {}), "include_usage": True}
        if cap is not None and self.output_cap is None and self.counts_as_step:
            body[_CAPS[self.dialect][0]] = cap
        return body


def read_call(dialect: Dialect, body: bytes, headers: Mapping[str, str]) -> Call:
    """`body` as a call; raises `RequestRefused` with the first fault of form."""
    try:
        data = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, "invalid_json", f"the body is not JSON: {_first_line(error)}") from None
    if not isinstance(data, dict):
        raise _invalid(f"the body must be an object, is {type(data).__name__}")
    _check_plain(data)
    _check_text(body, data)
    model = data.get("model")
    if not isinstance(model, str):
        raise _invalid("field `model`: must be a string")
    _check_items(dialect, data)
    stream = data.get("stream")
    if not isinstance(stream, bool | None):
        raise _invalid("field `stream`: must be true or false")
    if not isinstance(data.get("stream_options"), dict | None):
        raise _invalid("field `stream_options`: must be an object")
    cap, copies = _cap(dialect, data), _whole_number(data, "n", _MOST_COPIES) or 1
    call = Call(dialect, data, len(body), sha256_bytes(body), model, headers, bool(stream), cap, copies)
    if dialect == "messages" and call.output_cap is None:
        raise _invalid("field `max_tokens`: is required")
    return call


def _check_items(dialect: Dialect, data: Json) -> None:
    name = ITEMS[dialect]
    items = data.get(name)
    if dialect in ("responses", "embeddings") and isinstance(items, str):
        return
    if not isinstance(items, list) or not items:
        raise _invalid(f"field `{name}`: must be a list that is not empty")
    if len(items) > _MOST_ITEMS:
        raise _invalid(f"field `{name}`: has at most {_MOST_ITEMS} items")
    if dialect != "embeddings" and not all(isinstance(item, dict) for item in items):
        raise _invalid(f"field `{name}`: every item must be an object")


def _cap(dialect: Dialect, data: Json) -> int | None:
    values = (_whole_number(data, name, MAX_OUTPUT_CAP) for name in _CAPS.get(dialect, ()))
    return next((value for value in values if value is not None), None)


def _whole_number(data: Json, name: str, most: int) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    # JSON's true is a whole number to Python.
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _invalid(f"field `{name}`: must be a whole number, 1 to {most}")
    return value


def _invalid(message: str) -> RequestRefused:
    return RequestRefused(400, "invalid_request", message)


def _check_plain(data: object) -> None:
    """Refuse what JSON libraries disagree about: great depth, and numbers that overflow to infinity."""
    level = [data]
    for _ in range(_DEEPEST):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, float) and not math.isfinite(value):
                raise RequestRefused(400, "invalid_json", "a number is out of range")
        if not below:
            return
        level = below
    raise _invalid(f"the body is nested more than {_DEEPEST} levels deep")


def shallow(value: object, levels: int = _DEEPEST) -> Any:
    """`value` without what lies deeper than `levels`, which nothing here could walk through or write."""
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return "[nested too deeply]"
    if isinstance(value, list):
        return [shallow(item, levels - 1) for item in value]
    return {key: shallow(item, levels - 1) for key, item in value.items()}


def _check_text(body: bytes, data: object) -> None:
    """Refuse halves of characters, which cannot be written anywhere."""
    # Writing everything once more costs time; only such an escape can stand for half of a character.
    if b"\\ud" in body.lower():
        try:
            json.dumps(data, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise RequestRefused(400, "invalid_json", "a text holds half of a surrogate pair") from None


def digest_json(data: object) -> str:
    """One digest for equal JSON values, whatever their spacing and the order of their keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256_bytes(text.encode("ascii"))


def count_shared(earlier: list[Any], later: list[Any]) -> int:
    """How many items two conversations share, from the first."""
    shorter = min(len(earlier), len(later))
    return next((at for at in range(shorter) if earlier[at] != later[at]), shorter)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]


def apply_policy(call: Call, hosted: bool) -> None:
    """Refuse or strip what `call` may not have; raises `RequestRefused`."""
    tier = call.data.get("service_tier")
    if tier is not None and not (isinstance(tier, str) and tier in _PLAIN_TIERS):
        raise _not_allowed("service_tier", "more expensive service is not part of the benchmark")
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
