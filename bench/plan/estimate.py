"""What cells will take and cost: measured where there are records, else bounded by the case's limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, median

from bench.formats.judge_version import JUDGE
from bench.formats.plan import Cell, Source
from bench.formats.record import Record, case_version
from bench.formats.seeds import REPLAY_PREFIX, is_replayed
from bench.plan.spread import Seen, Spread, Spreads

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
    spread: Spread | None = None
    """Of the wall time; None: it is sure."""


@dataclass(frozen=True)
class History:
    """What graded cells took and cost, over the newest `NEWEST` of each group. Models are written by `model_key`.

    A cost is what was paid: replayed conversations cost nothing.
    """

    exact: Mapping[tuple[str, str, str, str], tuple[float, float | None]] = field(default_factory=dict)
    """(agent id, models, case id, profile) to median seconds and mean cost in USD (None: no cost is known)."""
    cases: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(case id, profile) to median seconds, of all agents."""
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(agent id, models) to the mean share of the time limits that was used."""
    graded: Collection[tuple[str, str, str, str, int]] = frozenset()
    """(agent digest, models, version of the case, profile, trial) of every verdict."""
    seen: Mapping[tuple[str, str, str, str], Sequence[Seen]] = field(default_factory=dict)
    """(agent id, models, case id, profile) to the times behind `exact`."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> History:
        """The history of these records; those without a verdict teach nothing."""
        exact: dict[tuple[str, str, str, str], list[tuple[float, float | None]]] = defaultdict(list)
        cases: dict[tuple[str, str], list[float]] = defaultdict(list)
        shares: dict[tuple[str, str], list[float]] = defaultdict(list)
        seen: dict[tuple[str, str, str, str], list[Seen]] = defaultdict(list)
        graded = set()
        for record in sorted((it for it in records if it.outcome == "graded"), key=lambda it: (it.started, it.cell)):
            seconds = sum(phase.seconds for phase in record.phases)
            models = model_key(record.models)
            share = seconds / (record.limits.agent_s + record.limits.grade_s)
            key = (record.agent.id, models, record.case.id, record.profile)
            exact[key].append((seconds, paid_usd(record)))
            seen[key].append(Seen(seconds, share, record.provenance.run))
            cases[record.case.id, record.profile].append(seconds)
            shares[record.agent.id, models].append(share)
            graded.add((record.agent.digest, models, record.case_version, record.profile, record.trial))
        return cls(
            {key: _typical(found[-NEWEST:]) for key, found in exact.items()},
            {key: median(found[-NEWEST:]) for key, found in cases.items()},
            {key: fmean(found[-NEWEST:]) for key, found in shares.items()},
            graded,
            {key: found[-NEWEST:] for key, found in seen.items()},
        )

    def knows(self, cell: Cell) -> bool:
        """Whether this very cell, in these versions of agent, case and judge, has a verdict."""
        version = case_version(cell.case.digest, JUDGE)
        key = (cell.agent.digest, model_key(cell.models), version, cell.profile, cell.trial)
        return key in self.graded

    def estimate(self, cell: Cell) -> Estimate:
        """From the nearest that is known."""
        models = model_key(cell.models)
        key = (cell.agent.id, models, cell.case.id, cell.profile)
        limits = cell.case.spec.limits
        whole = limits.agent_s + limits.grade_s
        # The most a cell may cost, since nothing is known of what it will.
        cost = 0.0 if all_replayed(cell.models) else limits.cost_usd
        exact = self.exact.get(key)
        if exact is not None:
            seconds, usd = exact
            return Estimate(seconds, 0.0 if all_replayed(cell.models) else usd, "measured", self._exact(key, whole))
        share = self.shares.get(key[:2])
        if share is not None:
            return Estimate(share * whole, cost, "agent", self._like(key, self._shares_seen.get(key[:2]), whole, whole))
        seconds_of_case = self.cases.get(key[2:])
        if seconds_of_case is not None:
            like = self._cases_seen.get(key[2:])
            return Estimate(seconds_of_case, cost, "case", self._like(key, like, whole, 1.0))
        return Estimate(_SHARE_OF_LIMIT * whole, cost, "limit", self._spreads.sure(str(key), whole))

    def _exact(self, key: tuple[str, str, str, str], whole: float) -> Spread | None:
        times = self.seen.get(key)
        return self._spreads.exact(key, whole, max(it.seconds for it in times)) if times else None

    def _like(
        self, key: tuple[str, str, str, str], like: Sequence[float] | None, whole: float, scale: float
    ) -> Spread | None:
        return self._spreads.other(str(key), like, whole, scale) if like else None

    @cached_property
    def _spreads(self) -> Spreads:
        return Spreads.of(self.seen)

    @cached_property
    def _shares_seen(self) -> Mapping[tuple[str, str], Sequence[float]]:
        """By agent and models: for each case the median share of the limits."""
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for (agent, models, _, _), times in self.seen.items():
            found[agent, models].append(median(it.share for it in times))
        return found

    @cached_property
    def _cases_seen(self) -> Mapping[tuple[str, str], Sequence[float]]:
        """By case and profile: for each agent the median seconds."""
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for (_, _, case, profile), times in self.seen.items():
            found[case, profile].append(median(it.seconds for it in times))
        return found


def all_replayed(models: Mapping[str, str]) -> bool:
    """Whether a cell of these models, or without any, has nothing to pay for."""
    return all(name.startswith(REPLAY_PREFIX) for name in models.values())


def paid_usd(record: Record) -> float | None:
    """What the cell's models were paid (USD): replayed calls were not; None: a price is not known."""
    if all_replayed(record.models):
        return 0.0
    if not is_replayed(record.models):
        return record.cost_usd
    # Of several roles some were live: the record's own sum has both, its usage tells them apart.
    costs = [it.cost_usd for it in record.usage if not it.model.startswith(REPLAY_PREFIX)]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _typical(took: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    """The median time, which one hung cell does not move, and the mean cost, which adds up to the bill."""
    costs = [cost for _, cost in took if cost is not None]
    return median(seconds for seconds, _ in took), fmean(costs) if costs else None


def model_key(models: Mapping[str, str]) -> str:
    """The models of a cell as one text, empty without any."""
    return " ".join(f"{role}={name}" for role, name in sorted(models.items()))
