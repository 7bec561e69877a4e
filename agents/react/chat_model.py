"""A conversation with tools, and what can be made of the model's answers, however odd."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TypeAlias

from shared.chat_model import Connection
from shared.texts import clean

Message: TypeAlias = dict[str, object]

_OUTPUT_TOKENS = 8192


@dataclass(frozen=True)
class Call:
    """One tool call as the model wrote it; the arguments may be anything."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    content: str
    calls: list[Call]
    usage: object = None

    @property
    def raw_calls(self) -> list[Message]:
        return [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self.calls
        ]

    def as_message(self) -> Message:
        """The answer as history for the next request."""
        message: Message = {"role": "assistant", "content": self.content}
        if self.calls:
            message["tool_calls"] = self.raw_calls
        return message


class ChatModel:
    def __init__(self, connection: Connection, model: str, *, cache_marks: bool = False) -> None:
        self._connection = connection
        self._model = model
        self._cache_marks = cache_marks

    def complete(self, messages: list[Message], tools: list[Message]) -> Answer:
        """The next answer of the conversation; raises what `Connection.send` does."""
        if self._cache_marks:
            messages = with_cache_marks(messages)
        body = {"model": self._model, "messages": messages, "tools": tools, "max_completion_tokens": _OUTPUT_TOKENS}
        return read_answer(self._connection.send(body))


def with_cache_marks(messages: list[Message]) -> list[Message]:
    """The same conversation, marked to be cached up to the system message and up to its end.

    The second mark moves with every call, so that the whole growing conversation is read from the cache.
    """
    marked = list(messages)
    for position in {0, len(messages) - 1}:
        text = messages[position].get("content")
        if isinstance(text, str) and text:
            part = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
            marked[position] = {**messages[position], "content": [part]}
    return marked


def read_answer(content: bytes) -> Answer:
    """What a completion says. Missing or misshapen parts count as absent: the loop then tells the model so."""
    try:
        body = json.loads(content)
        message = body["choices"][0]["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return Answer("", [])
    if not isinstance(message, dict):
        return Answer("", [])
    text = message.get("content")
    listed = message.get("tool_calls")
    calls = [_read_call(index, call) for index, call in enumerate(listed if isinstance(listed, list) else [])]
    return Answer(clean(text) if isinstance(text, str) else "", [call for call in calls if call], body.get("usage"))


def _read_call(index: int, call: object) -> Call | None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return None
    name, arguments, given = function.get("name"), function.get("arguments"), call.get("id")
    return Call(
        id=given if isinstance(given, str) and given else f"call_{time.time_ns()}_{index}",
        name=clean(name) if isinstance(name, str) else "",
        arguments=clean(arguments) if isinstance(arguments, str) else json.dumps(arguments),
    )
