"""Patches written: the one from a folder's files to another's, and one moved to where its lines have gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher

from bench.base.errors import UserError
from bench.formats.patch import (
    NO_NEWLINE,
    NOTHING,
    REMEDY,
    FileChange,
    Files,
    apply_patch,
    parse_patch,
    places_of,
    split_lines,
)

_CONTEXT = 1
"""Unchanged lines around a change: the position is exact anyway, so one is enough to see a hunk that is stale."""

_LONG = 5_000


def moved_patch(data: bytes, base: Files, where: str) -> bytes:
    """The same patch with each stale hunk at the only place where its lines stand now.

    Raises `UserError` where there is no such place, or more than one.
    """
    changes = [_moved(change, base, where) for change in parse_patch(data, where)]
    return make_patch(base, apply_patch(changes, base, where))


def _moved(change: FileChange, base: Files, where: str) -> FileChange:
    if change.kind != "change" or change.path not in base:
        return change
    lines, shift, hunks = split_lines(base[change.path]), 0, []
    for number, hunk in enumerate(change.hunks, 1):
        found = places_of(hunk, lines)
        # One without old lines is all there is of its file.
        if hunk.old and hunk.start not in found:
            if len(found) != 1:
                fault = f"{change.path}, hunk {number} (line {hunk.at}): its lines stand at {len(found)} places"
                raise UserError(fault, where=where, remedy=REMEDY)
            hunk = replace(hunk, start=found[0])
        hunks.append(replace(hunk, new_start=hunk.start + shift))
        shift += len(hunk.new) - len(hunk.old)
    return replace(change, hunks=hunks)


def make_patch(old: Files, new: Files) -> bytes:
    """The patch that leads from `old` to `new`, the same for the same files; empty when they are equal."""
    parts: list[bytes] = []
    for path in sorted({*old, *new}):
        if old.get(path) != new.get(path):
            names = (f"a/{path}" if path in old else NOTHING, f"b/{path}" if path in new else NOTHING)
            parts.append("--- {}\n+++ {}\n".format(*names).encode())
            parts += _hunks(split_lines(old.get(path, b"")), split_lines(new.get(path, b"")))
    return b"".join(parts)


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    # Comparing every line with all its likes is quadratic; what it would find in long files is only a shorter patch.
    matcher = SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > _LONG)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        yield f"@@ -{_span(old_from, old_to)} +{_span(new_from, new_to)} @@\n".encode()
        for kind, start, end, new_start, new_end in group:
            if kind == "equal":
                yield from _marked(b" ", old[start:end])
            else:
                yield from _marked(b"-", old[start:end])
                yield from _marked(b"+", new[new_start:new_end])


def _span(start: int, end: int) -> str:
    return f"{start + 1}" if end - start == 1 else f"{start + (end > start)},{end - start}"


def _marked(mark: bytes, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line if line.endswith(b"\n") else mark + line + b"\n" + NO_NEWLINE + b"\n"
