"""The ledger of decisions: what people said of stored results later on. Lines are added and never changed.

`decisions/YYYY-MM.jsonl`, one decision a line; each line names the digest of the line before it, across months, so that
none can be taken out, put in or changed unnoticed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.model import Model, parse_json
from bench.formats.names import Digest, Instant, Name
from bench.formats.record import Record

Kind = Literal["accepted", "withdrawn", "rescored"]
FILE = re.compile(r"decisions/\d{4}-\d\d\.jsonl")


def _plain(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise ValueError("must be one line of printable text")
    return text


Text = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_plain)]


class Decision(Model):
    """One decision about the records of a run. Fields that are None or empty narrow nothing.

    `withdrawn`: these records do not count. `rescored`: they do not count either, those of `replaced_by` do.
    `accepted`: they count, whatever was decided before. Of several decisions about a record the last holds.
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
    kind: Kind
    run: Name
    attempt: int | None = Field(None, ge=1)
    agent: Name | None = None
    case: Name | None = None
    cell: Text | None = None
    replaced_by: Name | None = None
    """For `rescored`: the run that holds the new verdicts."""
    why: Text
    who: Text
    when: Instant
    previous: Digest | None = None
    """Digest of the line before, without its line break."""

    @model_validator(mode="after")
    def _only_the_rescored_are_replaced(self) -> Decision:
        if (self.replaced_by is not None) != (self.kind == "rescored"):
            raise ValueError("`replaced_by` belongs to `rescored`, and to nothing else")
        if self.replaced_by == self.run:
            raise ValueError("a run cannot replace itself")
        return self

    def to_line(self) -> bytes:
        """The line as stored, without its line break."""
        return self.model_dump_json(by_alias=True).encode()

    def concerns(self, record: Record, attempt: int) -> bool:
        """Is this about `record`, which attempt `attempt` at its run brought?"""
        pairs = (
            (self.run, record.provenance.run),
            (self.attempt, attempt),
            (self.agent, record.agent.id),
            (self.case, record.case.id),
            (self.cell, record.cell),
        )
        return all(wanted is None or wanted == found for wanted, found in pairs)

    def says_the_same(self, other: Decision) -> bool:
        """Is this the same decision, stored or not?"""
        return self.model_copy(update={"previous": None}) == other.model_copy(update={"previous": None})


@dataclass(frozen=True)
class Ledger:
    """All decisions, the oldest first."""

    decisions: dict[str, list[Decision]]
    """By the run they are about."""

    @classmethod
    def of(cls, decisions: Iterable[Decision]) -> Ledger:
        by_run: dict[str, list[Decision]] = defaultdict(list)
        for decision in decisions:
            by_run[decision.run].append(decision)
        return cls(dict(by_run))

    def verdict(self, record: Record, attempt: int) -> Decision | None:
        """The decision that holds for a record, None where there is none."""
        about = self.decisions.get(record.provenance.run)
        if about is None:
            return None
        return next((it for it in reversed(about) if it.concerns(record, attempt)), None)

    def counts(self, record: Record, attempt: int) -> bool:
        """Does a record count in tables, pages and comparisons?"""
        decision = self.verdict(record, attempt)
        return decision is None or decision.kind == "accepted"


def parse_decisions(content: bytes, path: str) -> list[Decision]:
    """The lines of one file of the ledger; a fault is a `UserError` that names the line."""
    lines = content.split(b"\n")
    if lines.pop():
        raise UserError("does not end with a line break: it was cut short", where=path)
    return [parse_json(line, Decision, where=f"{path}:{number}") for number, line in enumerate(lines, start=1)]


def last_digest(content: bytes) -> str | None:
    """Digest of the last line of a file of the ledger."""
    lines = content.split(b"\n")[:-1]
    return sha256_bytes(lines[-1]) if lines else None


def month_of(decision: Decision, newest: str | None) -> str:
    """The file that a decision goes to: its month's, but never one before the newest, or the chain would fork."""
    path = f"decisions/{decision.when[:7]}.jsonl"
    return path if newest is None else max(path, newest)
