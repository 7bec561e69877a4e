"""Engines that make nothing: the machine of the job itself, and runners that others start and end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from bench.base.errors import UserError
from bench.machines.engine import Engine
from bench.machines.facts import (
    Demand,
    Ending,
    Found,
    Machine,
    Quote,
    Registration,
    Registry,
    Released,
    SweepReport,
    utc_now,
)
from bench.machines.lease import EngineName, Lease, Scope

Clean = Callable[[Path], None]
"""Ends what killed cells have left in a run folder; raises `UserError` where a runner works on it."""


class LocalEngine(Engine):
    """Run folders that shards left on this machine stand for the machines that others would have made."""

    name: ClassVar[EngineName] = "local"
    registers: ClassVar[bool] = False

    def __init__(self, folders: Callable[[], Sequence[Path]], clean: Clean, prices: dict[str, float]) -> None:
        """folders: those that shards left; prices: USD an hour by machine class."""
        self._folders = folders
        self._clean = clean
        self._prices = prices

    def quote(self, demands: Sequence[Demand]) -> list[Quote]:
        """Raises `UserError` where a class promises more than this machine has."""
        faults = [fault for it in {it.machine: it for it in demands}.values() for fault in _too_small(it)]
        if faults:
            raise UserError("; ".join(faults), where="provision", remedy="correct `machines` in the experiment file")
        return [
            Quote(it.shard, it.machine, self._prices.get(it.machine, 0.0), it.hours, "experiment file")
            for it in demands
        ]

    def launch(self, lease: Lease, demand: Demand, runner: Registration | None) -> Machine:
        return Machine("this machine", lease, "running", started=utc_now())

    def find(self, scope: Scope) -> Found:
        lease = Lease("local", scope.repository, scope.run, scope.attempt, "", utc_now())
        return Found([Machine(str(path), lease, "running", place="this machine") for path in self._folders()])

    def sweep(self, repository: str, registry: Registry | None, *, pause_s: float = 0.0) -> SweepReport:
        """One look is enough: the lock of a run folder tells whether a runner works on it."""
        released = self.release(self.find(Scope(repository)).machines)
        ended = [Ending(f"run folder {machine.id}", "no runner works on it") for machine in released.machines]
        return SweepReport(ended, list(released.faults))

    def release(self, machines: Sequence[Machine]) -> Released:
        ended, faults = [], []
        for machine in machines:
            try:
                self._clean(Path(machine.id))
            except UserError as error:
                faults.append(f"left alone: {error}")
            else:
                ended.append(machine)
        return Released(ended, faults)


class LabelEngine(Engine):
    """Quotes by the prices of the experiment file. It makes nothing, so it has nothing to find or to end."""

    name: ClassVar[EngineName] = "label"
    registers: ClassVar[bool] = False

    def __init__(self, prices: dict[str, float]) -> None:
        """prices: USD an hour by machine class."""
        self._prices = prices

    def quote(self, demands: Sequence[Demand]) -> list[Quote]:
        return [
            Quote(it.shard, it.machine, self._prices.get(it.machine, 0.0), it.hours, "experiment file")
            for it in demands
        ]

    def launch(self, lease: Lease, demand: Demand, runner: Registration | None) -> Machine:
        raise UserError("the runners of this engine are not started here", where="label")

    def find(self, scope: Scope) -> Found:
        return Found()

    def release(self, machines: Sequence[Machine]) -> Released:
        return Released()


def _too_small(demand: Demand) -> list[str]:
    """What this machine lacks of what the class promises."""
    cpus = len(os.sched_getaffinity(0))
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    facts = (
        ("CPUs", demand.cpus, cpus),
        ("MiB of memory", demand.memory_mb, memory_mb),
        ("GPUs", demand.gpus, gpus),
    )
    return [
        f"machine {demand.machine!r} promises {promised} {what}, and this one has {has}"
        for what, promised, has in facts
        if has < promised
    ]
