"""The model behind an OpenAI-compatible address: the way to it, and one prompt in, one answer out."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TypeAlias

from .texts import clean

Json: TypeAlias = dict[str, object]

LONGEST_ANSWER_TOKENS = 8192
_ANSWER_S = 900.0
_CONNECT_TRIES = 4
_PAYMENT_REQUIRED = 402
_AGENTS_FAULT = frozenset({400, 413, 422})
_DISPENSABLE = ("temperature", "tool_choice", "stop")
"""Fields that some models refuse and that an answer can do without."""


class LimitUsedUp(Exception):
    """The run's money, calls or time are used up: no further call will be answered."""


class TimeIsOver(LimitUsedUp):
    """This agent's own clock says so, before the run's limit is hit."""


class ModelUnreachable(Exception):
    """There is no answer, and asking again will not bring one."""


class PromptRefused(ModelUnreachable):
    """The provider refused this very request, for example because it is too long."""


@dataclass(frozen=True)
class Answer:
    text: str
    arguments: str | None
    """Of the function call, as the model wrote them; None without one."""
    cut_off: bool
    """The model had more to say than it may."""
    usage: object


@dataclass(frozen=True)
class Question:
    model: str
    prompt: str
    temperature: float
    longest: int = LONGEST_ANSWER_TOKENS
    function: Json | None = None
    """A function that the model has to call."""
    stop: str = ""

    def body(self) -> Json:
        # One user message: some providers want at least one, and none refuses it.
        body: Json = {
            "model": self.model,
            "messages": [{"role": "user", "content": clean(self.prompt)}],
            "max_completion_tokens": self.longest,
            "temperature": self.temperature,
        }
        if self.stop:
            body["stop"] = [self.stop]
        if self.function is not None:
            body["tools"] = [{"type": "function", "function": self.function}]
            body["tool_choice"] = {"type": "function", "function": {"name": self.function["name"]}}
        return body


class Connection:
    """The way to the model until `deadline`, as a time of day."""

    def __init__(self, base_url: str, key: str, deadline: float = math.inf) -> None:
        self._url = base_url.rstrip("/") + "/chat/completions"
        if not self._url.startswith(("http://", "https://")):
            raise ValueError("OPENAI_BASE_URL is not an http(s) address")
        self._key = key
        self._deadline = deadline

    def send(self, request: Json) -> bytes:
        """The answer; raises `LimitUsedUp` (send nothing after it), `PromptRefused` or `ModelUnreachable`."""
        body = json.dumps(request).encode("ascii")
        for attempt in range(_CONNECT_TRIES):
            left = self._deadline - time.time()
            if left <= 0:
                raise TimeIsOver("the time is over")
            try:
                return self._post(body, min(_ANSWER_S, left))
            except urllib.error.HTTPError as error:
                raise _refusal(error) from None
            except urllib.error.URLError as error:
                # Nothing was sent yet: the way to the gateway may not be there. All else it repeats by itself.
                reason: object = error.reason
                time.sleep(min(0.2 * 2**attempt, left))
            except (OSError, http.client.HTTPException) as error:
                if time.time() >= self._deadline:
                    raise TimeIsOver("the time ended while the model was answering") from None
                raise ModelUnreachable(f"the model's answer was lost: {error or type(error).__name__}") from None
        raise ModelUnreachable(f"no connection to the model: {reason}")

    def _post(self, body: bytes, timeout: float) -> bytes:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url, data=body, headers=headers)  # noqa: S310  checked in __init__
        with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
            content: bytes = response.read()
            return content


class ChatModel:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._unwanted: set[tuple[str, str]] = set()
        self.calls = 0
        """Answered so far, over all models."""

    def ask(self, question: Question) -> Answer:
        """One answer; raises what `Connection.send` does."""
        body = {name: value for name, value in question.body().items() if (question.model, name) not in self._unwanted}
        while True:
            try:
                answer = read_answer(self._connection.send(body))
            except PromptRefused as refusal:
                unwanted = [name for name in _DISPENSABLE if name in body and name in str(refusal)]
                if not unwanted:
                    raise
                for name in unwanted:
                    self._unwanted.add((question.model, name))
                    del body[name]
            else:
                self.calls += 1
                return answer


def read_answer(content: bytes) -> Answer:
    """What a completion says. Missing or misshapen parts count as absent."""
    try:
        body = json.loads(content)
        choice = body["choices"][0]
        message = choice["message"]
        text, calls = message.get("content"), message.get("tool_calls")
        arguments = calls[0]["function"]["arguments"] if calls else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Answer("", None, False, None)
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    said = clean(text) if isinstance(text, str) else ""
    return Answer(said, arguments, choice.get("finish_reason") == "length", body.get("usage"))


def _refusal(error: urllib.error.HTTPError) -> LimitUsedUp | ModelUnreachable:
    with error:
        text = error.read(2000).decode("utf-8", "replace")
    with contextlib.suppress(ValueError, LookupError, TypeError):
        text = str(json.loads(text)["error"]["message"])
    message = f"{error.code} {' '.join(text.split())}"
    if error.code == _PAYMENT_REQUIRED:
        return LimitUsedUp(message)
    return PromptRefused(message) if error.code in _AGENTS_FAULT else ModelUnreachable(message)
