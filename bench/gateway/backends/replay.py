"""The replay backends: the same request gets the same answer, out of a cassette, without a key or a network."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

from pydantic import ValidationError

from bench.base.documents import is_file
from bench.base.errors import UserError
from bench.formats.seeds import REPLAY_PREFIX
from bench.gateway.answers import read_answer
from bench.gateway.backends import BackendError, CallHistory, Headers, Response
from bench.gateway.backends.cassettes import Message, Turn, find_turn, load_cassette
from bench.gateway.backends.recorded import CassetteMiss, find_exchange, load_exchanges
from bench.gateway.json_values import Json
from bench.gateway.request import Call
from bench.gateway.usage import Rule, rule_of

PREFIX = REPLAY_PREFIX
_LONGEST_LINE = 10_000
_RECORDED = re.compile(r"schema:\s*2")
_SEED = re.compile(r"seed:\s*['\"]?([0-9a-f]{1,32})['\"]?")
_SET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_JSON: Headers = [("Content-Type", "application/json")]
_EVENTS: Headers = [("Content-Type", "text/event-stream; charset=utf-8")]


def cassette_path(model: str, role: str, case: str, cassettes: Path | None) -> Path:
    """Where the cassette of `model` (`replay/<set>`) for `case` lies; other roles than main have their own file."""
    name = model.removeprefix(PREFIX)
    if cassettes is None:
        raise UserError(f"model {model!r} replays a cassette, and this agent has none", remedy="choose another model")
    if not _SET.fullmatch(name):
        raise UserError(f"model {model!r}: {name!r} is not the name of a cassette set", remedy="such as replay/demo")
    return cassettes / name / cassette_name(case, role)


def cassette_name(case: str, role: str) -> str:
    return f"{case}.yaml" if role == "main" else f"{case}.{role}.yaml"


def is_recorded(path: Path) -> bool:
    """Whether the cassette at `path` was recorded, not written by hand as turns."""
    return _heading_line(path, _RECORDED) is not None


def _heading_line(path: Path, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """The first of a cassette's first lines that matches; None where the file cannot be read, too."""
    if not is_file(path):
        return None
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            head = [lines.readline(_LONGEST_LINE) for _ in range(20)]
    except OSError:
        return None
    return next((match for line in head if (match := pattern.fullmatch(line.rstrip()))), None)


def recorded_seed(models: Mapping[str, str], case: str, cassettes: Path) -> int | None:
    """The seed of the data that the replayed cassettes of a cell were recorded with; None where they name none."""
    for role, model in models.items():
        name = model.removeprefix(PREFIX)
        if model.startswith(PREFIX) and _SET.fullmatch(name):
            found = _heading_line(cassettes / name / cassette_name(case, role), _SEED)
            if found is not None:
                return int(found[1], 16)
    return None


class _ReplayBackend:
    """Answers out of the cassette at `path`."""

    _chat_rule: Rule = "openai"

    def __init__(self, model: str, path: Path) -> None:
        self.name = model
        self._path = f"{path.parent.name}/{path.name}"

    def rule(self, call: Call) -> Rule:
        return rule_of(call.dialect, self._chat_rule)

    def _miss(self, why: object) -> BackendError:
        # An answer, as any other: what is asked is the agent's choice.
        return BackendError(424, "cassette_miss", f"cassette {self._path}, {why}", infra=False)

    def answered(self, call: Call) -> None:
        """A cassette cannot fail."""

    async def outage(self) -> str:
        return ""

    async def close(self) -> None:
        """Nothing is held open."""


class TurnBackend(_ReplayBackend):
    """Answers chat requests from the turns of one cassette."""

    def __init__(self, path: Path) -> None:
        self._cassette = load_cassette(path)
        super().__init__(self._cassette.model, path)

    async def answer(self, call: Call, body: Json, history: CallHistory) -> Response:
        if call.dialect != "chat":
            raise self._miss(f"it answers chat completions, not {call.dialect}")
        try:
            messages = [Message.model_validate(message) for message in call.items]
            index = find_turn(self._cassette, messages)
        except ValidationError as error:
            raise BackendError(
                400, "invalid_request", f"field `messages`: {error.errors()[0]['msg']}", infra=False
            ) from None
        except CassetteMiss as miss:
            raise self._miss(miss) from None
        made = {**_completion(self._cassette.turns[index], index, call.digest), "model": call.model}
        if call.stream:
            return Response(200, _EVENTS, chunks=_in_pieces(_chunks(made)))
        content = json.dumps(made).encode("ascii")
        answer = read_answer("chat", content)
        if answer is not None:
            answer.model = self._cassette.model
        return Response(200, _JSON, content, answer=answer)


class ExchangeBackend(_ReplayBackend):
    """Answers requests of every protocol from a recorded cassette."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        heading, self._played = load_exchanges(path)
        super().__init__(heading.model, path)
        self._redact = redact
        if heading.model.startswith("gemini/"):
            self._chat_rule = "gemini"

    async def answer(self, call: Call, body: Json, history: CallHistory) -> Response:
        try:
            found = find_exchange(self._played, call.dialect, call.data, self._redact).exchange
        except CassetteMiss as miss:
            raise self._miss(miss) from None
        if found.events is not None:
            if not call.stream:
                raise self._miss("the answer was recorded as a stream, and is asked for in one piece")
            return Response(200, _EVENTS, chunks=_in_pieces([event.encode() for event in found.events if event]))
        content = found.body.encode() if isinstance(found.body, str) else json.dumps(found.body).encode("ascii")
        answer = read_answer(call.dialect, content) if found.status == 200 else None
        return Response(found.status, _JSON, content, answer=answer)


async def _in_pieces(parts: list[bytes]) -> AsyncGenerator[bytes, None]:
    for part in parts:
        yield part


def _completion(turn: Turn, index: int, digest: str) -> Json:
    message: Json = {"role": "assistant", "content": turn.content or None}
    if turn.tool_calls:
        message["tool_calls"] = [
            {"id": f"call_{index}_{at}", "type": "function", "function": {"name": it.name, "arguments": it.text}}
            for at, it in enumerate(turn.tool_calls)
        ]
    finish = "tool_calls" if turn.tool_calls else "stop"
    prompt = turn.usage.input + turn.usage.cache_read
    return {
        "id": f"chatcmpl-{digest[-24:]}",
        "object": "chat.completion",
        "created": int(time.time()),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": turn.usage.output,
            "total_tokens": prompt + turn.usage.output,
            "prompt_tokens_details": {"cached_tokens": turn.usage.cache_read},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _chunks(completion: Json) -> list[bytes]:
    """A completion as the events of a stream with usage."""
    choice, usage = completion["choices"][0], completion["usage"]
    base = {**completion, "object": "chat.completion.chunk", "usage": None}
    delta = dict(choice["message"])
    if delta.get("tool_calls"):
        delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(delta["tool_calls"])]
    steps = [(delta, None), ({}, choice["finish_reason"])]
    made = [{**base, "choices": [{"index": 0, "delta": part, "finish_reason": end}]} for part, end in steps]
    made.append({**base, "choices": [], "usage": usage})
    return [*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in made), b"data: [DONE]\n\n"]
