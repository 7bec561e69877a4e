"""The replay backend: the same request gets the same answer, out of a cassette, without a key or a network."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import JsonValue

from bench.errors import UserError
from bench.gateway.backend import BackendError, Reply
from bench.gateway.cassette import CassetteMiss, Turn, find_turn, load_cassette
from bench.gateway.meter import Tariff
from bench.gateway.protocol import ChatCall

PREFIX = "replay/"
_SET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def cassette_path(model: str, role: str, case: str, cassettes: Path | None) -> Path:
    """Where the cassette of `model` (`replay/<set>`) for `case` lies; other roles than main have their own file."""
    name = model.removeprefix(PREFIX)
    if cassettes is None:
        raise UserError(f"model {model!r} replays a cassette, and this agent has none", remedy="choose another model")
    if not _SET.fullmatch(name):
        raise UserError(f"model {model!r}: {name!r} is not the name of a cassette set", remedy="such as replay/demo")
    return cassettes / name / (f"{case}.yaml" if role == "main" else f"{case}.{role}.yaml")


class ReplayBackend:
    """Answers from one cassette."""

    def __init__(self, model: str, path: Path) -> None:
        self._cassette = load_cassette(path)
        self._name = f"{path.parent.name}/{path.name}"
        self._tariff = Tariff(model, self._cassette.as_prices(), simulated=True)

    @property
    def tariff(self) -> Tariff:
        return self._tariff

    def complete(self, call: ChatCall, lost: Callable[[], bool]) -> Reply:
        del lost
        try:
            index = find_turn(self._cassette, call.request.messages)
        except CassetteMiss as miss:
            raise BackendError(424, "cassette_miss", f"cassette {self._name}, {miss}", infra=True) from None
        return _reply(self._cassette.turns[index], index, call.digest, self._cassette.model)

    def close(self) -> None:
        """Nothing is held open."""


def _reply(turn: Turn, index: int, digest: str, model: str) -> Reply:
    message: dict[str, JsonValue] = {"role": "assistant", "content": turn.content or None}
    if turn.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call_{index}_{position}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.text},
            }
            for position, call in enumerate(turn.tool_calls)
        ]
    finish = "tool_calls" if turn.tool_calls else "stop"
    prompt = turn.usage.input + turn.usage.cache_read
    body: dict[str, JsonValue] = {
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
    return Reply(body, message, finish, turn.tokens, model)
