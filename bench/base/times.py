"""Instants as text, and whether the machine's clock was set in the meantime."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime


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
