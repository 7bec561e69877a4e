"""OpenAI's chat completions as the gateway understands them: what it reads, forwards, drops and refuses."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from bench.files import sha256_bytes

MAX_BODY_BYTES = 20_000_000
DEFAULT_OUTPUT_CAP = 4096
"""Tokens that a call may bring back when it names no cap of its own."""
MAX_OUTPUT_CAP = 1_000_000
_DEEPEST = 60
_NOT_FORWARDED = frozenset({"metadata", "store", "user", "service_tier"})
"""Accepted, because clients send them by themselves, and dropped: they keep data upstream or change the price."""


class RequestRefused(Exception):
    """A request that goes no further: HTTP status, machine-readable code, and the reason in one line."""

    def __init__(self, status: int, code: str, message: str, **extra: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.extra = extra

    def body(self) -> dict[str, JsonValue]:
        """The error in OpenAI's spelling."""
        return {"error": {"message": str(self), "type": self.code, "code": self.code, "param": None, **self.extra}}


class _Open(BaseModel):
    """Part of a foreign protocol: what is not named here passes through unread."""

    model_config = ConfigDict(extra="allow", frozen=True)


class ImageUrl(_Open):
    url: str = Field(pattern=r"^data:")
    """Inline only: an address would make the provider fetch it, which is network access by the back door."""


class Part(_Open):
    type: Literal["text", "image_url", "refusal"]
    text: str | None = None
    image_url: ImageUrl | None = None


class Function(_Open):
    name: str
    arguments: str = "{}"


class ToolCall(_Open):
    type: Literal["function"] = "function"
    function: Function


class Message(_Open):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None

    @property
    def text(self) -> str:
        """The words of the message, without pictures."""
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class Tool(_Open):
    type: Literal["function"]
    """A provider's own search, code or file tools reach the network and are billed apart."""


Cap = Annotated[int, Field(strict=True, ge=1, le=MAX_OUTPUT_CAP)]


class ChatRequest(BaseModel):
    """The fields the gateway lets through; any other is refused by name, for it may spend or reach out unseen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    messages: list[Message] = Field(min_length=1)
    tools: list[Tool] | None = None
    max_tokens: Cap | None = None
    max_completion_tokens: Cap | None = None
    n: Literal[1] | None = None
    stream: bool | None = None
    service_tier: Literal["auto", "default"] | None = None
    tool_choice: JsonValue = None
    parallel_tool_calls: JsonValue = None
    temperature: JsonValue = None
    top_p: JsonValue = None
    stop: JsonValue = None
    seed: JsonValue = None
    response_format: JsonValue = None
    presence_penalty: JsonValue = None
    frequency_penalty: JsonValue = None
    logit_bias: JsonValue = None
    logprobs: JsonValue = None
    top_logprobs: JsonValue = None
    reasoning_effort: JsonValue = None
    verbosity: JsonValue = None
    prompt_cache_key: JsonValue = None
    stream_options: JsonValue = None
    metadata: JsonValue = None
    store: JsonValue = None
    user: JsonValue = None

    @field_validator("stream")
    @classmethod
    def _not_streamed(cls, value: bool | None) -> bool | None:
        if value:
            raise ValueError("streaming comes with a later version of the gateway; ask without it")
        return value


@dataclass(frozen=True)
class ChatCall:
    """One validated request."""

    request: ChatRequest
    data: dict[str, Any]
    """The body as it came: what is forwarded is taken from here, so nothing is altered by parsing."""
    size: int
    digest: str

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.data["messages"])

    @property
    def output_cap(self) -> int:
        """The most tokens this call may bring back."""
        return self.request.max_completion_tokens or self.request.max_tokens or DEFAULT_OUTPUT_CAP

    @property
    def worst_input(self) -> int:
        """A cautious count of input tokens: text that averages under two bytes a token is rare."""
        return self.size // 2 + 1

    def upstream(self, model: str) -> dict[str, Any]:
        """The body to forward: the real model, an output cap always, and no stored or tagged data."""
        body = {key: value for key, value in self.data.items() if key not in _NOT_FORWARDED and value is not None}
        body["model"] = model
        if "max_tokens" not in body and "max_completion_tokens" not in body:
            body["max_completion_tokens"] = DEFAULT_OUTPUT_CAP
        return body


def read_chat(body: bytes) -> ChatCall:
    """`body` as a chat request; raises `RequestRefused` with the first fault."""
    try:
        data = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, "invalid_json", f"the body is not JSON: {_first_line(error)}") from None
    if not isinstance(data, dict):
        raise RequestRefused(400, "invalid_request", f"the body must be an object, is {type(data).__name__}")
    _check_plain(data)
    try:
        request = ChatRequest.model_validate(data)
    except ValidationError as error:
        raise RequestRefused(400, "invalid_request", _fault(error)) from None
    return ChatCall(request, data, len(body), digest_json(data))


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
    raise RequestRefused(400, "invalid_request", f"the body is nested more than {_DEEPEST} levels deep")


def digest_json(data: object) -> str:
    """One digest for equal JSON values, whatever their spacing and the order of their keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256_bytes(text.encode("ascii"))


def _fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part)[:60] for part in first["loc"][:6]) or "body"
    if first["type"] == "extra_forbidden":
        return f"field `{field}` is not let through by this gateway; leave it out"
    return f"field `{field}`: {first['msg'].removeprefix('Value error, ')}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
