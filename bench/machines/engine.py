"""What every engine offers: quote, launch, find, release, sweep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from bench.machines.facts import Demand, Found, Machine, Quote, Registration, Registry, Released, SweepReport
from bench.machines.lease import EngineName, Lease, Scope
from bench.machines.sweeping import sweep


class Engine(ABC):
    """Makes machines for shards. Only what carries the tags of a lease of the repository is ever touched."""

    name: ClassVar[EngineName]
    registers: ClassVar[bool] = True
    """Whether its machines are runners of GitHub, each with a just-in-time configuration."""
    wait_hours: float = 0.0
    """For which a machine may be waited for: added to its lease, and not to its price."""

    @abstractmethod
    def quote(self, demands: Sequence[Demand]) -> list[Quote]:
        """The most that each may cost. Starts nothing; raises `UserError` where no price is known."""

    @abstractmethod
    def launch(self, lease: Lease, demand: Demand, runner: Registration | None) -> Machine:
        """One machine for the lease, with the lease's tags in the very call that makes it.

        Asked twice for the same lease, it makes one machine. Raises `OutOfCapacity` where certainly nothing was made,
        and `UserError` for every other fault: then something may have been made, which carries the tags.
        """

    def settle(self, machines: Sequence[Machine]) -> None:  # noqa: B027  most engines have nothing to wait for
        """Wait until all of these are there, for engines that make them after `launch`; raises `UserError`."""

    @abstractmethod
    def find(self, scope: Scope) -> Found:
        """All that exists with the tags of the scope, by asking the cloud and no file of ours. Does not raise."""

    @abstractmethod
    def release(self, machines: Sequence[Machine]) -> Released:
        """End these; those that have ended already are no fault. Does not raise."""

    def sweep(self, repository: str, registry: Registry | None, *, pause_s: float = 120.0) -> SweepReport:
        """End what earlier runs of the repository left behind: the same two-strike rule for every engine."""
        return sweep(self, repository, registry, pause_s=pause_s)
