"""What an answer says, in one form for all protocols: that of an OpenAI chat message."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from bench.gateway.protocol import Dialect, Json, shallow


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
    """What `content` says; None when it is no answer of this protocol."""
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
    if dialect == "count_tokens":
        return Answer() if isinstance(body.get("input_tokens"), int) else None
    reader = {"chat": _chat, "responses": responses_answer, "messages": _messages}[dialect]
    answer = reader(body)
    if answer is not None:
        answer.text_size = len(content)
    return answer


def _chat(body: Json) -> Answer | None:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        return None
    answer = _facts(body)
    answer.message = first["message"]
    answer.finish_reason = _text(first.get("finish_reason"))
    return answer


def responses_answer(body: Json) -> Answer | None:
    """What an OpenAI response object says."""
    output = body.get("output")
    if not isinstance(output, list):
        return None
    answer = _facts(body)
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
    answer.message = message("".join(texts), calls, "\n".join(thoughts))
    answer.finish_reason = _text(body.get("status"))
    return answer


def _messages(body: Json) -> Answer | None:
    content = body.get("content")
    if not isinstance(content, list) or body.get("type") == "error":
        return None
    answer = _facts(body)
    answer.message = blocks_message(content)
    answer.finish_reason = _text(body.get("stop_reason"))
    return answer


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


def _facts(body: Json) -> Answer:
    return Answer(model=_text(body.get("model")), usage=body.get("usage"), id=_text(body.get("id")))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
