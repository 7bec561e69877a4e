"""The side store of the trace: every message and every frame of a request once, by its digest."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from bench.errors import UserError
from bench.files import sha256_bytes
from bench.gateway.protocol import shallow

_LONGEST_TEXT = 200_000
_LARGEST_STORE = 200_000_000
_ID_LENGTH = 20
_COMPACT = json.JSONEncoder(separators=(",", ":"), check_circular=False)


class Bodies:
    """One file of lines `{"id": ..., "value": ...}`."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._redact = redact
        self._known: set[str] = set()
        self._size = 0

    def put(self, value: Any) -> str:
        """The id of `value`, which is written if it is new."""
        text = self._redact(_COMPACT.encode(value))
        identity = sha256_bytes(text.encode("ascii")).removeprefix("sha256:")[:_ID_LENGTH]
        if identity not in self._known:
            self._known.add(identity)
            if len(text) > _LONGEST_TEXT:
                text = json.dumps(clip(json.loads(text), _LONGEST_TEXT), separators=(",", ":"))
            if self._size + len(text) > _LARGEST_STORE:
                text = json.dumps({"cut": f"{len(text)} bytes; the store is full"})
            self._size += len(text)
            write_all(self._file, f'{{"id":"{identity}","value":{text}}}\n'.encode("ascii"))
        return identity

    def close(self) -> None:
        os.close(self._file)


def read_bodies(path: Path) -> dict[str, JsonValue]:
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
                    fault = f"line {len(found) + 1} is no part of a trace"
                    raise UserError(fault, where=path, remedy="it may come from an older version") from None
    return found


def write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def clip(value: Any, longest: int) -> JsonValue:
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
