"""Runners that something else starts and ends: a controller, a service, GitHub itself, or you."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from bench.base.errors import UserError
from bench.machines.engine import Engine
from bench.machines.facts import Demand, Found, Machine, Quote, Registration, Released
from bench.machines.lease import EngineName, Lease, Scope


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
