"""What an answer says, in one form for all protocols: that of an OpenAI chat message."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from bench.formats.record import Tokens
from bench.gateway import google
from bench.gateway.request import COUNTS, Dialect, Json, shallow


@dataclass
class Answer:
    """An answer, as far as it was understood; nothing of its form is certain, for it is the provider's."""

    message: Json = field(default_factory=dict)
    finish_reason: str = ""
    model: str = ""
    """The name that the upstream gave itself."""
    usage: Any = None
    """As the provider wrote it."""
    id: str = ""
    complete: bool = True
    text_size: int = 0
    """Bytes of text and arguments, for an estimate where usage is missing."""


def read_answer(dialect: Dialect, content: bytes) -> Answer | None:
    """What `content` says; None when it is not an answer of this protocol."""
    try:
        body = shallow(json.loads(content.decode("utf-8")))
    except ValueError:
        return None
    except RecursionError:
        # A model can be brought to nest without end. It has answered all the same, and how is for the client to read.
        return Answer(text_size=len(content))
    if not isinstance(body, dict):
        return None
    if dialect == "embeddings":
        found = isinstance(body.get("data"), list)
        return Answer(model=_text(body.get("model")), usage=body.get("usage")) if found else None
    if dialect in COUNTS:
        counted = body.get("totalTokens" if dialect == "count_generate" else "input_tokens")
        return Answer() if isinstance(counted, int) else None
    answer = answer_of(dialect, body)
    if answer is not None:
        answer.text_size = len(content)
    return answer


def answer_of(dialect: Dialect, body: Json) -> Answer | None:
    """What the object of a whole answer in a conversation says; None when it is not an answer of this protocol."""
    found = _READERS[dialect](body)
    if found is None:
        return None
    said, finish = found
    model, usage, identity = _FIELDS.get(dialect, ("model", "usage", "id"))
    return Answer(said, _text(finish), _text(body.get(model)), body.get(usage), _text(body.get(identity)))


def _chat(body: Json) -> tuple[Json, object] | None:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        return None
    return first["message"], first.get("finish_reason")


def _responses(body: Json) -> tuple[Json, object] | None:
    output = body.get("output")
    if not isinstance(output, list):
        return None
    texts, thoughts, calls = [], [], []
    for item in output:
        if not isinstance(item, dict):
            continue
        if item.get("type") == "message":
            texts += [_text(part.get("text")) for part in _list(item.get("content")) if isinstance(part, dict)]
        elif item.get("type") == "reasoning":
            thoughts += [_text(part.get("text")) for part in _list(item.get("summary")) if isinstance(part, dict)]
        elif str(item.get("type")).endswith("_call"):
            given = item.get("arguments", item.get("input", item.get("action")))
            calls.append(tool_call(item.get("call_id"), item.get("name") or item.get("type"), given))
    return message("".join(texts), calls, "\n".join(thoughts)), body.get("status")


def _messages(body: Json) -> tuple[Json, object] | None:
    content = body.get("content")
    if not isinstance(content, list) or body.get("type") == "error":
        return None
    return blocks_message(content), body.get("stop_reason")


def _google(body: Json) -> tuple[Json, object] | None:
    ends = google.finished(body)
    if not ends and not isinstance(body.get("candidates"), list):
        return None
    return parts_message(google.candidate_parts(body)), ends[0][1] if ends else ""


_FIELDS: dict[Dialect, tuple[str, str, str]] = {"generate": ("modelVersion", "usageMetadata", "responseId")}
"""The names of model, usage and id where they are not those of the others."""
_READERS: dict[Dialect, Callable[[Json], tuple[Json, object] | None]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "generate": _google,
}
"""Per protocol, what an answer says as a chat message, and how it ended."""


def blocks_message(blocks: list[Any]) -> Json:
    """Anthropic's content blocks as one message."""
    texts, thoughts, calls = [], [], []
    for block in blocks:
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        if kind == "text":
            texts.append(_text(block.get("text")))
        elif kind == "thinking":
            thoughts.append(_text(block.get("thinking")))
        elif kind == "tool_use":
            calls.append(tool_call(block.get("id"), block.get("name"), block.get("input")))
    return message("".join(texts), calls, "\n".join(thoughts))


def parts_message(parts: list[Json]) -> Json:
    """Google's parts as one message."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for part in parts:
        if isinstance(part.get("text"), str):
            (thoughts if part.get("thought") is True else texts).append(part["text"])
        if found := google.function_call(part):
            calls.append(tool_call(*found))
    return message("".join(texts), calls, "".join(thoughts))


def message(text: str, calls: list[Json], thoughts: str = "") -> Json:
    made: Json = {"role": "assistant", "content": text or None}
    if thoughts:
        made["reasoning_content"] = thoughts
    if calls:
        made["tool_calls"] = calls
    return made


def tool_call(identity: object, name: object, arguments: object) -> Json:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": _text(identity), "type": "function", "function": {"name": _text(name), "arguments": given}}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


Rule = Literal["openai", "responses", "anthropic", "gemini", "litellm", "embeddings", "google"]
"""openai, responses: input includes cached tokens, output includes reasoning.
anthropic: input excludes cache reads and writes. gemini (its OpenAI-compatible address): input includes cached tokens,
thinking is in the total alone. google (generateContent): input includes cached tokens and leaves out what tools of
Google's used, output leaves out thinking. litellm: as openai, and input includes cache writes, too."""
_RULES: dict[Dialect, Rule] = {
    "responses": "responses",
    "messages": "anthropic",
    "count_tokens": "anthropic",
    "embeddings": "embeddings",
    "generate": "google",
    "count_generate": "google",
}
_Count = Annotated[int, Field(ge=0, le=10**12)]


def rule_of(dialect: Dialect, chat: Rule = "openai") -> Rule:
    """How usage in answers of `dialect` is to be read; providers differ in what they count in chat completions."""
    return chat if dialect == "chat" else _RULES[dialect]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Creation(_Loose):
    ephemeral_5m_input_tokens: _Count | None = None
    ephemeral_1h_input_tokens: _Count | None = None


class _Details(_Loose):
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    cache_creation_tokens: _Count | None = None
    cache_creation_token_details: _Creation | None = None
    reasoning_tokens: _Count | None = None
    thinking_tokens: _Count | None = None


_NONE = _Details()


class _Chat(_Loose):
    prompt_tokens: _Count
    completion_tokens: _Count = 0
    total_tokens: _Count | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None


class _Responses(_Loose):
    input_tokens: _Count
    output_tokens: _Count
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Messages(_Loose):
    input_tokens: _Count
    output_tokens: _Count
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    cache_creation: _Creation | None = None
    output_tokens_details: _Details | None = None


class _Google(_Loose):
    promptTokenCount: _Count
    candidatesTokenCount: _Count | None = None
    thoughtsTokenCount: _Count | None = None
    cachedContentTokenCount: _Count | None = None
    toolUsePromptTokenCount: _Count | None = None
    cacheWriteTokenCount: _Count | None = None
    """Of a translated answer: Google itself does not bill writing."""


def normalise(rule: Rule, usage: JsonValue) -> Tokens | None:
    """Counts that are ours. None when they are missing or make no sense."""
    try:
        if rule == "responses":
            return _responses_tokens(_Responses.model_validate(usage))
        if rule == "anthropic":
            return _messages_tokens(_Messages.model_validate(usage))
        if rule == "google":
            return _google_tokens(_Google.model_validate(usage))
        if rule == "embeddings":
            return Tokens(input_uncached=_Chat.model_validate(usage).prompt_tokens)
        read = _Chat.model_validate(usage)
        if isinstance(usage, dict) and "completion_tokens" not in usage:
            return None
        return _chat_tokens(read, rule)
    except ValidationError:
        return None


def _chat_tokens(read: _Chat, rule: Rule) -> Tokens | None:
    given, brought = read.prompt_tokens_details or _NONE, read.completion_tokens_details or _NONE
    cached = given.cached_tokens or 0
    written = given.cache_write_tokens or 0
    hour = 0
    output, reasoning = read.completion_tokens, brought.reasoning_tokens or 0
    if rule == "litellm":
        cached = max(cached, read.cache_read_input_tokens or 0)
        written = max(written, given.cache_creation_tokens or 0, read.cache_creation_input_tokens or 0)
        hour = (given.cache_creation_token_details or _Creation()).ephemeral_1h_input_tokens or 0
    if rule == "gemini" and read.total_tokens is not None:
        # What the total has beyond both is thinking, which is billed as output.
        hidden = max(read.total_tokens - read.prompt_tokens - output, 0)
        output, reasoning = output + hidden, max(reasoning, hidden)
    return _checked(read.prompt_tokens - cached - written, cached, written, hour, output, reasoning)


def _responses_tokens(read: _Responses) -> Tokens | None:
    given, brought = read.input_tokens_details or _NONE, read.output_tokens_details or _NONE
    cached, written = given.cached_tokens or 0, given.cache_write_tokens or 0
    reasoning = brought.reasoning_tokens or 0
    return _checked(read.input_tokens - cached - written, cached, written, 0, read.output_tokens, reasoning)


def _messages_tokens(read: _Messages) -> Tokens | None:
    parts = read.cache_creation
    hour = (parts.ephemeral_1h_input_tokens or 0) if parts else 0
    split = hour + ((parts.ephemeral_5m_input_tokens or 0) if parts else 0)
    written = max(read.cache_creation_input_tokens or 0, split)
    details = read.output_tokens_details or _NONE
    reasoning = details.thinking_tokens or details.reasoning_tokens or 0
    return _checked(
        read.input_tokens, read.cache_read_input_tokens or 0, written, hour, read.output_tokens, reasoning
    )  # fmt: skip


def _google_tokens(read: _Google) -> Tokens | None:
    cached, written = read.cachedContentTokenCount or 0, read.cacheWriteTokenCount or 0
    given, thought = read.promptTokenCount + (read.toolUsePromptTokenCount or 0), read.thoughtsTokenCount or 0
    output = (read.candidatesTokenCount or 0) + thought
    return _checked(given - cached - written, cached, written, 0, output, thought)


def _checked(plain: int, cached: int, written: int, hour: int, output: int, reasoning: int) -> Tokens | None:
    if plain < 0 or reasoning > output or hour > written:
        return None
    return Tokens(
        input_uncached=plain,
        cache_read=cached,
        cache_write=written,
        cache_write_1h=hour,
        output=output,
        reasoning=reasoning,
    )
