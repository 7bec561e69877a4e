"""Room in memory for the bodies that are read and answered at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from bench.gateway.request import RequestRefused

_ROOM = 512 << 20
_PER_VALUE = 200
"""Bytes that a value of JSON takes here; also what keeps the time small that all requests under way take together."""
_COPIES = 3
"""Of a body: as it came, read, and as it goes on."""
_SMALL = 1 << 16
_SEPARATORS = (b",", b":", b"[", b"{")
LARGE = 1 << 20
"""Bytes from which on a body waits for one of the few places for large ones before the rest of it is read."""
_MOST_LARGE = 8


class Intake:
    """Shared by the connections of one gateway. Belongs to one event loop."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = self._left = room
        self._changed = asyncio.Condition()
        self.large = asyncio.Semaphore(_MOST_LARGE)

    @contextlib.asynccontextmanager
    async def room_for(self, body: bytes) -> AsyncIterator[None]:
        """Inside the block `body` may be read and answered; raises `RequestRefused` for what never fits."""
        # Of a small body all bytes are taken for separators and values in turn: counting would take longer.
        values = len(body) // 2 if len(body) <= _SMALL else sum(map(body.count, _SEPARATORS))
        wanted = len(body) * _COPIES + _PER_VALUE * values
        if wanted > self._room:
            raise RequestRefused(413, "too_large", "a body has at most a few million values")
        async with self._changed:
            await self._changed.wait_for(lambda: self._left >= wanted)
            self._left -= wanted
        try:
            yield
        finally:
            self._left += wanted
            async with self._changed:
                self._changed.notify_all()
