"""What cells took: money, model calls, tokens and time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.formats.record import CostStatus, Record


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


def cost_of(records: Sequence[Record]) -> Cost:
    """A cell without any call was free; it counts beside paid cells, and beside replayed ones where none was paid."""
    by_status: dict[CostStatus, list[float]] = defaultdict(list)
    for record in records:
        status: CostStatus = "unknown" if record.cost_usd is None else record.cost_status
        by_status[status].append(record.cost_usd or 0.0)
    free, paid, replayed = by_status["none"], by_status["exact"] + by_status["estimated"], by_status["simulated"]
    if replayed and not paid:
        return Cost(None, False, fmean(replayed + free), len(by_status["unknown"]))
    return Cost(mean_of(paid + free), bool(by_status["estimated"]), mean_of(replayed), len(by_status["unknown"]))


def effort_of(records: Sequence[Record]) -> Effort:
    seconds = [agent_seconds(record) for record in records]
    known = [value for value in seconds if value is not None]
    return Effort(
        steps=mean_of([float(record.steps) for record in records]),
        seconds=mean_of(known),
        input_tokens=_mean_tokens(records, input_tokens),
        output_tokens=_mean_tokens(records, output_tokens),
        total_steps=sum(record.steps for record in records),
        total_seconds=math.fsum(known),
    )


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


def mean_of(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _sum_known(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _mean_tokens(records: Sequence[Record], count: Callable[[Record], int | None]) -> float | None:
    known = [float(value) for record in records if (value := count(record)) is not None]
    return mean_of(known)
