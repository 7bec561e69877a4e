"""What cells took in money, model calls, tokens and time: of one record, and counted and summed up over many.

Tables are worked out from a `Tally`, whether Python or SQL (`bench.index`) did the adding.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bench.formats.record import Record
from bench.stats.intervals import Interval, wilson

LOST = ("infra", "interrupted")
"""Outcomes that took time and say nothing about the agent."""
PLACES = 18
"""Decimal places of a sum."""
_UNIT: int = 10**PLACES


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
    """Cells whose cost is not known; they are in neither mean."""


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


@dataclass(frozen=True)
class Tally:
    """Counts of cells, and sums over the graded ones.

    A sum is a whole number of 10^-18: unlike a sum of floats it is the same in whatever order its parts were added,
    so a table made from the index is equal to one made from the records.
    """

    cells: int = 0
    graded: int = 0
    lost: int = 0
    retried: int = 0
    """Tries that were lost before the one that a cell's record tells of."""
    succeeded: int = 0
    score_sum: int = 0
    steps_sum: int = 0
    seconds_known: int = 0
    seconds_sum: int = 0
    input_known: int = 0
    input_sum: int = 0
    output_known: int = 0
    output_sum: int = 0
    cost_unknown: int = 0
    none_cells: int = 0
    none_usd: int = 0
    exact_cells: int = 0
    exact_usd: int = 0
    estimated_cells: int = 0
    estimated_usd: int = 0
    simulated_cells: int = 0
    simulated_usd: int = 0

    @property
    def success(self) -> float | None:
        """The share of the graded cells that succeeded."""
        return self.succeeded / self.graded if self.graded else None

    @property
    def score(self) -> float | None:
        return _mean(self.score_sum, self.graded)

    @property
    def interval(self) -> Interval | None:
        """Wilson's interval of the success, over the graded cells."""
        return None if self.success is None else wilson(self.success, self.graded)

    @property
    def cost(self) -> Cost:
        """A cell without any call was free: it counts beside paid cells, or beside replayed ones if none was paid."""
        paid, spent = self.exact_cells + self.estimated_cells, self.exact_usd + self.estimated_usd
        if self.simulated_cells and not paid:
            replayed = _mean(self.simulated_usd + self.none_usd, self.simulated_cells + self.none_cells)
            return Cost(None, False, replayed, self.cost_unknown)
        mean = _mean(spent + self.none_usd, paid + self.none_cells)
        return Cost(mean, self.estimated_cells > 0, _mean(self.simulated_usd, self.simulated_cells), self.cost_unknown)

    @property
    def effort(self) -> Effort:
        return Effort(
            steps=_mean(self.steps_sum, self.graded),
            seconds=_mean(self.seconds_sum, self.seconds_known),
            input_tokens=_mean(self.input_sum, self.input_known),
            output_tokens=_mean(self.output_sum, self.output_known),
            total_steps=self.steps_sum // _UNIT,
            total_seconds=self.seconds_sum / _UNIT,
        )


def tally_of(records: Iterable[Record]) -> Tally:
    """The tally of records that all count."""
    found: Counter[str] = Counter()
    for record in records:
        found["cells"] += 1
        found["lost"] += record.outcome in LOST
        found["retried"] += len(record.tries)
        if record.outcome == "graded":
            _add_graded(found, record)
    return Tally(**found)


def total_of(tallies: Iterable[Tally]) -> Tally:
    """The tally of all their cells."""
    found: Counter[str] = Counter()
    for tally in tallies:
        found.update(vars(tally))
    return Tally(**found)


def without(tally: Tally, part: Tally) -> Tally:
    """`tally` less the cells of `part`, which are among its own."""
    return Tally(**{name: value - getattr(part, name) for name, value in vars(tally).items()})


def units(value: float) -> int:
    """`value` in the unit of sums, halves away from zero: as DuckDB makes a DECIMAL of it."""
    if isinstance(value, int):
        return value * _UNIT
    # DuckDB multiplies in double precision before it rounds; an exact product would differ in the last places.
    scaled = value * float(_UNIT)
    whole = int(scaled)
    return whole + (scaled - whole >= 0.5)


def _add_graded(found: Counter[str], record: Record) -> None:
    found["graded"] += 1
    found["succeeded"] += bool(record.success)
    found["score_sum"] += units(record.score or 0.0)
    found["steps_sum"] += units(record.steps)
    measured = {"seconds": agent_seconds(record), "input": input_tokens(record), "output": output_tokens(record)}
    for name, value in measured.items():
        if value is not None:
            found[f"{name}_known"] += 1
            found[f"{name}_sum"] += units(value)
    if record.cost_usd is None or record.cost_status == "unknown":
        found["cost_unknown"] += 1
    else:
        found[f"{record.cost_status}_cells"] += 1
        found[f"{record.cost_status}_usd"] += units(record.cost_usd)


def _mean(total: int, n: int) -> float | None:
    return total / (n * _UNIT) if n else None


def agent_seconds(record: Record) -> float | None:
    """Wall time of the agent's phase."""
    seconds = [phase.seconds for phase in record.phases if phase.name == "agent"]
    return math.fsum(seconds) if seconds else None


def input_tokens(record: Record) -> int | None:
    """All tokens sent, cached or not; None when a part is unknown."""
    return sum_known(
        part
        for usage in record.usage
        for part in (usage.tokens.input_uncached, usage.tokens.cache_read, usage.tokens.cache_write)
    )


def output_tokens(record: Record) -> int | None:
    """All tokens received; None when a part is unknown."""
    return sum_known(usage.tokens.output for usage in record.usage)


def sum_known(parts: Iterable[int | None]) -> int | None:
    """The sum; None as soon as one part is unknown."""
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total
