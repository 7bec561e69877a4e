"""A run's traffic with a provider: what is under way in this cell, when any cell was answered last, and who is late."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

_STAMP = struct.Struct("d")
_LOOK_S = 0.05
_BEAT_S = 0.1


class Traffic:
    """The tries of one cell, over all its models. It can be held, so that a probe is alone. One event loop."""

    def __init__(self) -> None:
        self._under_way = 0
        self._last = -float("inf")
        self._holds = 0
        self.answered: set[str] = set()
        """Providers that have begun an answer to this cell, of whatever model."""
        self._free = asyncio.Event()
        self._free.set()

    async def begin(self) -> None:
        """Wait until traffic may go on, and count one try as under way."""
        await self._free.wait()
        self._under_way += 1

    def end(self) -> None:
        """One try is over."""
        self._under_way -= 1
        self._last = time.monotonic()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No try begins inside the block."""
        self._holds += 1
        self._free.clear()
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._free.set()

    async def quiet(self, seconds: float, until: float) -> bool:
        """Wait for `seconds` without traffic; False when that is not reached before `until` (monotonic seconds)."""
        while True:
            now = time.monotonic()
            if not self._under_way and now - self._last >= seconds:
                return True
            if now >= until:
                return False
            await asyncio.sleep(_LOOK_S)


class LastAnswer:
    """When a model last answered a cell of this run; the gateways of a run share it in a file of eight bytes.

    The clock is the machine's monotonic one, which is the same for all processes.
    """

    def __init__(self, path: Path | None) -> None:
        self._at = -float("inf")
        self._file: int | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def note(self) -> None:
        """The model has answered."""
        self._at = time.monotonic()
        if self._file is not None:
            # Only a hint for other cells: a disk without room must not cost this one its answer.
            with contextlib.suppress(OSError):
                os.pwrite(self._file, _STAMP.pack(self._at), 0)

    def since(self, moment: float) -> bool:
        """Whether the model has answered any cell after `moment` (monotonic seconds)."""
        found = self._at
        if self._file is not None:
            with contextlib.suppress(OSError):
                data = os.pread(self._file, _STAMP.size, 0)
                if len(data) == _STAMP.size:
                    found = max(found, float(_STAMP.unpack(data)[0]))
        return found > moment


class Lateness:
    """By how much this process's event loop was late at most: what waits in it is answered later, too."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._due = time.monotonic()

    @property
    def seconds(self) -> float:
        return max(self._worst, time.monotonic() - self._due)

    @classmethod
    @contextlib.asynccontextmanager
    async def measured(cls) -> AsyncIterator[Lateness]:
        """That of the time inside the block."""
        lateness = cls()
        beating = asyncio.ensure_future(lateness._beat())
        try:
            yield lateness
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            self._due = time.monotonic() + _BEAT_S
            await asyncio.sleep(_BEAT_S)
            self._worst = self.seconds
