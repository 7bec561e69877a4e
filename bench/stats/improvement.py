"""The two scores of an improvement over trials: relative to the baseline, and bounded by the best value known.

Relative and its bars as in MLAgentBench (Huang et al. 2024): strictly more than the bar, of all graded trials; the mean
over the valid ones. A trial is valid when the judge measured the metric and no guard failed. The metric alone decides
about a bar: `success` asks for every other required check, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.formats.case_metric import Scale
from bench.stats.entrants import Entrant
from bench.stats.intervals import clustered, student
from bench.stats.standing import Estimate, estimate

BARS = (0.05, 0.1, 0.15, 0.2, 0.3)
FEWEST_TRIALS = 3
"""With fewer there is no interval: one or two trials say nothing of how much a third may differ."""


@dataclass(frozen=True)
class Improvement:
    """What an entrant made of the continuous metric of one case."""

    entrant: Entrant
    case: str
    scale: Scale
    graded: int
    valid: int
    succeeded: int
    """Of the graded trials, by all of the case's checks."""
    value: float | None
    """Mean over the valid trials."""
    relative: Estimate | None
    """Over the valid trials; None without one, or with a baseline of 0."""
    bounded: Estimate | None
    """Over the graded trials, 0 for those that are not valid."""
    over: Mapping[float, float]
    """By each of `BARS`, the share of the graded trials whose relative change is strictly more."""

    @property
    def over_own_bar(self) -> float | None:
        """The same for the bar of the case, where it has one of `BARS`."""
        return None if self.scale.bar is None else self.over.get(self.scale.bar)


@dataclass(frozen=True)
class OverCases:
    """An entrant over all cases with a continuous metric: means over the cases, each with the same weight."""

    entrant: Entrant
    cases: int
    over: Mapping[float, Estimate]
    relative: float | None
    """Over the cases with a valid trial. Without an interval: it has no ceiling, and one case can outweigh all."""
    valid_cases: int
    bounded: Estimate | None


def improvement_of(
    entrant: Entrant, case: str, scale: Scale, values: Sequence[float | None], succeeded: int
) -> Improvement:
    """`values`: of each graded trial, None where it is not valid, in any order."""
    valid = sorted(value for value in values if value is not None)
    shares = [share for value in valid if (share := scale.relative(value)) is not None]
    bounded = sorted(0.0 if value is None else scale.bounded(value) for value in values)
    enough = len(valid) >= FEWEST_TRIALS
    return Improvement(
        entrant=entrant,
        case=case,
        scale=scale,
        graded=len(values),
        valid=len(valid),
        succeeded=succeeded,
        value=fmean(valid) if valid else None,
        relative=Estimate(fmean(shares), len(shares), student(shares) if enough else None) if shares else None,
        bounded=Estimate(fmean(bounded), len(bounded), clustered(bounded) if len(bounded) >= FEWEST_TRIALS else None)
        if bounded
        else None,
        over={bar: sum(scale.is_over(value, bar) for value in valid) / len(values) for bar in BARS} if values else {},
    )


def over_cases(found: Iterable[Improvement]) -> list[OverCases]:
    """By entrant, in their order."""
    groups: dict[Entrant, list[Improvement]] = defaultdict(list)
    for it in found:
        if it.graded:
            groups[it.entrant].append(it)
    return [_over_cases(entrant, groups[entrant]) for entrant in sorted(groups)]


def _over_cases(entrant: Entrant, own: Sequence[Improvement]) -> OverCases:
    shares = [it.relative.mean for it in own if it.relative is not None]
    over = {bar: estimate([it.over[bar] for it in own]) for bar in BARS}
    return OverCases(
        entrant,
        len(own),
        {bar: found for bar, found in over.items() if found is not None},
        fmean(shares) if shares else None,
        len(shares),
        estimate([it.bounded.mean for it in own if it.bounded is not None]),
    )
