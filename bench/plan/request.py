"""From what the user asked for to the cells of a run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.agent import MODEL_PATTERN, Agent, find_agent, with_settings
from bench.case import Case, load_cases
from bench.cell import Cell
from bench.errors import UserError
from bench.places import Places
from bench.record import Profile
from bench.rundir import RunPlan
from bench.suite import Suite, load_suite


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


def make_plan(request: Request, places: Places) -> Plan:
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


def cells_of(plan: RunPlan, places: Places) -> list[Cell]:
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


def commit_of(folder: Path) -> tuple[str, bool]:
    """The git commit that `folder` is at, and whether there are changes beyond it; ("", False) outside git."""
    base = ["git", "-C", str(folder)]
    try:
        head = subprocess.run([*base, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False)
        if head.returncode != 0:
            return "", False
        status = subprocess.run(
            [*base, "status", "--porcelain", "--", "."], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", False
    return head.stdout.strip(), bool(status.stdout.strip())
