"""Whether files that an agent left hold parts of what may not be kept, in one of the forms that are common."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

_WIDTH = 12
"""Bytes of a piece: no other text has one by chance, and a line of a dump has five."""
_JUNCTION = re.compile(rb"""['"]\s*[+,]?\s*\\?\s*b?['"]|\\[nrt]|[\s\\]""")
_BETWEEN_DIGITS = re.compile(rb"""\\x|0x|[\s'",:;-]""")
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}")
_DIGITS = re.compile(rb"[0-9a-fA-F]{24,}")
_OF_ADDRESSES = bytes.maketrans(b"-_", b"+/")
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


def pieces(content: bytes) -> set[bytes]:
    """All runs of twelve bytes in it, from each place: so many as it has bytes, where nothing repeats."""
    return {content[at : at + _WIDTH] for at in range(len(content) - _WIDTH + 1)}


def remains(content: bytes, known: set[bytes]) -> set[bytes]:
    """The `known` pieces that a file holds, as they are or as base64, hexadecimal digits or escapes of a literal.

    Lines, quotes and what else joins the parts of a text do not hide them. A megabyte takes up to three seconds.
    """
    return {piece for form in _forms(content) for piece in _runs(form) if piece in known}


def _runs(content: bytes) -> Iterator[bytes]:
    return (content[at : at + _WIDTH] for at in range(len(content) - _WIDTH + 1))


def _forms(content: bytes) -> Iterator[bytes]:
    yield content
    if _ESCAPE.search(content):
        yield _ESCAPE.sub(lambda it: bytes.fromhex(it.group(1).decode()), content)
    for run in _BASE64.findall(_JUNCTION.sub(b"", content)):
        # What stands before it may count as a part of it: one of the four places is where its groups begin.
        for start in range(4):
            yield base64.b64decode(run[start : start + (len(run) - start) // 4 * 4].translate(_OF_ADDRESSES))
    for run in _DIGITS.findall(_BETWEEN_DIGITS.sub(b"", content)):
        for start in range(2):
            yield bytes.fromhex(run[start : start + (len(run) - start) // 2 * 2].decode())
