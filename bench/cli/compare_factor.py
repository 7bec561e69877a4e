"""What `compare --factor` asks besides: whether the arms differ in one variable alone, and what it does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.base.errors import UserError

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.agent import Agent
    from bench.formats.record import AgentRef, Record
    from bench.stats import Chosen, FactorEffects


@dataclass(frozen=True)
class Factor:
    """A variable of the agent's environment, with its value in base and in head; empty: not set."""

    variable: str
    values: tuple[str, str]


@dataclass(frozen=True)
class Ask:
    """What else is asked, and where it is looked up."""

    noise: tuple[str, ...]
    factor: str | None
    difficulty: tuple[str, ...]
    variants: tuple[Path, ...]
    folders: DataFolders

    def parsed(self) -> Factor | None:
        """The factor; raises `UserError`."""
        if self.factor is None:
            if self.difficulty or self.variants:
                raise UserError("belong to --factor", where="--difficulty and --variant", remedy="name the factor")
            return None
        found = re.fullmatch(r"([A-Z][A-Z0-9_]*)=([^,]*),([^,]*)", self.factor)
        if found is None or found[2] == found[3]:
            raise UserError(f"{self.factor!r} is not a factor", where="--factor", remedy="write NAME=BASE,HEAD")
        return Factor(found[1], (found[2], found[3]))

    def faults(self, factor: Factor, base: Chosen, head: Chosen) -> list[str]:
        """What of two sets differs besides the factor, or why that cannot be told."""
        from bench.formats.agent import differences, load_agent
        from bench.stats import factor_faults

        faults = factor_faults(base.records, head.records)
        agents = [load_agent(path) for path in self.variants] + _shipped(self.folders.agents)
        arms = []
        for name, side, value in zip(("base", "head"), (base, head), factor.values, strict=True):
            record = side.records[0]
            arm = _variant(agents, factor.variable, value, record.agent)
            if arm is None:
                text = f"{record.agent.id} {record.agent.digest[7:19]} with {factor.variable}={value or '(not set)'}"
                faults.append(f"factor: {name}: no agent.yaml here is {text}; name it with --variant")
            else:
                arms.append(arm)
        if len(arms) == 2:
            unlike = differences(*arms, without=factor.variable)
            faults += [f"factor: {what} of the agents differs, too" for what in unlike]
        return faults

    def effects(self, base: Chosen, head: Chosen, hard: Sequence[Record], alpha: float) -> FactorEffects | None:
        """What the factor does."""
        from bench.formats.case import case_folders, load_case
        from bench.stats import factor_effects, pair

        known = case_folders(self.folders.cases)
        cases = {record.case.id for record in base.records}
        kinds = {case: load_case(known[case]).spec.kind for case in sorted(cases & known.keys())}
        return factor_effects(pair(base.records, head.records, ["coverage"]), hard, kinds, alpha)


def _shipped(root: Path) -> list[Agent]:
    """Every description below `root`: a folder may hold several, and other YAML files."""
    from bench.formats.agent import load_agent

    found = []
    for path in sorted(root.glob("[!_]*/*.y*ml")):
        with suppress(UserError):
            found.append(load_agent(path, trusted=True))
    return found


def _variant(agents: Sequence[Agent], variable: str, value: str, wanted: AgentRef) -> Agent | None:
    """The agent that a record names, if one of `agents` is it with this value: as it is described, or set in a plan."""
    from bench.formats.agent import with_settings

    for agent in agents:
        for it in (agent, with_settings(agent, {variable: value} if value else {})):
            own = it.spec.environment.variables.get(variable, "")
            if (it.id, own) == (wanted.id, value) and it.digest == wanted.digest:
                return it
    return None
