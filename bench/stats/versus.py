"""Two agents on the same cases: by how much one is ahead, and on which cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.stats.intervals import LEVEL, Interval, difference_intervals
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


def head_to_head(one: Standing, other: Standing) -> HeadToHead | None:
    """None where no case was graded for both. The interval is that of `compare` between cases, without its nights."""
    apart = np.array(differences(one, other), dtype=np.float64)
    if not len(apart):
        return None
    (interval,) = difference_intervals(apart, [LEVEL])
    return HeadToHead(float(apart.mean()), interval, len(apart), int((apart > 0).sum()), int((apart < 0).sum()))


def differences(one: Standing, other: Standing) -> Sequence[float]:
    """Of each case that both were graded on."""
    pairs = ((it.success, other.cases[case].success) for case, it in one.cases.items() if case in other.cases)
    return [mine - its for mine, its in pairs if mine is not None and its is not None]
