"""From what the user asked for to the cells of a run."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.formats.agent import MODEL_PATTERN, Agent, find_agent, with_settings
from bench.formats.case import Case, load_cases
from bench.formats.plan import Cell, RunPlan, read_plan_file
from bench.formats.record import Profile, Record
from bench.formats.run_folder import RunFolder
from bench.formats.suite import Suite, load_suite
from bench.plan.estimate import History
from bench.plan.experiment import Experiment, Mode


@dataclass(frozen=True)
class Request:
    """What the command line asked for; empty means the suite's own."""

    suite: str
    agents: Sequence[str] = ()
    cases: Sequence[str] = ()
    models: Sequence[str] = ()
    """`model` for the main role, or `role=model`."""
    trials: int | None = None
    profile: Profile | None = None


@dataclass(frozen=True)
class Plan:
    """The cells of a run, in the order in which they start."""

    suite: Suite
    profile: Profile
    cells: list[Cell]


def make_plan(request: Request, places: DataFolders) -> Plan:
    """Cells for a request; raises `UserError` naming what does not exist or does not fit."""
    suite = load_suite(places.cases, request.suite)
    profile = request.profile or suite.profile
    pairs: list[tuple[Agent, Case]] = []
    if request.agents or not suite.entries:
        if not request.agents:
            raise UserError(f"suite {suite.id!r} names no agents", where="run", remedy="add --agent")
        cases = load_cases(places.cases, list(request.cases) or suite.cases)
        pairs = [(find_agent(name, places.agents), case) for name in request.agents for case in cases]
    else:
        wanted = {case.id for case in load_cases(places.cases, list(request.cases))}
        for entry in suite.entries:
            agent = find_agent(entry.agent, places.agents)
            chosen = [name for name in entry.cases or suite.cases if not request.cases or name in wanted]
            pairs += [(agent, case) for case in load_cases(places.cases, chosen)]
    for agent, case in pairs:
        if "person" in agent.spec.capabilities:
            raise UserError(
                f"agent {agent.id!r} is a person", where="run", remedy=f"`ml-dev-bench human start {case.id}`"
            )
        if profile not in case.spec.profiles:
            raise UserError(
                f"has no profile {profile!r}",
                where=case.folder / "case.yaml",
                remedy=f"use --profile {case.spec.profiles[0]} or leave the case out",
            )
    trials = request.trials or suite.trials
    cells = [
        Cell(agent, models_of(agent, request.models), case, profile, trial)
        for trial in range(1, trials + 1)
        for agent, case in pairs
    ]
    require_distinct(cells)
    return Plan(suite, profile, cells)


def models_of(agent: Agent, asked: Sequence[str]) -> dict[str, str]:
    """The agent's model per role, with those asked for in their places: `model` for the main one, or `role=model`."""
    models = dict(agent.spec.models)
    for text in asked:
        role, _, model = text.rpartition("=")
        if not re.fullmatch(MODEL_PATTERN, model):
            raise UserError(
                f"{text!r} names no model", where="--model", remedy="write provider/name or role=provider/name"
            )
        if models and (role or "main") not in models:
            raise UserError(
                f"agent {agent.id!r} has no role {role or 'main'!r}",
                where="--model",
                remedy=f"its roles: {', '.join(models)}",
            )
        if models:
            models[role or "main"] = model
    return models


def require_distinct(cells: Sequence[Cell], *, empty_is_fine: bool = False) -> None:
    """Raise `UserError` when a cell is asked for twice, or none at all."""
    seen: set[str] = set()
    for cell in cells:
        if cell.id in seen:
            raise UserError(f"cell {cell.id} is asked for twice", where="run", remedy="name each agent and case once")
        seen.add(cell.id)
    if not cells and not empty_is_fine:
        raise UserError("nothing to run", where="run", remedy="no case of the suite is among those named with --case")


def cells_of(plan: RunPlan, places: DataFolders) -> list[Cell]:
    """The cells of a stored plan; raises `UserError` when an agent or a case has changed since."""
    cells = []
    for planned in plan.cells:
        agent = with_settings(find_agent(planned.agent, places.agents), planned.settings)
        case = load_cases(places.cases, [planned.case])[0]
        for name, was, digest in (
            ("agent", planned.agent_digest, agent.digest),
            ("case", planned.case_digest, case.digest),
        ):
            if was != digest:
                changed = agent.id if name == "agent" else case.id
                raise UserError(
                    f"{name} {changed!r} has changed since the run began",
                    where="--resume",
                    remedy="put its files back, or start a new run; records of two versions are never mixed",
                )
        cells.append(Cell(agent, planned.models, case, plan.profile, planned.trial))
    return cells


@dataclass(frozen=True)
class RunCells:
    """The cells of one suite in one profile: records of one run."""

    run: str
    suite: Suite
    profile: Profile
    cells: list[Cell]


def expand_experiment(experiment: Experiment, places: DataFolders) -> list[RunCells]:
    """The grid's cells, in an order that depends on nothing but the experiment; raises `UserError`."""
    named = [find_agent(name, places.agents) for name in experiment.agents]
    agents = [variant for agent in named for variant in _variants(agent, experiment)]
    parts = []
    for name in experiment.suites:
        suite = load_suite(places.cases, name)
        for profile in experiment.profiles or [suite.profile]:
            cells = _cells(experiment, suite, profile, agents, places)
            if cells:
                parts.append(RunCells(_run_name(experiment, suite, profile), suite, profile, cells))
    if not parts:
        raise UserError(
            "nothing to run", where="plan", remedy="no case is left of the suites, profiles and cases named"
        )
    return parts


def _variants(agent: Agent, experiment: Experiment) -> Iterator[Agent]:
    """The agent under every combination of settings."""
    names = sorted(experiment.settings)
    for values in itertools.product(*(experiment.settings[name] for name in names)):
        yield with_settings(agent, dict(zip(names, values, strict=True)))


def _cells(
    experiment: Experiment, suite: Suite, profile: Profile, agents: list[Agent], places: DataFolders
) -> list[Cell]:
    chosen = load_cases(places.cases, suite.cases)
    known = {case.id for case in chosen}
    wanted = {case.id for case in load_cases(places.cases, list(experiment.cases))}
    cases = [case for case in chosen if not wanted or case.id in wanted]
    pairs = [(agent, case) for agent in agents for case in cases]
    if not agents:
        pairs = _own_pairs(suite, places, wanted & known if wanted else known)
    runnable = [(agent, case) for agent, case in pairs if profile in case.spec.profiles]
    cells = [
        Cell(agent, models, case, profile, trial)
        for trial in range(1, (experiment.trials or suite.trials) + 1)
        for agent, case in runnable
        for models in _models(agent, experiment)
    ]
    require_distinct(cells, empty_is_fine=True)
    return cells


def _own_pairs(suite: Suite, places: DataFolders, wanted: set[str]) -> list[tuple[Agent, Case]]:
    """Who the suite itself says runs on what."""
    if not suite.entries:
        raise UserError(f"suite {suite.id!r} names no agents", where="plan", remedy="say agents=NAME")
    pairs = []
    for entry in suite.entries:
        agent = find_agent(entry.agent, places.agents)
        names = [name for name in entry.cases or suite.cases if name in wanted]
        pairs += [(agent, case) for case in load_cases(places.cases, names)]
    return pairs


def _models(agent: Agent, experiment: Experiment) -> list[dict[str, str]]:
    if not agent.spec.models or not experiment.models:
        return [dict(agent.spec.models)]
    return [models_of(agent, [model]) for model in experiment.models]


def _run_name(experiment: Experiment, suite: Suite, profile: Profile) -> str:
    several = len(experiment.suites) > 1 or len(experiment.profiles) > 1
    return f"{experiment.name}-{suite.id}-{profile}"[:64] if several else experiment.name


def select_cells(cells: Sequence[Cell], mode: Mode, history: History, today: date, period_days: int) -> list[Cell]:
    """The cells of `mode`, in their order.

    `changed`: without a verdict for this very version of agent and case. `rotating`: of the cases whose turn it is
    today; in `period_days` consecutive days each case has one turn.
    """
    if mode == "changed":
        return [cell for cell in cells if not history.knows(cell)]
    if mode == "rotating":
        turn = today.toordinal() % period_days
        return [cell for cell in cells if turn_of(cell.case.id, period_days) == turn]
    return list(cells)


def turn_of(case: str, period_days: int) -> int:
    """The day of the period on which a case is met; it moves for no other case that comes or goes."""
    return int.from_bytes(hashlib.sha256(case.encode()).digest()[:8], "big") % period_days


def missing_cells(earlier: Path, records: Iterable[Record], places: DataFolders) -> list[RunCells]:
    """The cells without a verdict of a run folder, or of a plan.json among `records`; raises `UserError`.

    An agent or a case that has changed since is an error: records of two versions are never mixed.
    """
    if earlier.is_dir():
        folder = RunFolder(earlier)
        return [_missing(folder.read_plan(), folder.records(), places)]
    known = list(records)
    return [_missing(plan, known, places) for plan in read_plan_file(earlier).runs]


def _missing(plan: RunPlan, records: Iterable[Record], places: DataFolders) -> RunCells:
    graded = {it.cell for it in records if it.outcome == "graded" and it.provenance.run == plan.run}
    cells = [cell for cell in cells_of(plan, places) if cell.id not in graded]
    return RunCells(plan.run, load_suite(places.cases, plan.suite), plan.profile, cells)
