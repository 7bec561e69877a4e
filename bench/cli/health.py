"""One finding about this machine, as `doctor` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class HealthCheck:
    """One thing looked at."""

    name: str
    state: Literal["ok", "missing", "note"]
    detail: str
    remedy: str = ""
