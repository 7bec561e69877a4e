"""What an answer says, in one form for all protocols: that of an OpenAI chat message."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.gateway import google
from bench.gateway.json_values import Json, read_shallow
from bench.gateway.request import COUNTS, Dialect


@dataclass
class Answer:
    """An answer, as far as it was understood; nothing of its form is certain, for it is the provider's."""

    message: Json = field(default_factory=dict)
    finish_reason: str = ""
    model: str = ""
    """The name that the upstream gave itself."""
    usage: Any = None
    """As the provider wrote it."""
    tier: str = ""
    """By which of its tiers the upstream says that it has served this, where its usage does not say so."""
    id: str = ""
    complete: bool = True
    text_size: int = 0
    """Bytes of text and arguments, for an estimate where usage is missing."""


def read_answer(dialect: Dialect, content: bytes) -> Answer | None:
    """What `content` says; None when it is not an answer of this protocol."""
    try:
        body = read_shallow(content.decode("utf-8"))
    except ValueError:
        return None
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
    tier = _text(body.get("service_tier"))
    return Answer(said, _text(finish), _text(body.get(model)), body.get(usage), tier, _text(body.get(identity)))


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
    if not ends and not isinstance(body.get("candidates"), list) and not _says_nothing(body):
        return None
    return parts_message(google.candidate_parts(body)), ends[0][1] if ends else ""


def _says_nothing(body: Json) -> bool:
    # Gemini may answer without any candidate. It bills that, and would bill another try.
    return isinstance(body.get("usageMetadata"), dict) and not body.get("error")


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
