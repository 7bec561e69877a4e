"""From what the user asked for to the cells of a run."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.formats.agent import MODEL_PATTERN, Agent, with_settings
from bench.formats.agent_lookup import find_agent
from bench.formats.case import Case, load_cases
from bench.formats.judge_version import JUDGE
from bench.formats.plan import ANY_SANDBOX, Cell, RunPlan, make_run_plan
from bench.formats.record import Profile
from bench.formats.seeds import is_replayed
from bench.formats.suite import Suite, load_suite
from bench.plan.experiment import Budget, Experiment, Mode, find_experiment, load_experiment

if TYPE_CHECKING:
    # It brings numpy, which takes a sixth of the time of a start, and a run estimates nothing.
    from bench.plan.estimate import History

_LONGEST_NAME = 64
_IN_CORE = {"numpy", "scipy", "yaml"}
"""Modules that are there without any extra."""


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
    experiment: str = ""
    """An experiment file of one run, by path or name: says suite, agents and models."""


@dataclass(frozen=True)
class RunCells:
    """The cells of one run, in the order in which they start: one suite in one profile."""

    run: str
    suite: Suite
    profile: Profile
    cells: list[Cell]
    earlier: RunPlan | None = None
    """The plan whose missing cells these are: they are of its experiment, and meet its data."""

    def plan(self, sandbox: str) -> RunPlan:
        """What run.json says of them; sandbox: the name of the one they shall run in."""
        earlier = self.earlier
        if earlier is not None and sandbox == ANY_SANDBOX:
            sandbox = earlier.sandbox
        made = make_run_plan(self.run, self.suite.id, self.suite.version, self.profile, sandbox, self.cells)
        if earlier is None:
            return made
        # By the clock: whoever else plans what is missing of this run, at any time, shares no name with these records.
        attempts = max(int(datetime.fromisoformat(made.created).timestamp()), earlier.earlier_attempts + 1)
        facts = {**earlier.seed_facts, "earlier_attempts": attempts, "sequential": earlier.sequential}
        return made.model_copy(update=facts)


def make_plan(request: Request, run: str, folders: DataFolders) -> RunCells:
    """Cells of the run named `run` for a request; raises `UserError` naming what does not exist or does not fit."""
    if request.experiment:
        return _made_of_experiment(request, run, folders)
    suite = load_suite(folders.cases, request.suite)
    profile = request.profile or suite.profile
    agents = [find_agent(name, folders.agents) for name in request.agents]
    asked = load_cases(folders.cases, list(request.cases))
    pairs = _pairs(suite, agents, asked, folders)
    for agent, case in pairs:
        if "person" in agent.spec.capabilities:
            raise UserError(
                f"agent {agent.id!r} is a person", where="run", remedy=f"`ml-dev-bench human start {case.id}`"
            )
        if profile not in case.spec.profiles:
            raise UserError(
                f"does not have the profile {profile!r}",
                where=case.folder / "case.yaml",
                remedy=f"use --profile {case.profiles[0]} or leave the case out",
            )
    cells = _cells(pairs, profile, [request.models], request.trials or suite.trials)
    if not cells:
        raise UserError("nothing to run", where="run", remedy="name with --case a case that an agent of the suite runs")
    return RunCells(run, suite, profile, cells)


def _made_of_experiment(request: Request, run: str, folders: DataFolders) -> RunCells:
    """The one run of an experiment file, with the cases, trials and profile that the request names."""
    path = find_experiment(request.experiment, folders.cases)
    experiment = load_experiment(path, [])
    if request.agents or request.models:
        remedy = "drop --agent and --model, or --experiment"
        raise UserError("says which agents and models run", where=path, remedy=remedy)
    if experiment.base or experiment.mode != "full" or experiment.budget != Budget():
        remedy = "make shards of it: `ml-dev-bench plan`"
        raise UserError(
            "has two arms, a mode or a budget, which --experiment does not carry out", where=path, remedy=remedy
        )
    asked = {"cases": list(request.cases), "trials": request.trials, "profiles": [request.profile]}
    changed = experiment.model_copy(
        update={name: value for name, value in asked.items() if value not in ([], None, [None])}
    )
    parts = expand_experiment(changed, folders)
    if len(parts) > 1:
        remedy = "name one suite and one profile, or make shards of it: `ml-dev-bench plan`"
        raise UserError(f"means {len(parts)} runs", where=path, remedy=remedy)
    return replace(parts[0], run=run)


def expand_experiment(experiment: Experiment, folders: DataFolders) -> list[RunCells]:
    """The grid's cells, in an order that depends on nothing but the experiment; raises `UserError`.

    Cases that a suite does not list, or that do not have the profile, are left out.
    """
    named = [find_agent(name, folders.agents) for name in experiment.agents]
    agents = [variant for agent in named for variant in _variants(agent, experiment)]
    wanted = {case.id for case in load_cases(folders.cases, experiment.cases)}
    models = [[model] for model in experiment.models] or [[]]
    parts = []
    for name in experiment.suites:
        suite = load_suite(folders.cases, name)
        asked = [case for case in load_cases(folders.cases, suite.cases) if not wanted or case.id in wanted]
        pairs = _pairs(suite, agents, asked, folders) if asked else []
        for profile in experiment.profiles or [suite.profile]:
            fitting = [(agent, case) for agent, case in pairs if profile in case.spec.profiles]
            cells = _cells(fitting, profile, models, experiment.trials or suite.trials)
            if cells:
                parts.append(RunCells(_run_name(experiment, suite, profile), suite, profile, cells))
    if not parts:
        raise UserError(
            "nothing to run", where="plan", remedy="name suites, profiles and cases that have a case in common"
        )
    return parts


def _pairs(
    suite: Suite, agents: Sequence[Agent], asked: Sequence[Case], folders: DataFolders
) -> list[tuple[Agent, Case]]:
    """Each of `agents` on the cases asked for; without agents who the suite itself says runs on which of them.

    asked: empty for all cases of the suite.
    """
    if agents:
        cases = asked or load_cases(folders.cases, suite.cases)
        return [(agent, case) for agent in agents for case in cases]
    if not suite.entries:
        raise UserError(
            f"suite {suite.id!r} does not name agents", where="agents", remedy="name one: `run --agent`, `plan agents=`"
        )
    wanted = {case.id for case in asked}
    pairs = []
    for entry in suite.entries:
        agent = find_agent(entry.agent, folders.agents)
        cases = load_cases(folders.cases, entry.cases or suite.cases)
        pairs += [(agent, case) for case in cases if not wanted or case.id in wanted]
    return pairs


def _cells(
    pairs: Sequence[tuple[Agent, Case]], profile: Profile, models: Sequence[Sequence[str]], trials: int
) -> list[Cell]:
    """The grid. Trials are its outermost axis: a run that is cut short has met as many cases as it could."""
    cells = [
        Cell(agent, models_of(agent, asked), case, profile, trial)
        for trial in range(1, trials + 1)
        for agent, case in pairs
        for asked in (models if agent.spec.models else models[:1])
    ]
    seen: set[str] = set()
    for cell in cells:
        if cell.id in seen:
            raise UserError(f"cell {cell.id} is asked for twice", where="run", remedy="name each agent and case once")
        seen.add(cell.id)
    return cells


def models_of(agent: Agent, asked: Sequence[str]) -> dict[str, str]:
    """The agent's model per role, with those asked for in their folders: `model` for the main one, or `role=model`."""
    models = dict(agent.spec.models)
    for text in asked:
        role, _, model = text.rpartition("=")
        if not re.fullmatch(MODEL_PATTERN, model):
            raise UserError(
                f"{text!r} is not a model", where="--model", remedy="write provider/name or role=provider/name"
            )
        if models and (role or "main") not in models:
            raise UserError(
                f"agent {agent.id!r} does not have a role {role or 'main'!r}",
                where="--model",
                remedy=f"its roles: {', '.join(models)}",
            )
        if models:
            models[role or "main"] = model
    return models


def extras_for(cells: Iterable[Cell]) -> list[str]:
    """The extras of ml-dev-bench that a machine needs to run them: models take the gateway's, cases the libraries'."""
    wanted = set()
    for cell in cells:
        if cell.models and not is_replayed(cell.models):
            wanted.add("gateway")
        if set(cell.case.spec.needs.python) - _IN_CORE:
            wanted.add("ml")
    return sorted(wanted)


def cells_of(plan: RunPlan, folders: DataFolders) -> list[Cell]:
    """The cells of a stored plan; raises `UserError` when an agent, a case or the judge has changed since."""
    if plan.judge != JUDGE:
        raise UserError(
            f"the run was planned for version {plan.judge or 'none'} of the judge, and this is version {JUDGE}",
            where="--resume",
            remedy="go on with the ml-dev-bench that began it, or start a new run",
        )
    cells = []
    for planned in plan.cells:
        agent = with_settings(find_agent(planned.agent, folders.agents), planned.settings)
        case = load_cases(folders.cases, [planned.case])[0]
        for what, was, found in (("agent", planned.agent_digest, agent), ("case", planned.case_digest, case)):
            if was != found.digest:
                raise UserError(
                    f"{what} {found.id!r} has changed since the run began",
                    where="--resume",
                    remedy="put its files back, or start a new run; records of two versions are never mixed",
                )
        cells.append(Cell(agent, planned.models, case, plan.profile, planned.trial, planned.arm, plan.help is not None))
    return cells


def _variants(agent: Agent, experiment: Experiment) -> Iterator[Agent]:
    """The agent under every combination of settings."""
    names = sorted(experiment.settings)
    for values in itertools.product(*(experiment.settings[name] for name in names)):
        yield with_settings(agent, dict(zip(names, values, strict=True)))


def _run_name(experiment: Experiment, suite: Suite, profile: Profile) -> str:
    several = len(experiment.suites) > 1 or len(experiment.profiles) > 1
    return bounded_name(f"{experiment.name}-{suite.id}-{profile}") if several else experiment.name


def bounded_name(text: str) -> str:
    """A name of a run; a longer one keeps apart from others of the same beginning by a piece of its digest."""
    if len(text) <= _LONGEST_NAME:
        return text
    return f"{text[: _LONGEST_NAME - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


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
