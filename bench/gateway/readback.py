"""Reads calls.jsonl and its side store back: every call with the messages it sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.errors import UserError
from bench.gateway.bodies import read_bodies
from bench.gateway.ledger import CallLine, bodies_path
from bench.schema import explain


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
    """The calls of a cell in their order; raises `UserError` when the file is none of ours."""
    bodies = read_bodies(bodies_path(ledger))
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
            message = f"line {number} is no call: {explain(error, CallLine)}"
            raise UserError(message, where=ledger, remedy="it may come from an older version") from None
        frame: Any = {}
        items: list[Any] = []
        if line.sent is not None:
            frame = bodies.get(line.sent.frame)
            items = sent.get(line.sent.after, [])[: line.sent.kept] + [bodies.get(it) for it in line.sent.new]
        sent[line.seq] = items
        yield TracedCall(line, frame if isinstance(frame, dict) else {}, items, line.sent.kept if line.sent else 0)
