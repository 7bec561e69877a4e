"""A request as the gateway understands it, whatever the protocol, and how one is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from pydantic import JsonValue

from bench.base.files import sha256_bytes
from bench.base.text import printable
from bench.gateway import google
from bench.gateway.json_values import DEEPEST, Json
from bench.gateway.run_budget import Limit
from bench.gateway.text_bound import most_tokens

Dialect = Literal["chat", "responses", "messages", "count_tokens", "embeddings", "generate", "count_generate"]
"""`generate`, `count_generate`: Google's generateContent and countTokens."""
MAX_BODY_BYTES = 20_000_000
MAX_OUTPUT_CAP = 1_000_000
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
    "generate": "contents",
    "count_generate": "contents",
}
"""The field that grows as a conversation goes on."""
CONVERSATIONS: frozenset[Dialect] = frozenset({"chat", "responses", "messages", "generate"})
"""Protocols in which an answer is a step."""
COUNTS: frozenset[Dialect] = frozenset({"count_tokens", "count_generate"})
"""Protocols that count tokens and bring no answer."""
_CAPS: dict[Dialect, tuple[str, ...]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}
"""Under which names a protocol bounds its answers; the first is the one that is set where there is none."""


class RequestRefused(Exception):
    """A request that goes no further: HTTP status, machine-readable code, and the reason in one line."""

    details: Json | None = None
    """What a client of Anthropic's reads in place of the message."""

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
        if dialect in ("generate", "count_generate"):
            return google.error_body(self.status, self.code, str(self), self.limit)
        if dialect in ("messages", "count_tokens"):
            return {"type": "error", "error": {**error, **({"details": self.details} if self.details else {})}}
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
    thinking: int = 0
    """Tokens of thought that the client asks for by number. Not every provider counts them within the cap."""
    earlier_tokens: int = 0
    """Tokens of an earlier answer that this request goes on from without sending it again."""
    media_tokens: int = 0
    """The most that images can be billed as."""
    media_bytes: int = 0
    """Of the body, in images that are not billed as text."""
    window: int = 0
    """Where there are documents: the most that the whole input can be, for nothing less bounds them."""
    text_tokens: int = 0
    """The most that the body can be billed as, without what is not billed as text."""
    stripped: list[str] = field(default_factory=list)
    """Tools that were taken out."""
    removed: list[str] = field(default_factory=list)
    """Fields that were taken out because nobody here knows what they ask for."""

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
        """The most tokens that the input can be billed as."""
        return max(self.text_tokens + self.earlier_tokens + self.media_tokens, self.window)

    @property
    def likely_input(self) -> int:
        """What the input probably counts, for answers that do not say."""
        likely = (self.size - self.media_bytes) // 3 + 1 + self.earlier_tokens + self.media_tokens
        return min(likely, self.window) if self.window else likely

    @property
    def counts_as_step(self) -> bool:
        return self.dialect in CONVERSATIONS

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
            if self.dialect == "generate":
                body["generationConfig"] = {**(self.data.get("generationConfig") or {}), "maxOutputTokens": cap}
            else:
                body[_CAPS[self.dialect][0]] = cap
        return body


def read_call(dialect: Dialect, body: bytes, headers: Mapping[str, str], target: google.Target | None = None) -> Call:
    """`body` as a call; raises `RequestRefused` with the first fault of form. `target`: what Google's path says."""
    try:
        data = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, "invalid_json", f"the body is not JSON: {_first_line(error)}") from None
    if not isinstance(data, dict):
        raise _invalid(f"the body must be an object, is {type(data).__name__}")
    _check_plain(data)
    _check_text(body, data)
    if target is not None:
        return _read_google(dialect, data, body, headers, target)
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
    call = Call(
        dialect, data, len(body), sha256_bytes(body), model, headers, bool(stream), cap, copies, _thinking(data)
    )  # fmt: skip
    call.text_tokens = _most_tokens(data)
    if dialect == "messages" and call.output_cap is None:
        raise _invalid("field `max_tokens`: is required")
    return call


def _read_google(dialect: Dialect, data: Json, body: bytes, headers: Mapping[str, str], target: google.Target) -> Call:
    try:
        data = google.one_spelling(data)
    except google.SpelledTwice as error:
        raise _invalid(f"field `{error}`: is there in two spellings") from None
    if dialect == "generate" or "generateContentRequest" not in data:
        _check_items(dialect, data)
    elif not isinstance(data["generateContentRequest"], dict):
        raise _invalid("field `generateContentRequest`: must be an object")
    config = data.get("generationConfig")
    if not isinstance(config, dict | None):
        raise _invalid("field `generationConfig`: must be an object")
    # The path decides; a field of this name is of no meaning to Google.
    data.pop("model", None)
    cap = _whole_number(config or {}, "maxOutputTokens", MAX_OUTPUT_CAP)
    copies = _whole_number(config or {}, "candidateCount", _MOST_COPIES) or 1
    call = Call(dialect, data, len(body), sha256_bytes(body), target.model, headers, target.stream, cap, copies)
    call.text_tokens = _most_tokens(data)
    return call


def _most_tokens(data: Json) -> int:
    """Of `data` as it is sent on: written anew, which makes some numbers longer and no character one of many."""
    return most_tokens(json.dumps(data, ensure_ascii=False).encode("utf-8"))


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
    values = [_whole_number(data, name, MAX_OUTPUT_CAP) for name in _CAPS.get(dialect, ())]
    # Servers differ in which of two they keep to.
    return max((value for value in values if value is not None), default=None)


def _thinking(data: Json) -> int:
    """The most tokens that are asked for beside the output's; a budget of another kind could be read by a provider."""
    own = ("thinking_budget", "thinking_token_budget")
    inner = ("thinking", "budget_tokens"), ("reasoning", "max_tokens"), *(("chat_template_kwargs", it) for it in own)
    asked = {name: data.get(name) for name in own}
    asked |= {f"{place}.{name}": data[place].get(name) for place, name in inner if isinstance(data.get(place), dict)}
    for name, value in asked.items():
        if value is not None and type(value) is not int:
            raise _invalid(f"field `{name}`: must be a whole number")
    return min(max((it for it in asked.values() if it is not None), default=0), MAX_OUTPUT_CAP)


def _whole_number(data: Json, name: str, most: int) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    # JSON's true is a whole number to Python.
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _invalid(f"field `{name}`: must be a whole number, 1 to {most}")
    return value


def not_allowed(name: str, why: str) -> RequestRefused:
    """What the policy says to a request with the field `name`."""
    return RequestRefused(400, "not_allowed", f"field `{name}` is not let through by this gateway: {why}")


def _invalid(message: str) -> RequestRefused:
    return RequestRefused(400, "invalid_request", message)


def _check_plain(data: object) -> None:
    """Refuse what JSON libraries disagree about: great depth, and numbers that overflow to infinity."""
    level = [data]
    for _ in range(DEEPEST):
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
    raise _invalid(f"the body is nested more than {DEEPEST} levels deep")


def _check_text(body: bytes, data: object) -> None:
    """Refuse halves of characters, which cannot be written anywhere."""
    # Writing everything once more costs time; only such an escape can stand for half of a character.
    if b"\\ud" in body.lower():
        try:
            json.dumps(data, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise RequestRefused(400, "invalid_json", "a text holds half of a surrogate pair") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
