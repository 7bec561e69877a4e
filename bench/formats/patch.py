"""Unified diffs of a folder's text files, applied exactly: no fuzz, no offset, no git.

`git apply` silently skips files inside another repository, and `patch` searches for a place where a hunk fits. Here a
hunk stands where its head says, or it is stale. Lines end with LF; a CR before it belongs to the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from bench.base.errors import UserError

REMEDY = "write patches with `ml-dev-bench cases patch`"
_MAX_BYTES = 1_000_000
_LONGEST_PATH = 200
"""In bytes."""
_HEAD = re.compile(rb"@@ -(\d{1,7})(?:,(\d{1,7}))? \+(\d{1,7})(?:,(\d{1,7}))? @@")
NO_NEWLINE = b"\\ No newline at end of file"
NOTHING = "/dev/null"

Files = Mapping[str, bytes]
"""The text files of a folder by relative path."""


@dataclass
class Hunk:
    """One change of a file; lines hold their line ends, which only the last of a file may lack."""

    start: int
    """Index of the first line in the old file."""
    new_start: int
    at: int
    """Line of its head in the patch."""
    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)


@dataclass
class FileChange:
    """What a patch does to one file."""

    path: str
    kind: Literal["create", "delete", "change"]
    at: int
    hunks: list[Hunk] = field(default_factory=list)


def parse_patch(data: bytes, where: str) -> list[FileChange]:
    """The changes of a patch, in its order; raises `UserError` with the line that this form does not have."""
    return _Parser(data, where).parse()


class _Parser:
    def __init__(self, data: bytes, where: str) -> None:
        self._where = where
        if len(data) > _MAX_BYTES:
            raise UserError(f"is larger than {_MAX_BYTES} bytes", where=where, remedy="a patch holds changes of text")
        if b"\0" in data:
            raise UserError("holds a zero byte", where=where, remedy="put binary files into the folder of the answer")
        if not data.endswith(b"\n"):
            raise UserError("does not end with a line end", where=where, remedy=REMEDY)
        self._lines = data[:-1].split(b"\n")
        self._next = 0

    def parse(self) -> list[FileChange]:
        found: dict[str, FileChange] = {}
        while self._next < len(self._lines):
            change = self._file()
            if change.path in found:
                raise self._fault(f"a second part for {change.path}", change.at)
            found[change.path] = change
        return list(found.values())

    def _fault(self, fault: str, at: int | None = None) -> UserError:
        return UserError(f"line {self._next if at is None else at}: {fault}", where=self._where, remedy=REMEDY)

    def _peek(self, start: bytes) -> bool:
        return self._next < len(self._lines) and self._lines[self._next].startswith(start)

    def _take(self) -> bytes:
        if self._next == len(self._lines):
            raise self._fault("the patch ends in the middle of a part")
        self._next += 1
        return self._lines[self._next - 1]

    def _file(self) -> FileChange:
        at = self._next + 1
        old, new = self._name(b"--- ", "a/"), self._name(b"+++ ", "b/")
        if old == new == NOTHING or (NOTHING not in (old, new) and old != new):
            raise self._fault("the two names of the file differ; a rename is a deletion and a new file", at)
        kind: Literal["create", "delete", "change"] = (
            "create" if old == NOTHING else "delete" if new == NOTHING else "change"
        )
        change = FileChange(new if kind == "create" else old, kind, at)
        while self._peek(b"@@"):
            change.hunks.append(self._hunk())
        if kind == "change" and not change.hunks:
            raise self._fault(f"{change.path} has no hunk", at)
        return change

    def _name(self, mark: bytes, prefix: str) -> str:
        line = self._take()
        if not line.startswith(mark):
            raise self._fault(f"must begin with {mark.decode().strip()} and the name of a file")
        try:
            name = line[len(mark) :].decode("utf-8")
        except UnicodeDecodeError:
            raise self._fault("the name of the file is not UTF-8") from None
        if name == NOTHING:
            return name
        path = name.removeprefix(prefix)
        if path == name or not _is_inside(path):
            raise self._fault(f"must be {mark.decode()}{prefix} and a path inside the workspace, and nothing after it")
        return path

    def _hunk(self) -> Hunk:
        match = _HEAD.fullmatch(self._take())
        if match is None:
            raise self._fault("is not the head of a hunk (@@ -LINE,COUNT +LINE,COUNT @@)")
        at = self._next
        old_start, old_count, new_start, new_count = (1 if part is None else int(part) for part in match.groups())
        # Where a side has no lines, its number is that of the line before.
        hunk = Hunk(old_start - (old_count > 0), new_start - (new_count > 0), at)
        while len(hunk.old) < old_count or len(hunk.new) < new_count:
            self._line(hunk)
        if self._peek(b"\\"):
            self._strip_line_end(hunk)
        if len(hunk.old) != old_count or len(hunk.new) != new_count:
            raise self._fault("the hunk has other counts of lines than its head says", at)
        if hunk.start < 0 or hunk.new_start < 0:
            raise self._fault("lines are counted from 1", at)
        if hunk.old == hunk.new:
            raise self._fault("the hunk changes nothing", at)
        return hunk

    def _line(self, hunk: Hunk) -> None:
        if self._peek(b"\\"):
            return self._strip_line_end(hunk)
        line = self._take()
        mark, content = line[:1], line[1:] + b"\n"
        if mark not in (b" ", b"-", b"+"):
            raise self._fault("a line of a hunk begins with a space, - or +")
        if mark != b"+":
            hunk.old.append(content)
        if mark != b"-":
            hunk.new.append(content)
        return None

    def _strip_line_end(self, hunk: Hunk) -> None:
        """Take the mark that the line before it, the last of its file, has no line end."""
        before = self._lines[self._next - 1][:1]
        if self._take() != NO_NEWLINE or before not in (b" ", b"-", b"+"):
            raise self._fault(f"must be {NO_NEWLINE.decode()!r}, after a line of the hunk")
        for side in [hunk.old] * (before != b"+") + [hunk.new] * (before != b"-"):
            side[-1] = side[-1][:-1]
            if not side[-1]:
                raise self._fault("a line without content has a line end")


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return (
        len(path.encode()) <= _LONGEST_PATH
        and path.isprintable()
        and "\\" not in path
        and not {"", ".", "..", "__pycache__"} & set(parts)
    )


def apply_patch(changes: list[FileChange], base: Files, where: str) -> dict[str, bytes]:
    """The files of `base` after `changes`; raises `UserError` naming the file and hunk that do not fit."""
    files = dict(base)
    for change in changes:
        there = change.path in base
        if change.kind == "create" and there:
            raise UserError(f"{change.path} exists already", where=where, remedy=REMEDY)
        if change.kind != "create" and not there:
            raise UserError(f"{change.path} does not exist", where=where, remedy=REMEDY)
        content = _changed(change, base.get(change.path, b""), where)
        if change.kind != "delete":
            files[change.path] = content
        elif content:
            raise UserError(f"{change.path} still has lines after its deletion", where=where, remedy=REMEDY)
        else:
            del files[change.path]
    # Of both: what is laid over a workspace cannot make a folder of a file, or a file of a folder.
    names = base.keys() | files.keys()
    for path in names:
        if above := next((it for it in _folders(path) if it in names), None):
            raise UserError(f"{above} would be a file and a folder", where=where, remedy="choose another name")
    return files


def _folders(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _changed(change: FileChange, content: bytes, where: str) -> bytes:
    old, new, done = split_lines(content), list[bytes](), 0
    for number, hunk in enumerate(change.hunks, 1):
        place = f"{change.path}, hunk {number} (line {hunk.at})"
        if old and not hunk.old:
            fault = f"{place} only adds lines, and shows none of those around them"
            raise UserError(fault, where=where, remedy=REMEDY)
        if hunk.start < done:
            raise UserError(f"{place} overlaps the one before", where=where, remedy=REMEDY)
        new += old[done : hunk.start]
        done = hunk.start + len(hunk.old)
        if hunk.start > len(old) or len(new) != hunk.new_start or old[hunk.start : done] != hunk.old:
            raise UserError(f"{place} is stale: {_stale(hunk, old)}", where=where, remedy=REMEDY)
        new += hunk.new
    new += old[done:]
    if any(not line.endswith(b"\n") for line in new[:-1]):
        raise UserError(f"{change.path}: a line without line end is not the last", where=where, remedy=REMEDY)
    return b"".join(new)


def _stale(hunk: Hunk, old: list[bytes]) -> str:
    """How the file differs from what the hunk expects; the first such line, and where the hunk would fit."""
    here = places_of(hunk, old)
    if hunk.start in here:
        return "its head gives another line of the new file than the hunks before lead to"
    if hunk.old and len(here) == 1:
        return f"its lines now begin at line {here[0] + 1}, not {hunk.start + 1}"
    for offset, line in enumerate(hunk.old):
        found = old[hunk.start + offset] if hunk.start + offset < len(old) else b""
        if found != line:
            shown, instead = (part.decode("utf-8", "replace").rstrip("\n")[:80] for part in (line, found))
            return f"it expects {shown!r} at line {hunk.start + offset + 1}, which is {instead!r}"
    return f"the file has {len(old)} lines, and the head of the hunk gives line {hunk.new_start + 1} of the new one"


def places_of(hunk: Hunk, lines: list[bytes]) -> list[int]:
    """Every index of `lines` at which the old lines of `hunk` stand."""
    return [place for place in range(len(lines)) if lines[place : place + len(hunk.old)] == hunk.old]


def split_lines(content: bytes) -> list[bytes]:
    """Lines with their LF; only LF ends a line."""
    lines = content.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
