"""Cells of the agents that come as real packages."""

from __future__ import annotations

from dataclasses import replace

from bench.base.errors import UserError
from bench.cell.interpreter import find_interpreter
from bench.formats.agent import Agent
from bench.formats.agent_lookup import find_agent
from bench.formats.case import Case, load_cases
from tests.helpers.cells import ROOT, not_here

STEPS_OF_AIDE = 3


def agent_called(name: str) -> Agent:
    """The agent that ships; AIDE with fewer steps, which it takes all whatever it finds."""
    agent = find_agent(name, ROOT / "agents")
    try:
        find_interpreter(agent.spec.environment.python, agent.file)
    except UserError as error:
        not_here(str(error))
    if name != "aideml":
        return agent
    variables = {**agent.spec.environment.variables, "AIDE_STEPS": str(STEPS_OF_AIDE)}
    changed = agent.spec.environment.model_copy(update={"variables": variables})
    return replace(agent, spec=agent.spec.model_copy(update={"environment": changed}))


def case_called(name: str, **limits: float) -> Case:
    case = load_cases(ROOT / "cases", [name])[0]
    spec = case.spec
    return replace(case, spec=spec.model_copy(update={"limits": spec.limits.model_copy(update=limits)}))
