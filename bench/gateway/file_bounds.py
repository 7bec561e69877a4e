"""What the files in a request are at most, by a look at them: the size of an image, the pages and text of a PDF.

Only headers of images are read (PNG, JPEG, GIF, WebP); a PDF is never interpreted.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable

Size = tuple[int, int]
_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Markers of JPEG after which the size stands."""
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers of JPEG without a segment."""
_MOST_SEGMENTS = 10_000


def image_size(data: bytes) -> Size | None:
    """Width and height in pixels; None where `data` is not an image of these formats or its header is broken."""
    for magic, read in _READERS.items():
        if data.startswith(magic):
            try:
                size = read(data)
            except (struct.error, IndexError):
                return None
            return size if size is not None and min(size) > 0 else None
    return None


def _png(data: bytes) -> Size | None:
    return struct.unpack(">II", data[16:24]) if data[12:16] == b"IHDR" else None


def _gif(data: bytes) -> Size | None:
    width, height, flags = struct.unpack("<HHB", data[6:11])
    at = 13 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)
    # Readers differ in whether the screen or the first frame counts.
    for _ in range(_MOST_SEGMENTS):
        if data[at] == 0x2C:
            left, top, wide, high = struct.unpack("<HHHH", data[at + 1 : at + 9])
            return max(width, left + wide), max(height, top + high)
        if data[at] != 0x21:
            return None
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    return None


def _jpeg(data: bytes) -> Size | None:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _BARE:
            at += 2
            continue
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        if marker in (0xD9, 0xDA) or length < 2:
            return None
        at += 2 + length
    return None


def _webp(data: bytes) -> Size | None:
    if data[8:12] != b"WEBP":
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


_READERS: dict[bytes, Callable[[bytes], Size | None]] = {
    b"\x89PNG\r\n\x1a\n": _png,
    b"GIF87a": _gif,
    b"GIF89a": _gif,
    b"\xff\xd8": _jpeg,
    b"RIFF": _webp,
}

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
