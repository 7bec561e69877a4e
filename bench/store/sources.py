"""What a record is recomputed from besides itself: the case and the agent at their planned digests, and prices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.base.errors import UserError
from bench.base.install import DataFolders, find_data_folders
from bench.formats.agent import Agent, with_settings
from bench.formats.agent_lookup import find_agent
from bench.formats.case import Case, load_cases
from bench.formats.model_usage import ModelUsage
from bench.formats.plan import PlannedCell, RunPlan, is_ranked
from bench.formats.record import Profile, Record
from bench.formats.seeds import REPLAY_PREFIX
from bench.formats.verdict import DeclaredCheck, declared_checks
from bench.gateway import Prices, prices_of_role


@dataclass(frozen=True)
class Basis:
    """Everything that one planned cell's record must agree with."""

    plan: RunPlan
    planned: PlannedCell
    case: Case
    checks: tuple[DeclaredCheck, ...] | None
    """None: check.py does not tell them without being run, so that only their form can be checked."""
    ranked: bool | None
    """None: neither the plan nor an agent's folder at the planned digest says it."""
    prices: Callable[[ModelUsage], Prices | None]
    """Of a role's model; raises `UserError` where they cannot be known here."""


Rule = Callable[[Record, Basis], Iterator[str]]
"""Yields contradictions, each with a field, what it says and what it must be."""


class Sources:
    """The folders of cases and agents, each read once."""

    def __init__(self, folders: DataFolders, own_prices: Path | None = None) -> None:
        self._folders = folders
        self._own_prices = own_prices
        self._case = cache(self._load_case)
        self._agent = cache(self._load_agent)
        self._prices = cache(self._find_prices)

    @classmethod
    def installed(cls, cases: Path | None = None, agents: Path | None = None) -> Sources:
        """Those in the folders given, else those that ship with the benchmark; prices as `run` finds them."""
        own = os.environ.get("MLDB_PRICES")
        return cls(find_data_folders(cases, agents), Path(own) if own else None)

    def basis(self, plan: RunPlan, planned: PlannedCell) -> Basis:
        """What the record of `planned` must agree with; raises `UserError` where the case is not here as planned."""
        case, checks = self._case(planned.case, planned.case_digest, plan.profile)
        settings = tuple(sorted(planned.settings.items()))
        agent = self._agent(planned.agent, planned.agent_digest, settings)
        ranked = planned.ranked
        if ranked is None and agent is not None:
            ranked = is_ranked(agent, planned.models, helped=plan.help is not None)
        cassettes = agent.folder / "cassettes" if agent is not None else None

        def prices(role: ModelUsage) -> Prices | None:
            if role.model.startswith(REPLAY_PREFIX):
                return self._prices(role.model, role.role, planned.case, cassettes)
            # The table is large: it is read once a model, not once a case.
            return self._prices(role.model, "", "", None)

        return Basis(plan, planned, case, checks, ranked, prices)

    def _load_case(self, name: str, digest: str, profile: Profile) -> tuple[Case, tuple[DeclaredCheck, ...] | None]:
        try:
            case = load_cases(self._folders.cases, [name])[0]
        except UserError as error:
            remedy = "give --cases the folder that holds it as it was planned"
            raise UserError(f"case {name!r} is not here: {error}", remedy=remedy) from None
        if case.digest != digest:
            raise UserError(
                f"case {name!r} has the digest {case.digest[7:19]} here, and {digest[7:19]} in the plan",
                remedy="check out the version that was planned, or give --cases the folder that holds it",
            )
        case = case.for_profile(profile)
        try:
            return case, tuple(declared_checks(case))
        except UserError:
            return case, None

    def _load_agent(self, name: str, digest: str, settings: tuple[tuple[str, str], ...]) -> Agent | None:
        try:
            agent = with_settings(find_agent(name, self._folders.agents), dict(settings))
            return agent if agent.digest == digest else None
        except (UserError, OSError):
            return None

    def _find_prices(self, model: str, role: str, case: str, cassettes: Path | None) -> Prices | None:
        return prices_of_role(model, role, case, cassettes, self._own_prices)


def must_be(field: str, found: object, wanted: object, why: str = "") -> str:
    """One contradiction as a line."""
    return f"field `{field}` is {_shown(found)}, and must be {_shown(wanted)}{f': {why}' if why else ''}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
