"""Two arms of one experiment: base and head on the same cases and trials, side by side and in the order ABBA.

A night, a machine or a provider that has a bad hour then has it for both, and the shared part cancels in the pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.formats.plan import Cell
from bench.plan.experiment import Experiment
from bench.plan.selection import Request, RunCells, expand_experiment, make_plan


def make_arms(request: Request, base: str, run: str, folders: DataFolders) -> RunCells:
    """The cells of a request's one agent, the head, and of the agent `base`; raises `UserError`."""
    if len(request.agents) != 1:
        raise UserError(
            f"has {len(request.agents)} agents beside it, and one is compared with it",
            where="--base",
            remedy="name the head with one --agent",
        )
    head = make_plan(request, run, folders)
    return _interleaved(make_plan(replace(request, agents=[base]), run, folders), head)


def expand_arms(experiment: Experiment, folders: DataFolders) -> list[RunCells]:
    """The grid of an experiment, with both arms in each run where it has a base; raises `UserError`."""
    heads = expand_experiment(experiment, folders)
    if not experiment.base:
        return heads
    bases = expand_experiment(experiment.model_copy(update={"base": "", "agents": [experiment.base]}), folders)
    return [_interleaved(base, head) for base, head in zip(bases, heads, strict=True)]


def _interleaved(base: RunCells, head: RunCells) -> RunCells:
    first, second = _keyed(base.cells), _keyed(head.cells)
    if first.keys() != second.keys():
        raise UserError(
            f"base runs with {_models(base.cells)}, head with {_models(head.cells)}: they cannot be compared",
            where="base",
            remedy="give both the same model (`run --model`, `plan models=`)",
        )
    places: Counter[int] = Counter()
    cells: list[Cell] = []
    for key, cell in second.items():
        pair = [replace(first[key], arm="base"), replace(cell, arm="head")]
        # Alternating within a round, and each case the other way round in the next one.
        cells += pair[::-1] if (places[cell.trial] + cell.trial) % 2 == 0 else pair
        places[cell.trial] += 1
    return replace(head, cells=cells)


def _keyed(cells: Sequence[Cell]) -> dict[tuple[object, ...], Cell]:
    return {(it.trial, it.case.id, it.profile, *sorted(it.models.items())): it for it in cells}


def _models(cells: Sequence[Cell]) -> str:
    return ", ".join(sorted({"+".join(it.models.values()) or "no model" for it in cells}))
