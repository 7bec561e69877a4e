"""Bounds of a PDF that is only looked at, never interpreted: how many pages, and how many bytes of text at most."""

from __future__ import annotations

import re
import zlib
from collections import Counter

MOST_PAGES = 1000
"""Providers take no more."""
_MOST_INFLATED = 50_000_000
_ESCAPE = re.compile(rb"#([0-9A-Fa-f]{2})")
_STREAM = re.compile(rb"stream\r?\n")
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_COUNT = re.compile(rb"/Count\s+(\d{1,9})")
_KIDS = re.compile(rb"/Kids\s*\[([^\]]*)\]")
_REFERENCE = re.compile(rb"(\d+)\s+(\d+)\s+R")
_DRAWS = re.compile(rb"/[^\s/]+\s+Do\b")
_SHOWS_TEXT = re.compile(rb"(?:\)|>|\])\s*(?:Tj|TJ|'|\")")
_LONG_MAPPING = re.compile(rb"<[0-9A-Fa-f\s]{33,}>")
_UNREAD = (b"/Encrypt", b"ASCII85Decode", b"ASCIIHexDecode", b"LZWDecode", b"RunLengthDecode", b"/JavaScript")
_DICTIONARY = 2000
"""Bytes before a stream in which its dictionary is looked for."""


def pdf_bound(data: bytes) -> tuple[int, int] | None:
    """The most pages, and the most bytes of text; None where it cannot be told."""
    if not data.startswith(b"%PDF-") or any(name in _named(data) for name in _UNREAD):
        return None
    found = _streams(data)
    if found is None:
        return None
    plain, forms = found
    everything = _named(data + b"".join(plain) + b"".join(forms))
    draws = len(_DRAWS.findall(everything))
    if any(_DRAWS.search(form) for form in forms):
        # What is drawn inside of what is drawn multiplies without bound.
        return None
    if any(b"beginbf" in it and _LONG_MAPPING.search(it) for it in plain):
        return None
    repeated = draws * sum(len(form) for form in forms if _SHOWS_TEXT.search(form))
    text = len(data) + sum(map(len, plain)) + sum(map(len, forms)) + repeated
    return _pages(everything), text


def _named(data: bytes) -> bytes:
    """`data` without the escapes by which a name can be written in many ways."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), data)


def _streams(data: bytes) -> tuple[list[bytes], list[bytes]] | None:
    """What the streams hold that can be inflated: those of pages and others, and those of forms."""
    plain: list[bytes] = []
    forms: list[bytes] = []
    left = _MOST_INFLATED
    for start in _STREAM.finditer(data):
        inflater = zlib.decompressobj()
        try:
            content = inflater.decompress(data[start.end() : start.end() + _MOST_INFLATED], left)
        except zlib.error:
            # Such as an image in its own format; or not packed, and then it counts with the file.
            continue
        left -= len(content)
        if left <= 0:
            return None
        # Nothing is left out by its name: whether a stream is shown as text is not said where it lies.
        before = _named(data[max(start.start() - _DICTIONARY, 0) : start.start()].rpartition(b" obj")[2])
        (forms if b"/Form" in before else plain).append(content)
    return plain, forms


def _pages(everything: bytes) -> int:
    named = len(_PAGE.findall(everything))
    counted = max((int(count) for count in _COUNT.findall(everything)), default=0)
    references = Counter(it for kids in _KIDS.findall(everything) for it in _REFERENCE.findall(kids))
    if any(times > 1 for times in references.values()):
        # A page, or a branch of pages, that is hung up several times.
        return MOST_PAGES
    return min(max(named, counted, references.total(), 1), MOST_PAGES)
