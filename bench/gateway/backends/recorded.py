"""Recorded cassettes: requests and answers of any protocol as readable YAML, and how a request finds its answer."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, JsonValue

from bench.base.documents import read_yaml_documents
from bench.base.errors import UserError
from bench.base.model import Model, SeedText, validate
from bench.gateway.call_log import clip, write_all
from bench.gateway.json_values import Json, count_shared, digest_json, shallow
from bench.gateway.prices import Prices
from bench.gateway.request import ITEMS, Call, Dialect
from bench.gateway.streams import Events

_LARGEST_FILE = 200_000_000
_PASSING_FIELDS = frozenset(
    {"model", "stream", "stream_options", "metadata", "user", "prompt_cache_key", "safety_identifier", "store"}
)
"""They may differ between two runs of one agent, and no answer depends on them."""


class Heading(Model):
    """The first document of a recorded cassette."""

    schema_: Literal[2] = Field(alias="schema")
    model: str
    """Who answered, and whose prices are simulated."""
    seed: SeedText | None = None
    """Of the data that it was recorded with, which a replay meets again."""
    prices: Prices | None = None
    note: str = ""


class Exchange(Model):
    """One request and its answer."""

    protocol: Dialect
    frame: dict[str, JsonValue] | Literal["same"]
    """Everything of the request but the conversation; `same` as the exchange before."""
    after: int = Field(0, ge=0)
    """The exchange whose conversation this one goes on with, from 1; 0: none."""
    kept: int = Field(0, ge=0)
    new: list[JsonValue]
    """The messages after the `kept` first ones of it."""
    status: int = Field(200, ge=200, le=599)
    body: JsonValue = None
    events: list[str] | None = None
    """The events of a streamed answer as they were sent."""


@dataclass
class Played:
    """One exchange, complete."""

    protocol: Dialect
    frame: dict[str, JsonValue]
    items: list[Any]
    exchange: Exchange
    used: bool = False


class CassetteMiss(Exception):
    """The cassette has no answer to this request."""


def load_exchanges(path: Path) -> tuple[Heading, list[Played]]:
    """The recorded cassette at `path`; raises `UserError`."""
    documents = read_yaml_documents(path, _LARGEST_FILE, absent="record one, or correct the model's name")
    heading = validate(next(documents, None), Heading, where=path)
    found: list[Played] = []
    for number, document in enumerate(documents, 1):
        exchange = validate(document, Exchange, where=f"{path}, exchange {number}")
        if exchange.after >= number or (exchange.frame == "same" and number == 1):
            raise UserError(
                f"exchange {number} goes on from one that is not before it", where=path, remedy="record anew"
            )
        items = (found[exchange.after - 1].items[: exchange.kept] if exchange.after else []) + exchange.new
        frame = found[-1].frame if exchange.frame == "same" else exchange.frame
        found.append(Played(exchange.protocol, frame, items, exchange))
    return heading, found


def find_exchange(played: list[Played], dialect: Dialect, data: Json, redact: Callable[[str], str]) -> Played:
    """The exchange that answers the request `data`, or `CassetteMiss` that shows the nearest.

    The same request wins; else one that differs in nothing but what tools said, for that may hold timings and paths.
    """
    data = json.loads(redact(json.dumps(data)))
    items = data.pop(ITEMS[dialect], None)
    items = items if isinstance(items, list) else [items]
    same = [it for it in played if it.protocol == dialect]
    for blank in (False, True):
        wanted = _key(data, items, blank=blank)
        matching = [it for it in same if _key(it.frame, it.items, blank=blank) == wanted]
        # Repeated requests are answered in their order, and from the last answer on by that.
        if found := next((it for it in matching if not it.used), matching[-1] if matching else None):
            found.used = True
            return found
    raise CassetteMiss(_nearest(played, same, data, items))


def _key(frame: Json, items: list[Any], *, blank: bool) -> str:
    kept = {name: value for name, value in frame.items() if name not in _PASSING_FIELDS}
    return digest_json([kept, [_without_result(item) for item in items] if blank else items])


def _without_result(item: object) -> Any:
    """A message without what tools said."""
    if not isinstance(item, dict):
        return item
    if item.get("role") == "tool" or item.get("type") == "tool_result":
        return {**item, "content": ""}
    if str(item.get("type")).endswith("_call_output"):
        return {**item, "output": ""}
    if isinstance(item.get("functionResponse"), dict):
        return {**item, "functionResponse": {**item["functionResponse"], "response": {}}}
    if isinstance(item.get("parts"), list):
        return {**item, "parts": [_without_result(part) for part in item["parts"]]}
    if isinstance(item.get("content"), list):
        return {**item, "content": [_without_result(part) for part in item["content"]]}
    return item


def _nearest(played: list[Played], same: list[Played], frame: Json, items: list[Any]) -> str:
    if not same:
        spoken = ", ".join(sorted({it.protocol for it in played})) or "nothing"
        return f"no exchange of this protocol; the cassette has {spoken}"
    nearest = max(same, key=lambda it: (_common(it.items, items), -abs(len(it.items) - len(items))))
    number = played.index(nearest) + 1
    position = _common(nearest.items, items)
    if position < min(len(items), len(nearest.items)):
        sent, kept = _short(items[position]), _short(nearest.items[position])
        return f"nearest is exchange {number}; message {position} was sent as {sent}, the cassette has {kept}"
    if len(items) != len(nearest.items):
        return f"nearest is exchange {number}; {len(items)} messages were sent, the cassette has {len(nearest.items)}"
    names = sorted((frame.keys() | nearest.frame.keys()) - _PASSING_FIELDS)
    name = next((it for it in names if frame.get(it) != nearest.frame.get(it)), "")
    sent, kept = _short(frame.get(name)), _short(nearest.frame.get(name))
    return f"nearest is exchange {number}; field `{name}` was sent as {sent}, the cassette has {kept}"


def _common(one: list[Any], other: list[Any]) -> int:
    return count_shared([_without_result(item) for item in one], [_without_result(item) for item in other])


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:100]} ... {text[-50:]}"


class Recorder:
    """The cassette of one role. `redact` takes out everything that looks like a secret."""

    def __init__(
        self, path: Path, model: str, prices: Prices | None, redact: Callable[[str], str], seed: str | None = None
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._redact = redact
        self._count = 0
        self._frame = ""
        self._previous: dict[Dialect, tuple[int, list[Any]]] = {}
        self._write(Heading(schema_=2, model=model, prices=prices, seed=seed))

    def whole(self, call: Call, status: int, content: bytes) -> None:
        """Record an answer that came in one piece."""
        try:
            body = clip(shallow(json.loads(content.decode("utf-8"))), len(content))
        except (ValueError, RecursionError):
            body = content.decode("utf-8", "replace")
        self._exchange(call, {"status": status, "body": body})

    async def tee(self, call: Call, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Record a stream as it goes by; one that breaks is not recorded."""
        events, seen = Events(), bytearray()
        async with aclosing(chunks):
            async for chunk in chunks:
                seen += chunk
                yield chunk
        texts = [event.decode("utf-8", "replace") for event in events.feed(bytes(seen))]
        self._exchange(call, {"events": [*texts, events.rest().decode("utf-8", "replace")]})

    def close(self) -> None:
        os.close(self._file)

    def _exchange(self, call: Call, answer: dict[str, Any]) -> None:
        items = json.loads(self._redact(json.dumps(call.items)))
        after, before = self._previous.get(call.dialect, (0, []))
        kept = count_shared(before, items)
        self._count += 1
        self._previous[call.dialect] = (self._count, items)
        digest = digest_json([call.dialect, call.frame])
        frame: Any = "same" if digest == self._frame else json.loads(self._redact(json.dumps(call.frame)))
        self._frame = digest
        answer = json.loads(self._redact(json.dumps(answer)))
        self._write(
            Exchange(
                protocol=call.dialect, frame=frame, after=after if kept else 0, kept=kept, new=items[kept:], **answer
            )
        )

    def _write(self, document: Model) -> None:
        # The one written in C is many times faster; not every build of PyYAML has it.
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        data = document.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        text = yaml.dump(data, Dumper=dumper, allow_unicode=True, sort_keys=False, width=120, explicit_start=True)
        write_all(self._file, text.encode("utf-8", "replace"))
