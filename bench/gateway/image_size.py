"""Width and height of an image from its header alone: PNG, JPEG, GIF, WebP. No pixel is decoded."""

from __future__ import annotations

import struct
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
