"""Instants, jumps of the machine's clock, and the lines in which long work tells how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

Progress = Callable[[str], None]
"""Is told now and then, in one line of text, what is being done and how much of it is done."""


def instant(moment: datetime) -> str:
    """UTC in ISO 8601 with milliseconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def now() -> str:
    """The present instant."""
    return instant(datetime.now(UTC))


@dataclass(frozen=True)
class TimeOfDay:
    """Tells whether the machine's clock has been set since this was made."""

    offset_s: float = field(default_factory=lambda: time.time() - time.monotonic())

    @property
    def jumped_s(self) -> float:
        """Seconds by which the time of day has gone ahead of the time that passed; below 0: backwards."""
        return time.time() - time.monotonic() - self.offset_s
