"""Where a statistic lies among those that chance alone would give."""

from __future__ import annotations

from dataclasses import dataclass

from bench.stats.intervals import Floats


@dataclass(frozen=True)
class Tails:
    """One-sided p-values of a mean difference."""

    lower: float
    """Chance of a mean as low as this, or lower, if nothing has changed."""
    upper: float
    draws: int | None
    """None: exact. Otherwise the Monte Carlo draws behind it; +1 is added to both counts (Phipson and Smyth, 2010)."""


def tails_among(found: Floats, observed: float, slack: float, *, exact: bool) -> Tails:
    """Where `observed` lies among `found`, shape (n,): all that are possible where `exact`, else draws of them.

    What differs by `slack` or less is equal: sums that are equal on paper differ by rounding.
    """
    lower, upper = int((found <= observed + slack).sum()), int((found >= observed - slack).sum())
    if exact:
        return Tails(lower / len(found), upper / len(found), None)
    return Tails((1 + lower) / (1 + len(found)), (1 + upper) / (1 + len(found)), len(found))
