"""What the runner is told while cells run: phases, model calls, limits, and builds of environments."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from bench.formats.plan import Cell
from bench.formats.record import Try
from bench.gateway import CallLine

_LOOK_S = 0.3
_MOST_BYTES = 4 << 20
"""Of a ledger at one look; the rest follows with the next one."""


class CellWatch:
    """Is told what happens in cells, by the thread of each; this base class ignores it."""

    def phase(self, cell: Cell, name: str, seconds: float | None) -> None:
        """A phase begins, or has ended after `seconds`."""

    def call(self, cell: Cell, line: CallLine) -> None:
        """A model call has ended."""

    def limit(self, cell: Cell, name: str, evidence: str) -> None:
        """A limit has ended the agent phase."""

    def retry(self, cell: Cell, lost: Try) -> None:
        """A try was lost, and the next one begins."""

    def asking(self, cell: str) -> contextlib.AbstractContextManager[None]:
        """Open while a question of the cell waits for its answer: a person may be at the terminal."""
        return contextlib.nullcontext()

    def building(self, agent: str, line: str, *, news: bool) -> None:
        """What the build of an agent's environment does; news: not merely how far it is."""


class LedgerFollower:
    """Tells of the calls in a ledger that another process is writing."""

    def __init__(self, ledger: Path, tell: Callable[[CallLine], None]) -> None:
        self._path = ledger
        self._tell = tell
        self._at = 0
        self._next = 0.0

    def look(self) -> None:
        """Tell of what is new; may be called often."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + _LOOK_S
            self._read()

    def finish(self) -> None:
        """Tell of the rest: the ledger is complete."""
        while self._read():
            continue

    def _read(self) -> bool:
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            data = os.pread(file, _MOST_BYTES, self._at)
        finally:
            os.close(file)
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            # Without isolation an agent can write there; what is no call is not told.
            with contextlib.suppress(ValidationError):
                self._tell(CallLine.model_validate_json(line))
        return bool(whole)
