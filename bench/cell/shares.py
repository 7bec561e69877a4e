"""Who has used up the limits of a run: one agent must not end the cells of another as if it were that one's doing.

A cell that such a limit stops is its agent's own doing where that agent had used as large a part of all that was used
as its cells are of all cells, or a larger one. Otherwise the other agents have, and the cell is lost. An agent that is
alone in its run has always used all of it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.formats.model_usage import ModelUsage
from bench.formats.plan import Cell
from bench.formats.record import Record, StopReason

_UNITS = {"cost_limit": "dollars", "token_limit": "tokens", "step_limit": "calls", "time_limit": "seconds"}


@dataclass
class Work:
    """What one try of a cell has used so far."""

    agent: str
    seconds: float = 0.0
    began: float | None = field(default_factory=time.monotonic)
    usage: list[ModelUsage] = field(default_factory=list)

    def used(self, unit: str, now: float) -> float:
        if unit == "seconds":
            return self.seconds + (now - self.began if self.began is not None else 0.0)
        if unit == "dollars":
            return sum((it.cost_usd or 0.0) + it.at_risk_usd for it in self.usage)
        if unit == "requests":
            return sum(it.calls + it.failed_calls + it.retries for it in self.usage)
        return sum(it.calls if unit == "calls" else it.tokens.total for it in self.usage)


class RunShares:
    """What each agent of a run has used, in dollars, tokens, calls and seconds. Safe to use from several threads."""

    def __init__(self, cells: Sequence[Cell], earlier: Iterable[Record] = (), *, elsewhere: bool = False) -> None:
        """`earlier`: what cells have used before this process began.

        elsewhere: cells of other agents of the run are in other shards.
        """
        self._elsewhere = elsewhere
        agents = [_name(cell) for cell in cells]
        self._parts = {agent: agents.count(agent) / len(agents) for agent in set(agents)}
        self._works = [
            Work(f"{it.agent.id} {it.agent.digest}", _agent_seconds(it), began=None, usage=it.usage) for it in earlier
        ]
        self._lock = threading.Lock()

    @contextmanager
    def working(self, cell: Cell) -> Iterator[Work]:
        """Count a try of the cell; its `usage` may be set anew at any time."""
        work = Work(_name(cell))
        with self._lock:
            self._works.append(work)
        try:
            yield work
        finally:
            work.seconds, work.began = work.used("seconds", time.monotonic()), None

    def used_by_others(self, cell: Cell, limit: StopReason) -> str:
        """How it is seen that other agents have used up the run's `limit`; empty where the cell's own agent has."""
        return self._others(cell, _UNITS[limit])

    def account_used_by_others(self, cell: Cell, *, by_rate: bool) -> str:
        """The same for an account with a provider, which all shards of a run share; its bounds are not known.

        by_rate: nor is it whether they are of money. Then others have reached them where they have used more of all
        that may be counted: requests that fail cost nothing, and an agent could send any number of them.
        """
        if self._elsewhere:
            return "agents in other shards of the run share the account"
        with self._lock:
            priced = any(work.used("dollars", 0.0) for work in self._works)
        units = ["dollars" if priced else "tokens", *(("tokens", "requests") if by_rate else ())]
        found = [self._others(cell, unit) for unit in units]
        return found[0] if all(found) else ""

    def _others(self, cell: Cell, unit: str) -> str:
        mine, now = _name(cell), time.monotonic()
        with self._lock:
            own = math.fsum(work.used(unit, now) for work in self._works if work.agent == mine)
            every = math.fsum(work.used(unit, now) for work in self._works)
        part = self._parts.get(mine, 1.0)
        if own >= part * every:
            return ""
        return f"agent {cell.agent.id} has {part:.0%} of the cells and used {own:.4g} of {every:.4g} {unit}"


def _name(cell: Cell) -> str:
    # Two arms may have the same id.
    return f"{cell.agent.id} {cell.agent.digest}"


def _agent_seconds(record: Record) -> float:
    return sum(phase.seconds for phase in record.phases if phase.name == "agent")
