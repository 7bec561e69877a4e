"""Frames between judge and subject, made by hand."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable


def reader(data: bytes) -> Callable[[int], bytes]:
    stream = io.BytesIO(data)

    def exactly(count: int) -> bytes:
        part = stream.read(count)
        if len(part) < count:
            raise EOFError
        return part

    return exactly


def frame(text: bytes, *buffers: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text + b"".join(buffers)
