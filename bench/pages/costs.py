"""What success costs: the agents that no other beats for less, and the best one for a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.stats import Entrant, Estimate, RankedStanding, Tally, total_of

BUDGETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Dollars for a cell, of which a table shows those that make a difference."""


@dataclass(frozen=True)
class Point:
    """An agent where cost and result are known."""

    label: str
    who: Entrant | None
    cost: float
    """Dollars for a cell."""
    score: Estimate
    success: Estimate
    replayed: bool
    """Nothing was paid: a recorded conversation, at its price."""
    complete: bool
    """A competitor that met every case: no other can be compared, and none is on the frontier."""

    def value(self, measure: str) -> Estimate:
        return self.score if measure == "score" else self.success


@dataclass(frozen=True)
class AtBudget:
    """The best agent for a budget."""

    usd: float
    point: Point | None
    """None: no agent is so cheap."""


@dataclass(frozen=True)
class ByCategory:
    """What a cell of each category costs one agent; None where nothing is known or paid."""

    who: Entrant
    cells: Sequence[Tally | None]
    whole: Tally


def cost_of(tally: Tally) -> float | None:
    """Dollars for a graded cell: paid, or what the replayed conversation would have cost."""
    cost = tally.cost
    return cost.replayed_usd if cost.mean_usd is None else cost.mean_usd


def cost_per_success(standing_cost: float | None, success: Estimate | None) -> float | None:
    """Dollars for one success: the mean cost of a cell, over the share that succeeds."""
    if standing_cost is None or success is None or success.mean <= 0:
        return None
    return standing_cost / success.mean


def labels_of(rows: Sequence[RankedStanding]) -> Mapping[Entrant, str]:
    """A short name for each: with its model only where the agent alone does not tell."""
    agents = Counter(row.standing.entrant.agent for row in rows)
    found = {}
    for who in (row.standing.entrant for row in rows):
        short = who.model.rpartition("/")[2]
        found[who] = f"{who.agent} · {short}" if agents[who.agent] > 1 and short else who.agent
    return found


def points_of(rows: Sequence[RankedStanding]) -> list[Point]:
    """The competitors whose cost is known."""
    names = labels_of(rows)
    found = []
    for it in (row.standing for row in rows):
        usd = it.cost.replayed_usd if it.cost.mean_usd is None else it.cost.mean_usd
        if usd is not None and it.score is not None and it.success is not None:
            free = it.cost.mean_usd is None
            fair = it.ranked and it.complete
            found.append(Point(names[it.entrant], it.entrant, usd, it.score, it.success, free, fair))
    return found


def frontier(points: Sequence[Point], measure: str) -> list[Point]:
    """The complete points that no other beats at the same or a lower cost, the cheapest first.

    Replayed costs count only where none is paid.
    """
    complete = [point for point in points if point.complete]
    paid = [point for point in complete if not point.replayed]
    best: list[Point] = []
    for point in sorted(paid or complete, key=lambda it: (it.cost, -it.value(measure).mean, it.label)):
        if not best or point.value(measure).mean > best[-1].value(measure).mean:
            best.append(point)
    return best


def at_budgets(best: Sequence[Point], measure: str) -> list[AtBudget]:
    """Of a frontier the best for each budget that changes the answer, and for the one before it."""
    found: list[AtBudget] = []
    for usd in BUDGETS:
        within = [point for point in best if point.cost <= usd]
        chosen = max(within, key=lambda it: it.value(measure).mean, default=None)
        if not found or found[-1].point is not chosen:
            found.append(AtBudget(usd, chosen))
    return [it for it in found if it.point is not None]


def by_category(
    rows: Sequence[RankedStanding], categories: Mapping[str, str]
) -> tuple[Sequence[str], Sequence[ByCategory]]:
    """The categories, and the tallies of each agent in them; `categories`: by case."""
    names = sorted(set(categories.values()))
    found = []
    for it in (row.standing for row in rows):
        groups = {name: [tally for case, tally in it.cases.items() if categories.get(case) == name] for name in names}
        cells = [total_of(groups[name]) if groups[name] else None for name in names]
        found.append(ByCategory(it.entrant, cells, total_of(it.cases.values())))
    return names, found
