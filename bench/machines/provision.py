"""Machines for the shards of a plan, and their release: the same for every engine.

The order is what makes a kill harmless. The lease is on disk before anything is asked for; GitHub's record, whose name
holds the lease, is made before the machine; the machine carries the lease from the call that makes it. So at every
moment whatever exists can be found by what it carries, without this process and without its files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pydantic import Field

from bench.base.errors import UserError
from bench.base.model import Model
from bench.base.text import counted
from bench.machines.engine import Engine
from bench.machines.facts import Clock, Demand, Machine, Quote, Registration, Registry, utc_now
from bench.machines.lease import EngineName, Lease, Scope, new_runner_name, parse_runner_name


class _Line(Model):
    lease: str
    engine: EngineName
    repository: str
    run: str
    attempt: int = Field(ge=1)
    shard: str
    expires: str


class LeaseBook:
    """The file of leases, one a line of JSON: each stands there before anything is asked of a cloud.

    It is for people and for the summary of a job. `release` and `sweep` go by tags, because this file can be lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, lease: Lease) -> None:
        """The lease is on the disk after this."""
        line = _Line(
            lease=lease.id,
            engine=lease.engine,
            repository=lease.repository,
            run=lease.run,
            attempt=lease.attempt,
            shard=lease.shard,
            expires=lease.expires.isoformat(),
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(line.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True)
class Run:
    """The workflow run for which machines are made."""

    engine: EngineName
    repository: str
    """owner/name."""
    id: str
    attempt: int

    @property
    def scope(self) -> Scope:
        return Scope(self.repository, self.id, self.attempt)

    def lease(self, demand: Demand, clock: Clock = utc_now, wait_hours: float = 0.0) -> Lease:
        """The lease of the machine for one shard."""
        expires = clock() + timedelta(seconds=round((demand.hours + wait_hours) * 3600))
        return Lease(self.engine, self.repository, self.id, self.attempt, demand.shard, expires)


@dataclass
class ReleaseReport:
    """What a release ended."""

    machines: list[Machine] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    """Names of GitHub's runner records that were removed."""
    busy: list[str] = field(default_factory=list)
    """Names of those that GitHub keeps until it sees that the machine is gone: minutes."""
    faults: list[str] = field(default_factory=list)


def check_budget(quotes: Sequence[Quote], budget_usd: float) -> float:
    """The most that all machines can cost together; raises `UserError` where that is more than the budget."""
    total = sum(quote.usd for quote in quotes)
    if total > budget_usd:
        raise UserError(
            f"{counted(len(quotes), 'machine')} can cost up to {total:.2f} USD, and the budget is {budget_usd:.2f} USD",
            where="provision",
            remedy="plan fewer cells, take cheaper machines or shorter leases, or raise `budget-usd`",
        )
    return total


def provision_all(
    engine: Engine,
    run: Run,
    demands: Sequence[Demand],
    *,
    budget_usd: float,
    registry: Registry | None,
    leases: Path,
    clock: Clock = utc_now,
    tell: Callable[[str], None] = lambda line: None,
    quoted: Callable[[Sequence[Quote]], object] = lambda quotes: None,
) -> list[Machine]:
    """A machine for each demand; all of them, or none that stays: what was made is released where one fails.

    leases: the file that is told of each lease before anything is asked for. quoted: is told the prices before that.
    A machine that this attempt has already is taken as it is. Raises `UserError`.
    """
    quotes = engine.quote(demands)
    quoted(quotes)
    check_budget(quotes, budget_usd)
    held = _made_before(engine, run)
    book = LeaseBook(leases)
    machines: list[Machine] = []
    try:
        for demand in demands:
            lease = run.lease(demand, clock, engine.wait_hours)
            if lease.id in held:
                machines.append(held[lease.id])
                continue
            book.write(lease)
            machine = _launch(engine, lease, demand, registry, clock)
            tell(
                f"shard {demand.shard}: {machine.id} in {machine.place or engine.name}, until {lease.expires:%H:%M} UTC"
            )
            machines.append(machine)
        engine.settle(machines)
    except BaseException:
        # Also where the job is cancelled: GitHub gives a few seconds. What is not released by then ends itself.
        report = release_all(engine, run.scope, registry)
        for fault in report.faults:
            tell(f"not released: {fault}")
        raise
    return machines


def _made_before(engine: Engine, run: Run) -> dict[str, Machine]:
    """The machines of this attempt by their leases: this step may have been killed, and repeated."""
    found = engine.find(run.scope)
    if found.faults:
        raise UserError(found.faults[0], where="provision", remedy="correct this first: machines may exist there")
    alive = [it for it in found.machines if it.is_alive and it.kind in ("machine", "job")]
    return {machine.lease.id: machine for machine in alive}


def _launch(engine: Engine, lease: Lease, demand: Demand, registry: Registry | None, clock: Clock) -> Machine:
    runner: Registration | None = None
    if engine.registers:
        if registry is None:
            raise UserError("machines of this engine are runners, which takes a token", where=engine.name)
        runner = registry.register(lambda: new_runner_name(lease, clock()), lease.label)
    return engine.launch(lease, demand, runner)


def release_all(engine: Engine, scope: Scope, registry: Registry | None) -> ReleaseReport:
    """End all that carries the tags of the scope, and remove its runner records; may be asked any number of times."""
    report = ReleaseReport()
    found = engine.find(scope)
    own = [machine for machine in found.machines if scope.holds(machine.lease)]
    released = engine.release(own)
    report.machines += released.machines
    report.faults += [*found.faults, *released.faults]
    if registry is not None and engine.registers:
        _remove_records(engine, scope, registry, report)
    return report


def _remove_records(engine: Engine, scope: Scope, registry: Registry, report: ReleaseReport) -> None:
    try:
        records = registry.records()
    except UserError as error:
        report.faults.append(str(error))
        return
    for record in records:
        name = parse_runner_name(record.name)
        if name is None or name.engine != engine.name or not name.is_of(scope):
            continue
        if record.busy:
            report.busy.append(record.name)
            continue
        try:
            registry.remove(record.id)
        except UserError as error:
            report.faults.append(str(error))
        else:
            report.records.append(record.name)
