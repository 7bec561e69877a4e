"""calls.jsonl: one line a call, written before the agent gets the answer."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from bench.gateway.protocol import digest_json
from bench.record import Instant, Tokens
from bench.schema import Model

Status = Literal["ok", "failed", "refused", "abandoned"]
_LONGEST_TEXT = 20_000
_LARGEST_MESSAGES = 1_000_000
_MOST_REFUSED = 100


class CallLine(Model):
    """One line of the ledger."""

    seq: int = 0
    time: Instant
    role: str
    alias: str
    model: str
    answered_by: str = ""
    """The name that the upstream gave itself."""
    status: Status
    http: int
    code: str = ""
    error: str = ""
    request: str = ""
    """Digest of the request."""
    tokens: Tokens | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    retries: int = 0
    finish_reason: str = ""
    new_messages: list[JsonValue] = Field(default_factory=list)
    """What this request has beyond the previous one, long texts cut in the middle."""
    answer: JsonValue = None


class Ledger:
    """The file of one cell. Safe to use from several threads; silent after `close`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _keep_earlier(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lock = threading.Lock()
        self._closed = False
        self._seq = 0
        self._refused = 0
        self._previous: dict[str, list[str]] = {}
        """Digests of the messages of each role's last request."""

    def append(self, line: CallLine, messages: Sequence[dict[str, Any]] = ()) -> None:
        """Number and write one line. Refusals beyond the hundredth are only counted, by the meter."""
        with self._lock:
            if self._closed or not self._wanted(line.status):
                return
            self._seq += 1
            new = self._new_messages(line.role, messages) if messages else []
            numbered = line.model_copy(update={"seq": self._seq, "new_messages": new})
            data = numbered.model_dump_json().encode("utf-8") + b"\n"
            while data:
                data = data[os.write(self._file, data) :]

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._file)

    def _wanted(self, status: Status) -> bool:
        self._refused += status == "refused"
        return status != "refused" or self._refused <= _MOST_REFUSED

    def _new_messages(self, role: str, messages: Sequence[dict[str, Any]]) -> list[JsonValue]:
        digests = [digest_json(message) for message in messages]
        before = self._previous.get(role, [])
        pairs = zip(before, digests, strict=False)
        shorter = min(len(before), len(digests))
        known = next((index for index, (one, other) in enumerate(pairs) if one != other), shorter)
        self._previous[role] = digests
        cut = [clip(message) for message in messages[known:]]
        size = len(json.dumps(cut))
        return cut if size <= _LARGEST_MESSAGES else [{"cut": f"{len(cut)} messages, {size} bytes"}]


def _keep_earlier(path: Path) -> None:
    """The calls of an earlier try cost real money and stay on record: calls.1.jsonl, calls.2.jsonl and so on."""
    if os.path.lexists(path):
        number = 1
        while os.path.lexists(kept := path.with_suffix(f".{number}{path.suffix}")):
            number += 1
        path.rename(kept)


def clip(value: Any, longest: int = _LONGEST_TEXT) -> JsonValue:
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
    return value if value is None or isinstance(value, bool | int | float) else str(value)
