"""What one component of an agent does, as found by `bench.stats.factor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.stats.intervals import Contrast, Correlation, Interval

KINDS = ("canonical", "open-ended")


Direction = Literal["more on hard cases", "more on easy cases", "not shown", "not tested"]


OneOf = Literal["other agents", "base", "head"]


@dataclass(frozen=True)
class CaseEffect:
    """One case. Intervals are 95%, of its trials' error alone."""

    case: str
    kind: str
    """`canonical`, `open-ended`, or empty where it is not known."""
    base: tuple[int, int]
    """Succeeded, of trials."""
    head: tuple[int, int]
    success: float
    success_interval: Interval
    score: float
    score_interval: Interval | None
    """None with one trial on a side."""
    difficulty: float | None
    """1 less the mean success of the other agents; None where there are none."""


@dataclass(frozen=True)
class Slope:
    """How much the effect grows with difficulty, from 0 to 1, over cases.

    Of other agents, difficulty is 1 less their mean. Of an arm, each of its trials has one turn: the effect is taken
    from that trial and the other arm, and the difficulty from the other trials of its own arm, so that what luck does
    to a trial is on one side only (cross-fitting; Chernozhukov et al., The Econometrics Journal 21, 2018).
    """

    by: OneOf
    cases: int
    slope: float
    interval: Interval
    p: float
    """Two-sided."""
    reliability: float | None
    """The part of the variance of the measured difficulty that is not chance; the slope is too flat by this factor."""


@dataclass(frozen=True)
class Interaction:
    """Does the component help more on hard cases?

    Without other agents both arms are asked. Cases that are hard for base gain, and those that are hard for head lose,
    wherever the component merely changes which cases succeed. So a direction is named only where both slopes have it
    (intersection-union test; Berger, Technometrics 24, 1982).
    """

    verdict: Direction
    reason: str
    """Why it was not tested."""
    slopes: Sequence[Slope]


@dataclass(frozen=True)
class KindEffect:
    """The mean effect over the cases of one kind."""

    kind: str
    cases: int
    effect: float
    interval: Interval | None


@dataclass(frozen=True)
class MeasureEffects:
    """Of success or score."""

    measure: str
    interaction: Interaction
    kinds: Sequence[KindEffect]
    contrast: Contrast | None
    """The mean effect on open-ended cases less that on canonical ones."""
    kind_and_difficulty: Correlation | None
    """Of being open-ended with difficulty: where it is high, the two cannot be told apart as causes."""
    canonical_and_open_ended: Correlation | None
    """Over agents, of their means on canonical and on open-ended cases."""


@dataclass(frozen=True)
class FactorEffects:
    """Everything."""

    cases: Sequence[CaseEffect]
    agents: Sequence[str]
    """The other agents that difficulty is taken from."""
    notes: Sequence[str]
    measures: Sequence[MeasureEffects]
