"""Reading stored lines of the current schema and of the one before.

What is stored is never rewritten: an old line is brought into today's shape each time it is read, and everything that
is derived from the branch (tables, pages, an index) sees that shape alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from bench.base.errors import UserError
from bench.base.model import explain
from bench.formats.record import RECORD_SCHEMA, Record

READABLE = (RECORD_SCHEMA - 1, RECORD_SCHEMA)
"""Versions of the record that this program reads."""


def read_line(line: bytes, where: str) -> Record:
    """A stored line as a record of the current schema; a fault is a `UserError` that names the place."""
    # Today's schema first: nearly all lines are of it, and validating the text is faster than parsing it before.
    try:
        return Record.model_validate_json(line)
    except ValidationError as error:
        fault = error
    document = _document(line)
    version = document.get("schema", RECORD_SCHEMA)
    if version != RECORD_SCHEMA:
        try:
            return Record.model_validate(migrated(document, where))
        except ValidationError as error:
            fault = error
    raise UserError(explain(fault, Record), where=where, remedy=f"this line is not a record of schema {version}")


def migrated(document: dict[str, Any], where: str) -> dict[str, Any]:
    """A record of an older schema in today's shape; raises `UserError` for a version that is not `READABLE`."""
    version = document.get("schema")
    if version not in READABLE or isinstance(version, bool):
        known = " and ".join(str(number) for number in READABLE)
        raise UserError(
            f"is a record of schema {version!r}, this program reads {known}",
            where=where,
            remedy="read it with the version of ml-dev-bench that wrote it",
        )
    while document["schema"] != RECORD_SCHEMA:
        document = _STEPS[document["schema"]](document)
    return document


def _from_0(old: dict[str, Any]) -> dict[str, Any]:
    """Schema 0: records as the project's first commit (b8c4d68) made them.

    They do not know the part of cache writes that is kept for an hour (unknown, unless there were none), tries that
    failed upstream, the money these may have cost and the time they took, or limits of tokens; and a cell without a
    verdict could still carry what it had come to, which is not a verdict and is dropped.
    """
    new = {**old, "schema": 1}
    if isinstance(usages := old.get("usage"), list):
        new["usage"] = [_usage_from_0(usage) for usage in usages]
    if old.get("outcome") != "graded":
        new |= {"success": None, "score": None, "stop_reason": None}
    return new


def _usage_from_0(old: object) -> Any:
    if not isinstance(old, dict) or not isinstance(old.get("tokens", {}), dict):
        return old
    tokens = old.get("tokens", {})
    unknown = None if tokens.get("cache_write", 0) != 0 else 0
    return {**old, "tokens": {**tokens, "cache_write_1h": unknown}}


def _document(line: bytes) -> dict[str, Any]:
    """The object in `line`; an empty one for anything else."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


_STEPS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = MappingProxyType({0: _from_0})
"""From each older schema to the next."""


def parse_records(content: bytes, path: str) -> Iterator[Record]:
    """The records of one file; a fault is a `UserError` that names the line."""
    lines = content.split(b"\n")
    if lines.pop():
        raise UserError("does not end with a line break: it was cut short", where=path)
    for number, line in enumerate(lines, start=1):
        yield read_line(line, f"{path}:{number}")
