"""When things happened in one try of a cell, told by a clock that nobody sets."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from bench.record import Phase

PhaseName = Literal["prepare", "agent", "snapshot", "judge"]


def instant(moment: datetime) -> str:
    """UTC in ISO 8601 with milliseconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def now() -> str:
    """This instant."""
    return instant(datetime.now(UTC))


@dataclass
class Clock:
    """The phases of one try, as they happened.

    The machine's time of day is read once; from then on the monotonic clock counts, so that no time runs backwards.
    """

    started: str = field(default_factory=now)
    phases: list[Phase] = field(default_factory=list)
    _read: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.monotonic)
    """Monotonic seconds."""

    def now(self) -> str:
        """This instant, by the count since the clock was read."""
        return instant(self._read + timedelta(seconds=time.monotonic() - self.began))

    @contextlib.contextmanager
    def phase(self, name: PhaseName) -> Iterator[None]:
        start, began = self.now(), time.monotonic()
        try:
            yield
        finally:
            self.phases.append(Phase(name=name, start=start, seconds=round(time.monotonic() - began, 4)))


@dataclass(frozen=True)
class TimeOfDay:
    """Tells whether somebody has set the machine's clock since this was made."""

    offset_s: float = field(default_factory=lambda: time.time() - time.monotonic())

    @property
    def jumped_s(self) -> float:
        """Seconds by which the time of day has gone ahead of the time that passed; below 0: backwards."""
        return time.time() - time.monotonic() - self.offset_s
