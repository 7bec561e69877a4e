"""Plans that follow an earlier one: of its missing cells, and of the next round of an experiment that may end early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError

if TYPE_CHECKING:
    from bench.formats.plan import PlanFile
    from bench.formats.shards import Fleet
    from bench.plan import Experiment, RunCells


def fleet_of(earlier: Path | None, *, replaced: bool) -> Fleet | None:
    """The machines of the plan whose missing cells are wanted; raises `UserError` where it does not tell them.

    replaced: an experiment file says what the plan does not.
    """
    from bench.base.errors import UserError
    from bench.formats.plan import read_plan_file

    if earlier is None or earlier.is_dir():
        return None
    fleet = read_plan_file(earlier).fleet
    if fleet is None and not replaced:
        remedy = "name the experiment file from which it was made, beside --missing-from"
        raise UserError("does not tell its machines", where=earlier, remedy=remedy)
    return fleet


def refuse_sequential(earlier: Path, *, looked: bool) -> None:
    """Raise `UserError` for what looks after each round, where no look says which of the missing cells are wanted."""
    from bench.base.errors import UserError
    from bench.formats.plan import read_plan_file
    from bench.formats.run_folder import RunFolder

    if earlier.is_dir():
        if RunFolder(earlier).read_plan().sequential is not None:
            remedy = "go on with `run --resume`, on its machine"
            raise UserError("stops when decided, between rounds of one job", where=earlier, remedy=remedy)
    elif not looked and any(run.sequential is not None for run in read_plan_file(earlier).runs):
        remedy = "say --next-round in place of --missing-from"
        raise UserError("stops when decided, and a look says what is to run", where=earlier, remedy=remedy)


def refuse_look_of_check(check: bool) -> None:
    """Raise `UserError` where nothing but a check is wanted: a look is written down."""
    if check:
        remedy = "check the plan of the first round, or leave --check out"
        raise UserError("excludes --check, which changes nothing", where="plan --next-round", remedy=remedy)


def with_rounds(experiment: Experiment) -> Experiment:
    """The experiment with the most rounds there can be as its trials; raises `UserError`."""
    from bench.runs import rounds_of

    return experiment.model_copy(update={"trials": rounds_of(experiment.trials)})


def with_designs(document: PlanFile, parts: Sequence[RunCells]) -> PlanFile:
    """The plan with the rules by which each of its runs may end early, fixed before a cell runs; raises `UserError`."""
    from bench.runs import design_of

    designs = {part.run: design_of(part.cells) for part in parts}
    runs = [run.model_copy(update={"sequential": designs[run.run]}) for run in document.runs]
    return document.model_copy(update={"runs": runs})


def look_and_tell(
    plan: Path, missing_from: Path | None, repository: str, branch: str, *, github_output: bool
) -> Mapping[str, int]:
    """Make the looks that are due, print all of them, and return for each run that goes on the round that is to run.

    Raises `UserError`.
    """
    from bench.github import set_outputs

    if missing_from is not None or not repository:
        fault = "excludes --missing-from" if missing_from is not None else "needs the results of its rounds"
        remedy = "leave one of them out" if missing_from is not None else "name the results branch with --results"
        raise UserError(fault, where="plan --next-round", remedy=remedy)
    lines, due = make_looks(plan, repository, branch)
    for line in lines:
        click.echo(line, err=True)
    if github_output:
        set_outputs({"decided": "false" if due else "true"})
    return due


def make_looks(plan: Path, repository: str, branch: str) -> tuple[Sequence[str], Mapping[str, int]]:
    """Make the looks that are due: a line for each that was made, and run to the round of it that is to run.

    plan: of all rounds. Raises `UserError`.
    """
    from bench.formats.plan import read_plan_file
    from bench.report import look_line
    from bench.runs import cells_due, look_at_rounds
    from bench.store import ResultsBranch

    results = ResultsBranch(repository, branch)
    document = read_plan_file(plan)
    runs = {run.run for run in document.runs}
    states = look_at_rounds(document, [it for it in results.records() if it.provenance.run in runs], results)
    lines = [f"{state.run}: {look_line(look, state.design)}" for state in states for look in state.looks]
    return [*lines, *(f"{state.run}: {state.waits_for}" for state in states if state.waits_for)], cells_due(states)
