"""From an experiment to its cells: one part per suite and profile, each with a run of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from bench.agent import Agent, find_agent, with_settings
from bench.case import Case, load_cases
from bench.cell import Cell
from bench.errors import UserError
from bench.places import Places
from bench.plan.experiment import Experiment
from bench.plan.request import models_of, require_distinct
from bench.record import Profile
from bench.suite import Suite, load_suite


@dataclass(frozen=True)
class Part:
    """The cells of one suite in one profile: records of one run."""

    run: str
    suite: Suite
    profile: Profile
    cells: list[Cell]


def expand(experiment: Experiment, places: Places) -> list[Part]:
    """The grid's cells, in an order that depends on nothing but the experiment; raises `UserError`."""
    named = [find_agent(name, places.agents) for name in experiment.agents]
    agents = [variant for agent in named for variant in _variants(agent, experiment)]
    parts = []
    for name in experiment.suites:
        suite = load_suite(places.cases, name)
        for profile in experiment.profiles or [suite.profile]:
            cells = _cells(experiment, suite, profile, agents, places)
            if cells:
                parts.append(Part(_run_name(experiment, suite, profile), suite, profile, cells))
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


def _cells(experiment: Experiment, suite: Suite, profile: Profile, agents: list[Agent], places: Places) -> list[Cell]:
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


def _own_pairs(suite: Suite, places: Places, wanted: set[str]) -> list[tuple[Agent, Case]]:
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
