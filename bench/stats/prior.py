"""What stored results leave open of the cases that could be chosen."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.formats.record import Record
from bench.stats.entrants import current, unique_cells
from bench.stats.intervals import Floats
from bench.stats.pairing import MEASURES
from bench.stats.power import components

_LEAST_WEIGHT, _MOST_WEIGHT = 0.2, 50.0


@dataclass(frozen=True)
class Candidate:
    """A case that may be taken. Costs are of one cell, models and machines together (USD)."""

    id: str
    category: str
    usd: float
    costs: Sequence[float]
    """Costs that were seen, around `usd`; empty: none, and `usd` is the most that is possible."""
    seconds: float
    """Expected of one cell."""
    arms: int = 1
    """Cells of one trial."""


class TooLittle(ValueError):
    """The budget is below the cheapest possible verdict, or no budget buys one; the text says which."""


@dataclass(frozen=True)
class Prior:
    """The Beta distribution of the cases' chances, and how far it is known."""

    mean: float
    weight: float
    cases: int
    error: float
    """Standard deviation of the mean."""

    @property
    def parameters(self) -> tuple[float, float]:
        """Of the Beta distribution."""
        return self.mean * self.weight, (1 - self.mean) * self.weight

    def drawn(self, rng: np.random.Generator) -> Floats:
        """(2,): parameters of a distribution that could as well be the true one, normal in mean and log weight."""
        shift, stretch = rng.standard_normal(2)
        mean = float(np.clip(self.mean + self.error * shift, 0.02, 0.98))
        weight = float(
            np.clip(self.weight * math.exp(stretch * math.sqrt(4 / self.cases)), _LEAST_WEIGHT, _MOST_WEIGHT)
        )
        return np.array([mean * weight, (1 - mean) * weight])


def posterior(candidates: Sequence[Candidate], records: Iterable[Record]) -> tuple[Prior, Floats]:
    """What holds of all cases, and (cases, 2): successes and failures of each."""
    met = [it for it in current(unique_cells(records)) if it.outcome == "graded"]
    parts = components(met, MEASURES["success"])
    if parts is None:
        raise TooLittle("history has fewer than two cases with a verdict")
    trials: dict[str, list[bool]] = defaultdict(list)
    for record in met:
        trials[record.case.id].append(bool(record.success))
    # One success and one failure more: a history of nothing but successes does not promise them.
    mean = (parts.mean * parts.cases + 1) / (parts.cases + 2)
    # Without second trials all of the variance counts as within cases. Cases differ in every suite that is known.
    between = parts.between if parts.repeated else parts.within / 2
    weight = float(np.clip(mean * (1 - mean) / max(between, 1e-9) - 1, _LEAST_WEIGHT, _MOST_WEIGHT))
    error = math.sqrt((parts.between + parts.within * parts.cases / parts.trials) / parts.cases)
    counts = [(sum(trials[it.id]), len(trials[it.id]) - sum(trials[it.id])) for it in candidates]
    return Prior(mean, weight, parts.cases, error), np.array(counts, dtype=np.float64)
