"""How cases and spending went over time, by days and, further back, by weeks; and tokens by kind.

Everything is worked out from the cells that count in the standings. Sums are whole numbers, so that they are the same
in whatever order they were added.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import fmean

from bench.formats.model_usage import Tokens
from bench.formats.record import Profile, Record
from bench.stats.entrants import Entrant

DAYS = 56
"""Days before the newest result that are shown one by one; older ones are put together by weeks, from Monday."""
MICRO = 1_000_000
"""Sums of money are whole millionths of a dollar."""
DIGITS = 6


@dataclass(frozen=True)
class CasePeriod:
    """A case on one day, or in one week: how the ranked agents that met it did."""

    profile: Profile
    case: str
    since: str
    """`2026-11-21`; of a week its Monday."""
    success: float
    """Mean over agents of the share of their trials that succeeded."""
    agents: int
    cells: int


@dataclass(frozen=True)
class TokenUse:
    """Tokens of the graded cells that say them, and in how many."""

    cells: int = 0
    uncached: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def cache_share(self) -> float | None:
        """Of what went before the model, the share that was read from a cache."""
        whole = self.uncached + self.cache_read + self.cache_write
        return self.cache_read / whole if whole else None


@dataclass(frozen=True)
class Spent:
    """What the cells of one day, or of one week, cost."""

    profile: Profile
    since: str
    cells: int
    paid: int
    """Millionths of a dollar."""
    replayed: int
    """Of conversations that were recorded before: not paid."""
    unknown: int
    """Cells without a known cost."""


def period_of(started: str, newest: str) -> str:
    """The first day of the period of a cell. Both are instants as records write them."""
    day, last = date.fromisoformat(started[:10]), date.fromisoformat(newest[:10])
    return str(day if last - day < timedelta(days=DAYS) else day - timedelta(days=day.weekday()))


def case_periods(counted: Mapping[tuple[Entrant, str], Sequence[Record]]) -> list[CasePeriod]:
    """`counted`: by entrant and case."""
    newest = _newest(counted)
    values: dict[tuple[Profile, str, str], dict[Entrant, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for (entrant, case), records in counted.items():
        for record in records:
            if record.competes and record.outcome == "graded":
                key = entrant.profile, case, period_of(record.started, newest)
                values[key][entrant].append(bool(record.success))
    return [
        CasePeriod(*key, round(fmean(map(fmean, them.values())), DIGITS), len(them), sum(map(len, them.values())))
        for key, them in sorted(values.items())
    ]


def token_use(counted: Mapping[tuple[Entrant, str], Sequence[Record]]) -> dict[Entrant, TokenUse]:
    """Of each entrant; a cell counts where input and output of all its models are known."""
    sums: dict[Entrant, list[int]] = defaultdict(lambda: [0] * 6)
    for (entrant, _), records in counted.items():
        for record in records:
            tokens = [use.tokens for use in record.usage]
            if record.outcome == "graded" and tokens and all(map(_known, tokens)):
                found = (1, *(sum(getattr(it, name) or 0 for it in tokens) for name in _KINDS))
                sums[entrant] = [a + b for a, b in zip(sums[entrant], found, strict=True)]
    return {entrant: TokenUse(*them) for entrant, them in sums.items()}


_KINDS = ("input_uncached", "cache_read", "cache_write", "output", "reasoning")


def _known(tokens: Tokens) -> bool:
    return all(getattr(tokens, name) is not None for name in _KINDS[:4])


def spending(counted: Mapping[tuple[Entrant, str], Sequence[Record]]) -> list[Spent]:
    """By profile and period, the oldest first; cells that were lost cost money, too."""
    newest = _newest(counted)
    sums: dict[tuple[Profile, str], list[int]] = defaultdict(lambda: [0] * 4)
    for (entrant, _), records in counted.items():
        for record in records:
            row = sums[entrant.profile, period_of(record.started, newest)]
            row[0] += 1
            if record.cost_status == "unknown" or record.cost_usd is None:
                row[3] += 1
            else:
                row[2 if record.cost_status == "simulated" else 1] += math.floor(record.cost_usd * MICRO + 0.5)
    return [Spent(*key, *them) for key, them in sorted(sums.items())]


def _newest(counted: Mapping[tuple[Entrant, str], Iterable[Record]]) -> str:
    return max((record.started for records in counted.values() for record in records), default="")
