"""What cells took: money, model calls, tokens and time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from bench.formats.record import Record


@dataclass(frozen=True)
class Cost:
    """Mean cost of a graded cell. What a replayed conversation would have cost is never mixed with money paid."""

    mean_usd: float | None
    """Over the cells that were paid for, or made no call."""
    estimated: bool
    """Some of it comes from estimated token counts."""
    replayed_usd: float | None
    """Over the replayed cells."""
    unknown: int
    """Cells whose cost nobody knows; they are in neither mean."""


@dataclass(frozen=True)
class Effort:
    """What the graded cells took. A mean is None where nothing is known; unknown token counts are left out of it."""

    steps: float | None
    seconds: float | None
    """Of the agent's own phase."""
    input_tokens: float | None
    output_tokens: float | None
    total_steps: int
    total_seconds: float


def agent_seconds(record: Record) -> float | None:
    """Wall time of the agent's phase."""
    seconds = [phase.seconds for phase in record.phases if phase.name == "agent"]
    return math.fsum(seconds) if seconds else None


def input_tokens(record: Record) -> int | None:
    """All tokens sent, cached or not; None when a part is unknown."""
    return _sum_known(
        part
        for usage in record.usage
        for part in (usage.tokens.input_uncached, usage.tokens.cache_read, usage.tokens.cache_write)
    )


def output_tokens(record: Record) -> int | None:
    return _sum_known(usage.tokens.output for usage in record.usage)


def _sum_known(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total
