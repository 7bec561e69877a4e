"""What cells will take and cost: measured where there are records, else bounded by the case's limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from bench.formats.plan import Cell, Source
from bench.formats.record import Record

NEWEST = 20
"""Records of one agent and case that count: what is older says little about today."""
_SHARE_OF_LIMIT = 0.5


@dataclass(frozen=True)
class Estimate:
    """One cell's expected wall time (seconds) and model cost (USD; None: the price is not known)."""

    seconds: float
    usd: float | None
    source: Source


@dataclass
class _Known:
    seconds: list[float] = field(default_factory=list)
    usd: list[float | None] = field(default_factory=list)

    def add(self, record: Record, seconds: float) -> None:
        self.seconds.append(seconds)
        self.usd.append(record.cost_usd)

    def estimate(self, source: Source) -> Estimate:
        """The median time, which one hung cell does not move, and the mean cost, which adds up to the bill."""
        known = [value for value in self.usd[-NEWEST:] if value is not None]
        cost = fmean(known) if known else None
        return Estimate(median(self.seconds[-NEWEST:]), cost, source)


class History:
    """Times and costs of earlier cells, by what they were."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._exact: dict[tuple[str, str, str, str], _Known] = defaultdict(_Known)
        self._case: dict[tuple[str, str], _Known] = defaultdict(_Known)
        self._share: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.graded: set[tuple[str, str, str, str, int]] = set()
        """(agent digest, models, case digest, profile, trial) of every verdict."""
        for record in sorted((it for it in records if it.outcome == "graded"), key=lambda it: (it.started, it.cell)):
            self._learn(record)

    @classmethod
    def of(cls, measured: Measured) -> History:
        """What the index has worked out: a group's median and mean stand for its records."""
        history = cls()
        for exact, (seconds, usd) in measured.exact.items():
            history._exact[exact] = _Known([seconds], [usd])
        for case, seconds in measured.cases.items():
            history._case[case] = _Known([seconds], [None])
        for who, share in measured.shares.items():
            history._share[who] = [share]
        history.graded = measured.graded
        return history

    def _learn(self, record: Record) -> None:
        seconds = sum(phase.seconds for phase in record.phases)
        models = model_key(record.models)
        self._exact[record.agent.id, models, record.case.id, record.profile].add(record, seconds)
        self._case[record.case.id, record.profile].add(record, seconds)
        self._share[record.agent.id, models].append(seconds / (record.limits.agent_s + record.limits.grade_s))
        self.graded.add((record.agent.digest, models, record.case.digest, record.profile, record.trial))

    def knows(self, cell: Cell) -> bool:
        """Whether this very cell, in these versions of agent and case, has a verdict."""
        key = (cell.agent.digest, model_key(cell.models), cell.case.digest, cell.profile, cell.trial)
        return key in self.graded

    def estimate(self, cell: Cell) -> Estimate:
        """From the nearest that is known."""
        models = model_key(cell.models)
        exact = self._exact.get((cell.agent.id, models, cell.case.id, cell.profile))
        if exact is not None:
            return exact.estimate("measured")
        limits = cell.case.spec.limits
        whole = limits.agent_s + limits.grade_s
        # The most a cell may cost, since nothing is known of what it will.
        cost = limits.cost_usd if models else 0.0
        shares = self._share.get((cell.agent.id, models))
        if shares:
            return Estimate(fmean(shares[-NEWEST:]) * whole, cost, "agent")
        case = self._case.get((cell.case.id, cell.profile))
        if case is not None:
            return Estimate(case.estimate("case").seconds, cost, "case")
        return Estimate(_SHARE_OF_LIMIT * whole, cost, "limit")

    def estimates(self, cells: Sequence[Cell]) -> list[Estimate]:
        """One per cell; trials of one agent and case are looked up once."""
        found: dict[tuple[str, str, str, str], Estimate] = {}
        result = []
        for cell in cells:
            key = (cell.agent.id, model_key(cell.models), cell.case.id, cell.profile)
            if key not in found:
                found[key] = self.estimate(cell)
            result.append(found[key])
        return result


def model_key(models: Mapping[str, str]) -> str:
    """The models of a cell as one text, empty without any."""
    return " ".join(f"{role}={name}" for role, name in sorted(models.items()))


@dataclass(frozen=True)
class Measured:
    """Of graded cells, over the newest `NEWEST` of each group. Models are as in `bench.plan.estimate.model_key`."""

    exact: dict[tuple[str, str, str, str], tuple[float, float | None]]
    """(agent id, models, case id, profile) to median seconds and mean cost in USD (None: no cost is known)."""
    cases: dict[tuple[str, str], float]
    """(case id, profile) to median seconds, whoever ran."""
    shares: dict[tuple[str, str], float]
    """(agent id, models) to the mean share of the time limits that was used."""
    graded: set[tuple[str, str, str, str, int]]
    """(agent digest, models, case digest, profile, trial) of every verdict."""
