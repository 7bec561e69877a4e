"""calls.jsonl: one line a call, written before the agent gets the end of the answer. It is the universal trace."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from bench.gateway.bodies import Bodies, clip, write_all
from bench.gateway.protocol import Call, Dialect, shallow
from bench.record import Instant, Tokens
from bench.schema import Model

Status = Literal["ok", "failed", "refused", "abandoned"]
_LONGEST_TEXT = 20_000
_LARGEST_ANSWER = 1_000_000
_LARGEST_USAGE = 20_000
_MOST_REFUSED = 100
BODIES_SUFFIX = ".bodies.jsonl"
"""What follows the stem of the ledger in the name of its side store."""


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


class Ledger:
    """The file of one cell; silent after `close`."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _keep_earlier(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._bodies = Bodies(bodies_path(path), redact)
        self._redact = redact
        self._closed = False
        self.fault: str | None = None
        """Why a line could not be written; from then on the trace is not whole."""
        self._seq = 0
        self._refused = 0
        self._previous: dict[tuple[str, Dialect], tuple[int, list[str]]] = {}
        """The last request of each role and protocol: its number and the ids of its messages."""

    def append(self, line: CallLine, call: Call | None = None) -> None:
        """Number and write one line. Refusals beyond the hundredth are only counted, by the meter."""
        if self._closed or not self._wanted(line.status):
            return
        self._seq += 1
        answer, usage = _bounded(line.answer, _LARGEST_ANSWER), _bounded(line.raw_usage, _LARGEST_USAGE)
        try:
            sent = self._sent(line.role, call) if call is not None else None
            numbered = line.model_copy(update={"seq": self._seq, "sent": sent, "answer": answer, "raw_usage": usage})
            text = self._redact(numbered.model_dump_json())
            write_all(self._file, text.encode("utf-8") + b"\n")
        except OSError as error:
            self.fault = self.fault or f"gateway_broken: the trace cannot be written: {error}"

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._file)
            self._bodies.close()

    def _wanted(self, status: Status) -> bool:
        self._refused += status == "refused"
        return status != "refused" or self._refused <= _MOST_REFUSED

    def _sent(self, role: str, call: Call) -> Sent:
        ids = [self._bodies.put(item) for item in call.items]
        after, before = self._previous.get((role, call.dialect), (0, []))
        shorter = min(len(before), len(ids))
        kept = next((index for index in range(shorter) if before[index] != ids[index]), shorter)
        self._previous[role, call.dialect] = (self._seq, ids)
        return Sent(frame=self._bodies.put(call.frame), after=after if kept else 0, kept=kept, new=ids[kept:])


def bodies_path(ledger: Path) -> Path:
    """The side store of the ledger at `ledger`."""
    return ledger.with_name(ledger.name.removesuffix(".jsonl") + BODIES_SUFFIX)


def _bounded(value: Any, largest: int) -> JsonValue:
    """What a provider said, as it can always be written."""
    short = clip(shallow(value), _LONGEST_TEXT)
    return short if len(json.dumps(short)) <= largest else {"cut": "it is too large"}


def clean(text: str) -> str:
    """A short text of somebody else's as it can always be written."""
    return str(clip(text[:200], 200))


def _keep_earlier(path: Path) -> None:
    """The calls of an earlier try cost real money and stay on record: calls.1.jsonl, calls.2.jsonl and so on."""
    if os.path.lexists(path):
        number = 1
        while os.path.lexists(kept := path.with_suffix(f".{number}{path.suffix}")):
            number += 1
        path.rename(kept)
        if os.path.lexists(bodies_path(path)):
            bodies_path(path).rename(bodies_path(kept))
