"""What cells will take and cost: measured where there are records, else bounded by the case's limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from bench.formats.judge_version import JUDGE
from bench.formats.plan import Cell, Source
from bench.formats.record import Record, case_version

NEWEST = 20
"""Records of one agent and case that count: what is older says little about today."""
# Where nothing is known: a guess between a cell that fails at once and one that uses all of its time.
_SHARE_OF_LIMIT = 0.5


@dataclass(frozen=True)
class Estimate:
    """One cell's expected wall time (seconds) and model cost (USD; None: the price is not known)."""

    seconds: float
    usd: float | None
    source: Source


@dataclass(frozen=True)
class History:
    """What graded cells took and cost, over the newest `NEWEST` of each group. Models are written by `model_key`."""

    exact: Mapping[tuple[str, str, str, str], tuple[float, float | None]] = field(default_factory=dict)
    """(agent id, models, case id, profile) to median seconds and mean cost in USD (None: no cost is known)."""
    cases: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(case id, profile) to median seconds, of all agents."""
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(agent id, models) to the mean share of the time limits that was used."""
    graded: Collection[tuple[str, str, str, str, int]] = frozenset()
    """(agent digest, models, version of the case, profile, trial) of every verdict."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> History:
        """The history of these records; those without a verdict teach nothing."""
        exact: dict[tuple[str, str, str, str], list[tuple[float, float | None]]] = defaultdict(list)
        cases: dict[tuple[str, str], list[float]] = defaultdict(list)
        shares: dict[tuple[str, str], list[float]] = defaultdict(list)
        graded = set()
        for record in sorted((it for it in records if it.outcome == "graded"), key=lambda it: (it.started, it.cell)):
            seconds = sum(phase.seconds for phase in record.phases)
            models = model_key(record.models)
            exact[record.agent.id, models, record.case.id, record.profile].append((seconds, record.cost_usd))
            cases[record.case.id, record.profile].append(seconds)
            shares[record.agent.id, models].append(seconds / (record.limits.agent_s + record.limits.grade_s))
            graded.add((record.agent.digest, models, record.case_version, record.profile, record.trial))
        return cls(
            {key: _typical(found[-NEWEST:]) for key, found in exact.items()},
            {key: median(found[-NEWEST:]) for key, found in cases.items()},
            {key: fmean(found[-NEWEST:]) for key, found in shares.items()},
            graded,
        )

    def knows(self, cell: Cell) -> bool:
        """Whether this very cell, in these versions of agent, case and judge, has a verdict."""
        version = case_version(cell.case.digest, JUDGE)
        key = (cell.agent.digest, model_key(cell.models), version, cell.profile, cell.trial)
        return key in self.graded

    def estimate(self, cell: Cell) -> Estimate:
        """From the nearest that is known."""
        models = model_key(cell.models)
        exact = self.exact.get((cell.agent.id, models, cell.case.id, cell.profile))
        if exact is not None:
            return Estimate(*exact, "measured")
        limits = cell.case.spec.limits
        whole = limits.agent_s + limits.grade_s
        # The most a cell may cost, since nothing is known of what it will.
        cost = limits.cost_usd if models else 0.0
        share = self.shares.get((cell.agent.id, models))
        if share is not None:
            return Estimate(share * whole, cost, "agent")
        seconds = self.cases.get((cell.case.id, cell.profile))
        if seconds is not None:
            return Estimate(seconds, cost, "case")
        return Estimate(_SHARE_OF_LIMIT * whole, cost, "limit")


def _typical(took: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    """The median time, which one hung cell does not move, and the mean cost, which adds up to the bill."""
    costs = [cost for _, cost in took if cost is not None]
    return median(seconds for seconds, _ in took), fmean(costs) if costs else None


def model_key(models: Mapping[str, str]) -> str:
    """The models of a cell as one text, empty without any."""
    return " ".join(f"{role}={name}" for role, name in sorted(models.items()))
