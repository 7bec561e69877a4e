"""calls.jsonl: one line a call, written before the agent gets the end of the answer. It is the universal trace."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue, ValidationError

from bench.base.errors import UserError
from bench.base.files import room_to_keep, sha256_bytes
from bench.base.model import Model, explain
from bench.formats.model_usage import Tokens
from bench.formats.names import Instant
from bench.gateway.json_values import count_shared, shallow
from bench.gateway.request import CONVERSATIONS, Call, Dialect

Status = Literal["ok", "failed", "refused", "abandoned", "probe"]
"""`probe`: a request of our own, paid by the run."""
_LONGEST_TEXT = 20_000
_LARGEST_ANSWER = 1_000_000
_LARGEST_USAGE = 20_000
_MOST_REFUSED = 100
_LARGEST_LEDGER = 200_000_000
"""Bytes after which only lines without content are written, and none of calls that brought nothing."""
MESSAGES_SUFFIX = ".bodies.jsonl"
"""What follows the stem of the ledger in the name of its side store."""
_LONGEST_STORED_TEXT = 200_000
_LARGEST_STORE = 200_000_000
_ID_LENGTH = 20
# What is written here was JSON a moment ago, so it cannot contain itself.
_COMPACT = json.JSONEncoder(separators=(",", ":"), check_circular=False)


class Sent(Model):
    """A request as ids of the side store."""

    frame: str
    """Everything but the conversation: tools, settings, a system prompt that is a field of its own."""
    after: int = Field(0, ge=0)
    """The call whose conversation this one goes on with; 0: none."""
    kept: int = Field(0, ge=0)
    """How many of its messages, from the first."""
    new: list[str] = Field(default_factory=list)
    """The messages after them."""


class CallLine(Model):
    """One line of the ledger."""

    seq: int = 0
    time: Instant
    role: str
    alias: str
    model: str
    protocol: Dialect = "chat"
    stream: bool = False
    answered_by: str = ""
    """The name that the upstream gave itself."""
    status: Status
    http: int
    code: str = ""
    error: str = ""
    request: str = ""
    """Digest of the request."""
    taken_out: list[str] = Field(default_factory=list)
    """Tools that the provider would run, and fields that the gateway does not know: they were not sent."""
    sent: Sent | None = None
    tokens: Tokens | None = None
    estimated: bool = False
    """The provider did not say what the call used."""
    raw_usage: JsonValue = None
    cost_usd: float | None = None
    seconds: float = 0.0
    retries: int = 0
    faults: list[str] = Field(default_factory=list)
    finish_reason: str = ""
    answer: JsonValue = None
    """The answer as a chat message, long texts cut in the middle."""

    @property
    def is_step(self) -> bool:
        """A successful call of a conversation, for which an agent has a limit."""
        return self.status == "ok" and self.protocol in CONVERSATIONS


class Ledger:
    """The file of one cell; silent after `close`."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _keep_earlier(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._messages = MessageStore(messages_path(path), redact)
        self._most = min(_LARGEST_LEDGER, room_to_keep(path.parent))
        self._redact = redact
        self._closed = False
        self.fault: str | None = None
        """Why a line could not be written; from then on the trace is not whole."""
        self._seq = 0
        self._refused = 0
        self._size = 0
        self._previous: dict[tuple[str, Dialect], tuple[int, list[str]]] = {}
        """The last request of each role and protocol: its number and the ids of its messages."""

    def append(self, line: CallLine, call: Call | None = None) -> None:
        """Number and write one line. Refusals beyond the hundredth are only counted, by the budget."""
        if self._closed or not self._wanted(line.status):
            return
        self._seq += 1
        if self._size > self._most:
            # However often the agent asks, it does not fill the runner's disk.
            line, call = line.model_copy(update={"answer": None, "raw_usage": None, "error": line.error[:100]}), None
        answer, usage = _bounded(line.answer, _LARGEST_ANSWER), _bounded(line.raw_usage, _LARGEST_USAGE)
        try:
            sent = self._sent(line.role, call) if call is not None else None
            numbered = line.model_copy(update={"seq": self._seq, "sent": sent, "answer": answer, "raw_usage": usage})
            text = self._redact(numbered.model_dump_json())
            data = text.encode("utf-8") + b"\n"
            self._size += len(data)
            write_all(self._file, data)
        except OSError as error:
            self.fault = self.fault or f"gateway_broken: the trace cannot be written: {error}"

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._file)
            self._messages.close()

    def _wanted(self, status: Status) -> bool:
        self._refused += status == "refused"
        if self._size > self._most:
            return status in ("ok", "probe") and self._size <= 2 * _LARGEST_LEDGER
        return status != "refused" or self._refused <= _MOST_REFUSED

    def _sent(self, role: str, call: Call) -> Sent:
        ids = [self._messages.put(item) for item in call.items]
        after, before = self._previous.get((role, call.dialect), (0, []))
        kept = count_shared(before, ids)
        self._previous[role, call.dialect] = (self._seq, ids)
        return Sent(frame=self._messages.put(call.frame), after=after if kept else 0, kept=kept, new=ids[kept:])


def messages_path(ledger: Path) -> Path:
    """The side store of the ledger at `ledger`."""
    return ledger.with_name(ledger.name.removesuffix(".jsonl") + MESSAGES_SUFFIX)


def _bounded(value: object, largest: int) -> JsonValue:
    """What a provider said, as it can always be written."""
    short = clip(shallow(value), _LONGEST_TEXT)
    return short if len(json.dumps(short)) <= largest else {"cut": "it is too large"}


def clean(text: str) -> str:
    """A provider's or an agent's short text as it can always be written."""
    return str(clip(text[:200], 200))


def _keep_earlier(path: Path) -> None:
    """The calls of an earlier try cost real money and stay on record: calls.1.jsonl, calls.2.jsonl and so on."""
    if os.path.lexists(path):
        number = 1
        while os.path.lexists(kept := path.with_suffix(f".{number}{path.suffix}")):
            number += 1
        path.rename(kept)
        if os.path.lexists(messages_path(path)):
            messages_path(path).rename(messages_path(kept))


class MessageStore:
    """One file of lines `{"id": ..., "value": ...}`."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._redact = redact
        self._known: set[str] = set()
        self._size = 0
        self._most = min(_LARGEST_STORE, room_to_keep(path.parent))

    def put(self, value: object) -> str:
        """The id of `value`, which is written if it is new."""
        text = self._redact(_COMPACT.encode(value))
        identity = sha256_bytes(text.encode("ascii")).removeprefix("sha256:")[:_ID_LENGTH]
        if identity not in self._known:
            self._known.add(identity)
            if len(text) > _LONGEST_STORED_TEXT:
                text = json.dumps(clip(json.loads(text), _LONGEST_STORED_TEXT), separators=(",", ":"))
            if self._size + len(text) > self._most:
                text = json.dumps({"cut": f"{len(text)} bytes; the store is full"})
            self._size += len(text)
            write_all(self._file, f'{{"id":"{identity}","value":{text}}}\n'.encode("ascii"))
        return identity

    def close(self) -> None:
        os.close(self._file)


def read_messages(path: Path) -> dict[str, JsonValue]:
    """All values of a store by id; empty when there is none. A last line cut off by a crash is left out."""
    found: dict[str, JsonValue] = {}
    if not path.is_file():
        return found
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            if line.endswith("\n"):
                try:
                    entry = json.loads(line)
                    found[str(entry["id"])] = shallow(entry["value"])
                except (ValueError, LookupError, TypeError, RecursionError):
                    fault = f"line {len(found) + 1} is not part of a trace"
                    raise UserError(fault, where=path, remedy="it may come from an older version") from None
    return found


def write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def clip(value: object, longest: int) -> JsonValue:
    """`value` with long texts cut in the middle and lone surrogates replaced, so that it can always be written."""
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode("utf-8")
        if len(text) <= longest:
            return text
        half = longest // 2
        return f"{text[:half]}[... {len(text) - 2 * half} characters cut ...]{text[-half:]}"
    if isinstance(value, dict):
        return {str(clip(key, 200)): clip(item, longest) for key, item in value.items()}
    if isinstance(value, list):
        return [clip(item, longest) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


@dataclass(frozen=True)
class TracedCall:
    """One call, put together again."""

    line: CallLine
    frame: dict[str, Any]
    """Everything of the request but the conversation."""
    items: list[Any]
    """The conversation as it was sent."""
    kept: int
    """How many items an earlier call of the same role had sent before, from the first."""


def read_trace(ledger: Path) -> Iterator[TracedCall]:
    """The calls of a cell in their order; raises `UserError` when the file is not a trace."""
    messages = read_messages(messages_path(ledger))
    sent: dict[int, list[Any]] = {}
    try:
        data = ledger.read_bytes()
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read: {error}", where=ledger, remedy="name the calls.jsonl of a cell") from None
    lines = data.split(b"\n")
    lines.pop()  # cut off by a crash, or nothing
    for number, raw in enumerate(lines, 1):
        try:
            line = CallLine.model_validate_json(raw)
        except ValidationError as error:
            message = f"line {number} is not a call: {explain(error, CallLine)}"
            raise UserError(message, where=ledger, remedy="it may come from an older version") from None
        frame: Any = {}
        items: list[Any] = []
        if line.sent is not None:
            frame = messages.get(line.sent.frame)
            items = sent.get(line.sent.after, [])[: line.sent.kept] + [messages.get(it) for it in line.sent.new]
        sent[line.seq] = items
        yield TracedCall(line, frame if isinstance(frame, dict) else {}, items, line.sent.kept if line.sent else 0)
