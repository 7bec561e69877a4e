"""Looks at an experiment that runs in shards: between its rounds, by one job, into a ledger on the results branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.base.errors import UserError
from bench.base.model import parse_json
from bench.formats.plan import PlanFile, RunPlan
from bench.formats.provenance import Sequential
from bench.formats.record import Record
from bench.stats import Look, look_at, round_fault
from bench.store import ResultsBranch

_REMEDY = "start a new run: looking again would raise the chance of a false alarm"


@dataclass(frozen=True)
class RoundState:
    """How far a run of a plan is, after the looks that could be made."""

    run: str
    design: Sequential
    looks: Sequence[Look]
    waits_for: str
    """Why the next round cannot be looked at yet; empty where none is to follow."""

    @property
    def due(self) -> int | None:
        """The round that is to run; None: a look has decided, or was the last."""
        return len(self.looks) + 1 if self.waits_for else None


def look_at_rounds(plan: PlanFile, records: Sequence[Record], branch: ResultsBranch) -> list[RoundState]:
    """Look at every complete round of the plan's runs, once, and write each look down before anything follows from it.

    records: those of the branch. Raises `UserError` for a plan whose runs do not end early, and where a round was
    looked at and its records have changed since.
    """
    if any(run.sequential is None for run in plan.runs):
        remedy = "make the plan with `base` and `until_decided`"
        raise UserError("holds a run without rounds to look after", where=f"plan {plan.name}", remedy=remedy)
    return [_state(run, records, branch) for run in plan.runs]


def cells_due(states: Sequence[RoundState]) -> Mapping[str, int]:
    """Run to the round of it that is to run now."""
    return {state.run: state.due for state in states if state.due is not None}


def _state(run: RunPlan, records: Sequence[Record], branch: ResultsBranch) -> RoundState:
    design = run.sequential
    assert design is not None
    planned = {cell.cell for cell in run.cells}
    own = [it for it in records if it.provenance.run == run.run and it.cell in planned]
    made = [
        parse_json(line, Look, where=f"looks/{run.run}/{number:02d}.json", remedy=_REMEDY)
        for number, line in enumerate(branch.looks(run.run), start=1)
    ]
    for number in range(1, design.rounds + 1):
        fault = round_fault(design, own, number)
        look = None if fault else look_at(design, own, number)
        if number <= len(made):
            if look != made[number - 1]:
                changed = f"round {number} was looked at, and its records or rules have changed since"
                raise UserError(changed, where=f"run {run.run}", remedy=_REMEDY)
        elif look is None:
            return RoundState(run.run, design, made, fault)
        else:
            branch.add_look(run.run, number, look.model_dump_json(by_alias=True).encode() + b"\n")
            made.append(look)
        if made[number - 1].decision != "go on":
            break
    return RoundState(run.run, design, made, "")
