"""When things happened in one try of a cell."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
    """The phases of one try, as they happened."""

    started: str = field(default_factory=now)
    phases: list[Phase] = field(default_factory=list)

    @contextlib.contextmanager
    def phase(self, name: PhaseName) -> Iterator[None]:
        start, began = now(), time.monotonic()
        try:
            yield
        finally:
            self.phases.append(Phase(name=name, start=start, seconds=round(time.monotonic() - began, 4)))
