"""The model behind an OpenAI-compatible address, and what can be made of its answers, however odd."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TypeAlias

from texts import clean

Message: TypeAlias = dict[str, object]

_OUTPUT_TOKENS = 8192
_ANSWER_S = 900.0
_CONNECT_TRIES = 4
_PAYMENT_REQUIRED = 402


class LimitUsedUp(Exception):
    """The run's money, steps or time are used up: no further call will be answered."""


class ModelUnreachable(Exception):
    """There is no answer, and asking again will not bring one."""


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
    def __init__(self, base_url: str, key: str, model: str, *, cache_marks: bool = False) -> None:
        self._url = base_url.rstrip("/") + "/chat/completions"
        if not self._url.startswith(("http://", "https://")):
            raise ValueError("OPENAI_BASE_URL is not an http(s) address")
        self._key = key
        self._model = model
        self._cache_marks = cache_marks

    def complete(self, messages: list[Message], tools: list[Message]) -> Answer:
        if self._cache_marks:
            messages = with_cache_marks(messages)
        body = json.dumps(
            {"model": self._model, "messages": messages, "tools": tools, "max_completion_tokens": _OUTPUT_TOKENS}
        ).encode("ascii")
        for attempt in range(_CONNECT_TRIES):
            try:
                return read_answer(self._post(body))
            except urllib.error.HTTPError as error:
                raise _refusal(error) from None
            except (OSError, http.client.HTTPException) as error:
                # The gateway repeats what is worth repeating; only the way to it may not be there yet.
                reason = error
                time.sleep(0.2 * 2**attempt)
        raise ModelUnreachable(f"no connection to the model: {reason}")

    def _post(self, body: bytes) -> bytes:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url, data=body, headers=headers)  # noqa: S310  checked in __init__
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as response:  # noqa: S310
            content: bytes = response.read()
            return content


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


def _refusal(error: urllib.error.HTTPError) -> LimitUsedUp | ModelUnreachable:
    with error:
        text = error.read(2000).decode("utf-8", "replace")
    with contextlib.suppress(ValueError, LookupError, TypeError):
        text = str(json.loads(text)["error"]["message"])
    message = f"{error.code} {' '.join(text.split())}"
    return LimitUsedUp(message) if error.code == _PAYMENT_REQUIRED else ModelUnreachable(message)
