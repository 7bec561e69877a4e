"""Files of somebody else's: read without believing their size, and YAML without what its loader crashes or hangs on."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bench.base.errors import UserError

_MAX_DEPTH = 80
_LONGEST_NUMBER = 100
_NUMBER = re.compile(r"[-+]?(0[bxBX][0-9a-fA-F_]+|[0-9_]+(:[0-9_.]+)+)")


def read_file(path: Path, limit: int, *, absent: str = "create it or correct the path") -> bytes:
    """Content of the regular file at `path`, of at most `limit` bytes; raises `UserError`."""
    try:
        # Neither a pipe nor a device may keep the reader waiting.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UserError("cannot be read: it is no regular file", where=path)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise UserError("no such file", where=path, remedy=absent) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"cannot be read: {reason}", where=path) from None
    if len(data) > limit:
        raise UserError(f"larger than {limit} bytes", where=path, remedy="this is no such file")
    return data


def read_yaml_documents(path: Path, limit: int, *, absent: str = "create it or correct the path") -> Iterator[Any]:
    """The documents of the YAML file at `path`, one by one; raises `UserError`."""
    data = read_file(path, limit, absent=absent)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"cannot be read: not UTF-8 at byte {error.start}", where=path) from None
    yield from parse_yaml(text, path)


def parse_yaml(text: str, where: Path | str) -> Iterator[Any]:
    """The documents in `text`, one by one; raises `UserError`."""
    try:
        _Inspection(text, where).run()
        yield from yaml.load_all(text, Loader=_loader())
    except yaml.YAMLError as error:
        raise UserError(f"is not YAML: {str(error)[:500]}", where=where, remedy="mend the syntax") from None
    except (ValueError, LookupError, ArithmeticError, AttributeError, TypeError) as error:
        # The loader lets through what the constructors of dates, numbers and tagged values stumble over.
        reason = f"a value that is none of its kind: {str(error)[:200]}"
        raise UserError(f"is not YAML: {reason}", where=where, remedy="write it in quotes") from None


def is_file(path: Path) -> bool:
    """Whether a file is at `path`; no, where the name cannot be one."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


class _Inspection:
    """Refuses what the loader would crash on, hang on, unfold without end, or silently take a part of."""

    def __init__(self, text: str, where: Path | str) -> None:
        self._events = yaml.parse(text, Loader=_loader())
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

    def _enter(self, event: Any) -> None:
        if event.anchor:
            # A few lines of aliases to aliases unfold to more than any memory holds.
            self._refuse(event, "has an anchor or an alias (`&name`, `*name`)", "write the value out where it is used")
        if self._open and (names := self._open[-1]) is not None:
            if self._at_key[-1] and isinstance(event, yaml.ScalarEvent):
                if event.value in names:
                    self._refuse(event, f"names `{event.value[:100]}` a second time", "keep one")
                names.add(event.value)
            self._at_key[-1] = not self._at_key[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            self._at_key.append(True)
            if len(self._open) > _MAX_DEPTH:
                self._refuse(event, "is nested too deeply", "this is not a settings file")
        else:
            self._check_number(event)

    def _check_number(self, event: Any) -> None:
        """To another base than ten, a number may take quadratic time to read, and be too long to write."""
        plain = event.implicit[0] or event.tag is not None
        if plain and len(event.value) > _LONGEST_NUMBER and _NUMBER.fullmatch(event.value):
            self._refuse(event, f"has a number of {len(event.value)} characters", "write it in quotes if it is a text")

    def _refuse(self, event: Any, fault: str, remedy: str) -> None:
        line = event.start_mark.line + 1
        raise UserError(f"line {line} {fault}", where=self._where, remedy=remedy)


def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
