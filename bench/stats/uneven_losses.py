"""Losses that one side of a comparison has more of: what was lost may be what would have failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from bench.base.text import counted
from bench.formats.record import Record
from bench.stats.entrants import unique_cells
from bench.stats.sign_flips import sign_flip
from bench.stats.tally import LOST

_SHOWN = 0.05
"""The level, two-sided, at which sides show that they do not lose alike."""


@dataclass
class _Case:
    """The cells of one case on one side."""

    succeeded: int = 0
    graded: int = 0
    lost: int = 0

    @property
    def cells(self) -> int:
        return self.graded + self.lost


def uneven_losses(base: Iterable[Record], head: Iterable[Record]) -> list[str]:
    """A note, where flipping the signs of the cases' differences shows that one side lost the larger share.

    It says what the difference of success would be had all that this side lost failed: the worst case of Manski
    (Nonparametric bounds on treatment effects, American Economic Review 80, 1990). Over the cases that both sides have
    a verdict of.
    """
    sides = _cases(base), _cases(head)
    common = sorted(case for case in sides[0].keys() & sides[1].keys() if all(it[case].graded for it in sides))
    one, other = ([side[case] for case in common] for side in sides)
    apart = np.array([h.lost / h.cells - b.lost / b.cells for b, h in zip(one, other, strict=True)])
    if not len(apart) or 2 * min((tails := sign_flip(apart)).lower, tails.upper) >= _SHOWN:
        return []
    of_head = bool(apart.mean() > 0)
    seen = _success(other, lost_failed=False) - _success(one, lost_failed=False)
    worst = _success(other, lost_failed=of_head) - _success(one, lost_failed=not of_head)
    return [
        f"losses: base lost {_lost(one)}, head {_lost(other)}, more than by chance (p ="
        f" {2 * min(tails.lower, tails.upper):.2g}). What {'head' if of_head else 'base'} lost may be what would have"
        f" failed; had all of it, the difference of success would be {100 * worst:+.1f} points, not {100 * seen:+.1f}"
    ]


def _cases(records: Iterable[Record]) -> dict[str, _Case]:
    found: dict[str, _Case] = defaultdict(_Case)
    for record in unique_cells(records):
        case = found[record.case.id]
        case.graded += record.outcome == "graded"
        case.succeeded += record.outcome == "graded" and bool(record.success)
        case.lost += record.outcome in LOST
    return found


def _success(cases: Sequence[_Case], *, lost_failed: bool) -> float:
    return fmean(it.succeeded / (it.cells if lost_failed else it.graded) for it in cases)


def _lost(cases: Sequence[_Case]) -> str:
    return f"{sum(it.lost for it in cases)} of {counted(sum(it.cells for it in cases), 'cell')}"
