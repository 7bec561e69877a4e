"""Two agents on the same cases: by how much one is ahead, and on which cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bench.stats.intervals import LEVEL, Interval, intervals_of_differences
from bench.stats.standing import Standing


@dataclass(frozen=True)
class HeadToHead:
    """Success of one less that of the other, over the cases that both were graded on."""

    difference: float
    interval: Interval | None
    """Of cases like these; None where one case gives no idea of the spread."""
    n: int
    """Cases."""
    ahead: int
    """Cases on which the first succeeds more often."""
    behind: int

    @property
    def sure(self) -> bool:
        """Does the interval leave 0 out?"""
        return self.interval is not None and (self.interval.low > 0 or self.interval.high < 0)


def heads_to_heads(standings: Sequence[Standing]) -> list[HeadToHead | None]:
    """Of every two, in the order of `combinations`; None where no case was graded for both.

    The interval is that of `compare` between cases, without its nights.
    """
    cases = sorted({case for it in standings for case in it.cases})
    success = [{case: it.success for case, it in standing.cases.items()} for standing in standings]
    table = np.array([[own.get(case) for case in cases] for own in success], dtype=np.float64)
    apart = [one - other for one, other in combinations(table, 2)]
    known = [row[np.isfinite(row)] for row in apart]
    return [
        HeadToHead(float(row.mean()), interval, len(row), int((row > 0).sum()), int((row < 0).sum()))
        if len(row)
        else None
        for row, interval in zip(known, intervals_of_differences(known, LEVEL), strict=True)
    ]
