"""`plan --budget --detect`: the cases and trials that bring the best verdict for their price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.base.errors import UserError
from bench.base.text import counted

if TYPE_CHECKING:
    from bench.formats.plan import Cell, Detection
    from bench.formats.record import Record
    from bench.plan import Experiment, History, RunCells
    from bench.stats import Candidate, Selection

MOST_TRIALS = 20
"""A case and arm, where the experiment does not say how many may be taken."""


@dataclass(frozen=True)
class Goal:
    """What a plan may cost (USD, models and machines), and the drop in points that it must show."""

    budget: float
    detect: float

    @property
    def drop(self) -> float:
        return self.detect / 100


def chosen_cells(
    parts: Sequence[RunCells], goal: Goal, experiment: Experiment, history: History, records: Sequence[Record]
) -> tuple[list[RunCells], Detection]:
    """The cells of `parts` that the budget is best spent on; raises `UserError`.

    parts: each case with all the trials that it may get.
    """
    from bench.stats import TooLittle, select

    part = _only(parts)
    met = [it for it in records if _is_of(it, part)]
    by_case: dict[str, list[Cell]] = defaultdict(list)
    for cell in part.cells:
        if cell.trial == 1:
            by_case[cell.case.id].append(cell)
    candidates = [_candidate(cells, experiment, history, met) for cells in by_case.values()]
    most = max(cell.trial for cell in part.cells)
    try:
        found = select(candidates, _of_one_agent(met, part), goal.drop, goal.budget, most)
    except TooLittle as error:
        raise UserError(
            f"{goal.budget:g} USD for a drop of {goal.detect:g} points: {error}",
            where="plan --budget",
            remedy="raise --budget, change --detect, or name more cases, or history with --results or --runs",
        ) from error
    taken = set(found.offer.cases)
    cells = [it for it in part.cells if it.case.id in taken and it.trial <= found.offer.trials]
    return [replace(part, cells=cells)], _detection(found, goal)


def _only(parts: Sequence[RunCells]) -> RunCells:
    agents = {cell.agent.id for part in parts for cell in part.cells}
    if len(parts) != 1 or len(agents) > 2 or len({tuple(sorted(it.models.items())) for it in parts[0].cells}) > 1:
        raise UserError(
            f"a budget is for one comparison, and the experiment has {counted(len(agents), 'agent')} in {len(parts)} "
            "suites and profiles, or several models",
            where="plan --budget",
            remedy="name one agent (and its base), one model, one suite and one profile",
        )
    return parts[0]


def _is_of(record: Record, part: RunCells) -> bool:
    """Whether the record is of an agent of the plan, with its models, in its profile."""
    from bench.plan import model_key

    agents = {(cell.agent.id, model_key(cell.models)) for cell in part.cells[:2]}
    agent = (record.agent.id, model_key(record.models))
    return record.outcome == "graded" and record.profile == part.profile and agent in agents


def _of_one_agent(records: Sequence[Record], part: RunCells) -> list[Record]:
    """Of an agent of the plan that history knows: two agents are not trials of one."""
    for agent in dict.fromkeys(cell.agent.id for cell in part.cells):
        found = [it for it in records if it.agent.id == agent]
        if found:
            return found
    return []


def _candidate(cells: Sequence[Cell], experiment: Experiment, history: History, records: Sequence[Record]) -> Candidate:
    """The case of `cells`, which are those of its first trial: one an arm."""
    from bench.plan import NEWEST, machine_for, paid_usd
    from bench.stats import Candidate

    spec = cells[0].case.spec
    machine = machine_for(cells[0], experiment.machines)
    estimates = [history.estimate(cell) for cell in cells]
    if any(it.usd is None for it in estimates):
        raise UserError(
            f"the price of case {spec.id!r} is not known, so a budget cannot be held",
            where="plan --budget",
            remedy="name the model's price (docs/gateway.md)",
        )
    # Setting up is paid, too: once for each shard, whose length the experiment names.
    rate = machine.usd_per_hour / 3600 * (1 + machine.setup_s / (60 * experiment.shard_minutes))
    measured = all(it.source == "measured" for it in estimates)
    costs = []
    for record in [it for it in records if it.case.id == spec.id][-NEWEST:]:
        paid = paid_usd(record)
        if paid is not None and measured:
            costs.append(paid + rate * sum(phase.seconds for phase in record.phases))
    whole = spec.limits.agent_s + spec.limits.grade_s
    bound = sum(it.usd or 0.0 for it in estimates) / len(cells) + rate * whole
    return Candidate(
        id=spec.id,
        category=spec.category,
        usd=sum(costs) / len(costs) if costs else bound,
        costs=costs,
        seconds=sum(it.seconds for it in estimates) / len(cells),
        arms=len(cells),
    )


def _detection(found: Selection, goal: Goal) -> Detection:
    from bench.formats.plan import Detection

    offer = found.offer
    return Detection(
        drop=goal.drop,
        budget_usd=goal.budget,
        cases=sorted(offer.cases),
        trials=offer.trials,
        power=round(offer.power, 3),
        power_interval=(round(found.power_interval.low, 3), round(found.power_interval.high, 3)),
        usd=round(offer.usd, 2),
        usd_interval=(round(offer.usd_interval.low, 2), round(offer.usd_interval.high, 2)),
        unknown_cases=found.unknown,
        strata=found.strata,
        enough_usd=None if found.enough is None else round(found.enough.usd_interval.high, 2),
    )


def detection_text(found: Detection, arms: int) -> str:
    """Lines for people; arms: those that the plan has."""
    price, chance = found.usd_interval, found.power_interval
    lines = [
        f"chosen    {counted(len(found.cases), 'case')} x {counted(found.trials, 'trial')} "
        f"for {found.budget_usd:g} USD",
        f"price     {found.usd:.2f} USD, 95% of bills between {price[0]:.2f} and {price[1]:.2f}",
        f"chance    {found.power:.0%} [{chance[0]:.0%}, {chance[1]:.0%}] that compare finds a drop of "
        f"{100 * found.drop:g} points of this selection",
    ]
    if arms == 1:
        lines.append("          against a base with as many trials of the same night: its price is not in the plan")
    if found.power < 0.8:
        enough = f"80% takes a budget of about {found.enough_usd or 0:.2f} USD"
        lack = "no plan of these cases has 80%; more cases are needed"
        lines.append(f"          {lack if found.enough_usd is None else enough}")
    if found.unknown_cases:
        lines.append(
            f"          history does not tell of {found.unknown_cases} of these cases: like the others is assumed"
        )
    lines += [f"stratum   {name}: {taken} of {all_of}" for name, (taken, all_of) in found.strata.items()]
    lines.append("estimate  of this selection, not of the suite: cases were chosen by what they tell for their price")
    return "\n".join(lines)
