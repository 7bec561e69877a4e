"""What engines are asked and answer: demands, quotes, machines, and GitHub's side of runners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Protocol

from bench.base.errors import UserError
from bench.machines.lease import EngineName, Lease, Scope

State = Literal["pending", "running", "ending", "ended"]
Kind = Literal["machine", "volume", "request", "job"]
"""A machine, or what a cloud keeps beside it: a disk, a request for a spot machine, a job that waits for one."""
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The present instant, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True)
class Demand:
    """What one shard asks of an engine."""

    shard: str
    machine: str
    """Name of the machine class in the experiment file, by which an engine finds its own options."""
    cpus: int
    memory_mb: int
    gpus: int
    hours: float
    """For which the machine may live; its lease expires then."""


@dataclass(frozen=True)
class Quote:
    """The most that the machine of one shard can cost."""

    shard: str
    kind: str
    """What the cloud calls such a machine."""
    usd_per_hour: float
    hours: float
    source: str
    """Where the price is from, and of which day."""

    @property
    def usd(self) -> float:
        return self.usd_per_hour * self.hours


@dataclass(frozen=True)
class Machine:
    """Something that a cloud keeps for a lease of ours."""

    id: str
    """Enough for `release`: with the region where ids are not unique without."""
    lease: Lease
    state: State
    kind: Kind = "machine"
    place: str = ""
    """Region, queue or cluster."""
    usd_per_hour: float | None = None
    started: datetime | None = None
    """None where the cloud does not say."""

    @property
    def is_alive(self) -> bool:
        """Whether it exists and is not about to be gone."""
        return self.state in ("pending", "running")


@dataclass(frozen=True)
class Found:
    """What a look at a cloud has shown. What could not be looked at is not absent."""

    machines: Sequence[Machine] = ()
    faults: Sequence[str] = ()
    """One line for each place that could not be asked."""


@dataclass(frozen=True)
class Released:
    """What came of releasing machines."""

    machines: Sequence[Machine] = ()
    """Those that were ended, or were ending already."""
    faults: Sequence[str] = ()
    """One line for each that could not be ended."""


class RunnerRecord(Protocol):
    """GitHub's record of a self-hosted runner."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def busy(self) -> bool: ...


class Registration(Protocol):
    """A runner that GitHub expects: the configuration serves one machine, for one job."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def configuration(self) -> str: ...


class Registry(Protocol):
    """GitHub's side of runners. Every method raises `UserError` where GitHub did not say."""

    def register(self, name: Callable[[], str], label: str) -> Registration:
        """A runner with this one label; name: gives a fresh name for each try."""
        ...

    def records(self) -> Sequence[RunnerRecord]:
        """All records, of others too."""
        ...

    def remove(self, record: int) -> None:
        """The record is gone after this, and it may have been before."""
        ...

    def has_ended(self, run: str, attempt: int) -> bool:
        """Whether the attempt of the workflow run is over, so that no job of it can come."""
        ...


@dataclass(frozen=True)
class Ending:
    """Why something was ended by a sweep."""

    what: str
    why: str


@dataclass
class SweepReport:
    """What a sweep found. Anything ended is a leak of an earlier run, and a fault of ours or of the cloud's."""

    ended: list[Ending] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Look-ups and endings that failed: what rests on them was left alone."""
    kept: int = 0
    """Machines and records of ours that are in order."""


class OutOfCapacity(UserError):
    """No place has such a machine at present: nothing was made, and another place or hour may have it."""


class Cloud(Protocol):
    """The part of an engine that `sweep` needs."""

    @property
    def name(self) -> EngineName: ...
    @property
    def registers(self) -> bool: ...
    def find(self, scope: Scope) -> Found: ...
    def release(self, machines: Sequence[Machine]) -> Released: ...
