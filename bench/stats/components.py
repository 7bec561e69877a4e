"""Where the variance of an agent's results comes from: its cases, or its trials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, pvariance, variance

from bench.record import Record
from bench.stats.measures import Measure
from bench.stats.standing import current, unique_cells


@dataclass(frozen=True)
class Components:
    """Of one measure, over the cases of one agent with its models in one profile."""

    mean: float
    """Over cases."""
    between: float
    """The variance of the cases' true means."""
    within: float
    """The mean over cases of the variance of one trial."""
    cases: int
    trials: int
    """Graded, in all."""
    repeated: bool
    """False: no case has two trials of one version. `within` is then its upper bound, and `between` 0."""


def components(records: Iterable[Record], measure: Measure) -> Components | None:
    """The parts, by the method of moments of one-way analysis of variance; None for fewer than two graded cases.

    Searle, Casella and McCulloch, Variance Components, 1992, section 3.6. Trials of different versions of the agent
    are not trials of one thing: the variance within is taken inside each version.
    """
    groups: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in current(unique_cells(records)):
        value = measure.value(record)
        if record.outcome == "graded" and value is not None:
            groups[record.case.id][record.agent.digest].append(value)
    if len(groups) < 2:
        return None
    pooled = {case: [value for values in versions.values() for value in values] for case, versions in groups.items()}
    means = [fmean(values) for values in pooled.values()]
    trials = sum(map(len, pooled.values()))
    inside = [
        fmean([variance(values) for values in versions.values() if len(values) > 1])
        for versions in groups.values()
        if any(len(values) > 1 for values in versions.values())
    ]
    if not inside:
        return Components(fmean(means), 0.0, pvariance(means), len(means), trials, repeated=False)
    within = fmean(inside)
    of_means = fmean([within / len(values) for values in pooled.values()])
    between = max(0.0, variance(means) - of_means)
    return Components(fmean(means), between, within, len(means), trials, repeated=True)
