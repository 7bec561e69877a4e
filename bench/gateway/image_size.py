"""Kind and size of an image, by its headers alone (PNG, JPEG, GIF, WebP).

Readers differ in which of several headers counts. All are looked at, the largest counts, and what is not laid out as
its format says is not an image here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

Size = tuple[int, int]
_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Markers of JPEG after which the size stands."""
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers of JPEG without a segment."""
_SCAN, _END, _LINES = 0xDA, 0xD9, 0xDC
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]", re.DOTALL)
"""What ends the pixels of a scan."""
_MOST_SEGMENTS = 10_000


class Image(NamedTuple):
    """What the headers say."""

    kind: str
    """Its media type."""
    width: int
    height: int


def read_image(data: bytes) -> Image | None:
    """The image in `data`; None where it is not of these formats or a header is broken."""
    for magic, (kind, read) in _READERS.items():
        if data.startswith(magic):
            try:
                sizes = list(read(data))
            except (struct.error, IndexError, _BrokenError):
                return None
            if not sizes or any(min(size) <= 0 for size in sizes):
                return None
            return Image(kind, max(width for width, _ in sizes), max(height for _, height in sizes))
    return None


class _BrokenError(Exception):
    """This is not laid out as its format says."""


def _png(data: bytes) -> Iterator[Size]:
    if data[12:16] != b"IHDR":
        raise _BrokenError
    # Of a second header, wherever it is, some readers take the size.
    for count, found in enumerate(re.finditer(b"IHDR", data)):
        if count == _MOST_SEGMENTS:
            raise _BrokenError
        yield struct.unpack(">II", data[found.end() : found.end() + 8])


def _gif(data: bytes) -> Iterator[Size]:
    width, height, flags = struct.unpack("<HHB", data[6:11])
    at = 13 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)
    # Readers differ in whether the screen or the first frame counts.
    for _ in range(_MOST_SEGMENTS):
        if data[at] == 0x2C:
            left, top, wide, high = struct.unpack("<HHHH", data[at + 1 : at + 9])
            yield max(width, left + wide), max(height, top + high)
            return
        if data[at] != 0x21:
            raise _BrokenError
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    raise _BrokenError


def _jpeg(data: bytes) -> Iterator[Size]:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        if data[at] != 0xFF:
            raise _BrokenError
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _BARE:
            at += 2
            continue
        if marker == _END:
            return
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        if length < 2 or marker == _LINES:
            raise _BrokenError
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            yield width, height
        at += 2 + length
        if marker == _SCAN:
            found = _NEXT_MARKER.search(data, at)
            if found is None:
                # Cut off within its pixels, which readers forgive.
                return
            at = found.start()
    raise _BrokenError


def _webp(data: bytes) -> Iterator[Size]:
    if data[8:12] != b"WEBP":
        raise _BrokenError
    at = 12
    for _ in range(_MOST_SEGMENTS):
        kind = data[at : at + 4]
        if len(kind) < 4:
            return
        (length,) = struct.unpack("<I", data[at + 4 : at + 8])
        if kind == b"VP8X":
            wide, high = (int.from_bytes(data[it : it + 3], "little") for it in (at + 12, at + 15))
            yield 1 + wide, 1 + high
        elif kind == b"VP8L":
            bits = int.from_bytes(data[at + 9 : at + 13], "little")
            yield 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        elif kind == b"VP8 ":
            width, height = struct.unpack("<HH", data[at + 14 : at + 18])
            yield width & 0x3FFF, height & 0x3FFF
        at += 8 + length + (length & 1)
    raise _BrokenError


_READERS: dict[bytes, tuple[str, Callable[[bytes], Iterator[Size]]]] = {
    b"\x89PNG\r\n\x1a\n": ("image/png", _png),
    b"GIF87a": ("image/gif", _gif),
    b"GIF89a": ("image/gif", _gif),
    b"\xff\xd8": ("image/jpeg", _jpeg),
    b"RIFF": ("image/webp", _webp),
}
