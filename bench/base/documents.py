"""Files that a stranger may have written: read up to a size, and YAML without what its loader crashes or hangs on."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bench.base.errors import UserError

# Each level costs the loader several frames of Python's stack, which a document must not exhaust.
_MAX_DEPTH = 80
_LONGEST_NUMBER = 100
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KNOWN_TAG = re.compile(r"!|tag:yaml\.org,2002:(null|bool|int|float|str|binary|timestamp|omap|pairs|set|seq|map)")
_NUMBER = re.compile(r"[-+]?(0[bxBX][0-9a-fA-F_]+|[0-9_]+(:[0-9_.]+)+)")


def read_file(path: Path, limit: int, *, absent: str = "create it or correct the path") -> bytes:
    """Content of the regular file at `path`, of at most `limit` bytes; raises `UserError`."""
    try:
        # Neither a pipe nor a device may keep the reader waiting.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UserError("cannot be read: it is not a regular file", where=path, remedy="name a file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise UserError("no such file", where=path, remedy=absent) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(
            f"cannot be read: {reason}", where=path, remedy="make it readable, or correct the path"
        ) from None
    if len(data) > limit:
        raise UserError(f"larger than {limit} bytes", where=path, remedy="correct the path or shorten the file")
    return data


def read_yaml_documents(path: Path, limit: int, *, absent: str = "create it or correct the path") -> Iterator[Any]:
    """The documents of the YAML file at `path`, one by one; raises `UserError`."""
    data = read_file(path, limit, absent=absent)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        fault = f"cannot be read: not UTF-8 at byte {error.start}, in line {line}"
        raise UserError(fault, where=path, remedy="save it as UTF-8") from None
    yield from parse_yaml(text, path)


def parse_yaml(text: str, where: Path | str) -> Iterator[Any]:
    """The documents in `text`, one by one; raises `UserError`."""
    try:
        _Inspection(text, where).run()
        yield from yaml.load_all(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        remedy = "fix the syntax; text that contains `: ` or begins with a special character needs quotes"
        raise UserError(f"is not YAML: {_fault(error)}", where=where, remedy=remedy) from None
    except (ValueError, LookupError, ArithmeticError, AttributeError, TypeError) as error:
        # The constructors of dates, numbers and tagged values raise what comes to them: `2026-02-30` is a ValueError.
        fault = f"is not YAML: a date, number or tag is not valid: {str(error)[:200]}"
        raise UserError(fault, where=where, remedy="write it in quotes if it is a text") from None


def _fault(error: yaml.YAMLError) -> str:
    """What is wrong and where; the parser's own message begins with where the surrounding part begins."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())[:500]
    context = f" ({error.context})" if error.context else ""
    return f"line {error.problem_mark.line + 1}: {error.problem}{context}"[:500]


def is_file(path: Path) -> bool:
    """Whether a file is at `path`; False for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _written(tag: str) -> str:
    """A tag as it stands in the file, or nearly so."""
    return tag.replace("tag:yaml.org,2002:", "!!")[:100]


class _Inspection:
    """Refuses what the loader would crash on, hang on, unfold without end, or silently take a part of."""

    def __init__(self, text: str, where: Path | str) -> None:
        self._events = yaml.parse(text, Loader=_LOADER)
        self._where = where
        self._open: list[set[str] | None] = []
        """For each open mapping its keys, None for a list."""
        self._at_key: list[bool] = []

    def run(self) -> None:
        for event in self._events:
            if isinstance(event, yaml.CollectionEndEvent):
                self._open.pop()
                self._at_key.pop()
            elif isinstance(event, yaml.NodeEvent):
                self._enter(event)

    def _enter(self, event: yaml.NodeEvent) -> None:
        if event.anchor:
            # A few lines of aliases to aliases unfold to more than any memory holds.
            self._refuse(event, "has an anchor or an alias (`&name`, `*name`)", "write the value out where it is used")
        tag = getattr(event, "tag", None)  # an alias has none
        if tag is not None and not _KNOWN_TAG.fullmatch(tag):
            self._refuse(event, f"has a tag (`{_written(tag)}`)", "write the value without it")
        if self._open and (names := self._open[-1]) is not None:
            if self._at_key[-1] and isinstance(event, yaml.ScalarEvent):
                if event.value in names:
                    self._refuse(event, f"repeats the key `{event.value[:100]}`", "keep one of them")
                names.add(event.value)
            self._at_key[-1] = not self._at_key[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            self._at_key.append(True)
            if len(self._open) > _MAX_DEPTH:
                self._refuse(event, "is nested too deeply", "reduce the nesting")
        elif isinstance(event, yaml.ScalarEvent):
            self._check_number(event)

    def _check_number(self, event: yaml.ScalarEvent) -> None:
        """To another base than ten, a number may take quadratic time to read, and be too long to write."""
        plain = event.implicit[0] or event.tag is not None
        if plain and len(event.value) > _LONGEST_NUMBER and _NUMBER.fullmatch(event.value):
            self._refuse(event, f"has a number of {len(event.value)} characters", "write it in quotes if it is a text")

    def _refuse(self, event: yaml.Event, fault: str, remedy: str) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        raise UserError(f"line {line} {fault}", where=self._where, remedy=remedy)
