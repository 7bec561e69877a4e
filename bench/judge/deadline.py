"""The time that all of the agent's code shares while it is judged."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NoReturn

from bench.base.errors import InfraError
from bench.sandbox import TimeLimits, Witness, judging_limits, wall_backstop

# A call that is granted less ends before anything can be seen of the machine.
_LEAST_WALL_S = 3.0


@dataclass
class Deadline:
    """The time of one grading's work in the workspace's code; the judge's own work takes none of it.

    seconds: on each of `cpus` processors.
    """

    seconds: float
    cpus: int = 1
    cpu_s: float = 0.0
    """Spent so far."""
    available_s: float = 0.0
    """Spent so far, by a clock that stands still while others hold the processors."""
    began: float = field(default_factory=time.monotonic)
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        self.witness = Witness(self.cpus)

    def grant(self, wanted: float) -> TimeLimits:
        """Limits of work of at most `wanted` seconds on each processor; a failed check when nothing is left."""
        whole = judging_limits(self.seconds, self.cpus)
        assert whole.cpu_s is not None and whole.available_s is not None
        left = min(1 - self.cpu_s / whole.cpu_s, 1 - self.available_s / whole.available_s) * self.seconds
        assert left > 0, f"the judging time of {self.seconds:g} s is used up by the workspace's code"
        limits = judging_limits(min(wanted, left), self.cpus)
        wall_left = max(_LEAST_WALL_S, wall_backstop(self.seconds) - (time.monotonic() - self.began))
        return TimeLimits(limits.cpu_s, limits.available_s, min(limits.wall_s, wall_left))

    def spend(self, cpu_s: float | None, available_s: float) -> None:
        """Take what was used off the time that is left."""
        self.cpu_s += cpu_s or 0.0
        self.available_s += available_s


@dataclass(frozen=True)
class Timed:
    """What a call gave, and what it took."""

    value: Any
    cpu_s: float
    """CPU time of all processes of the call, and of what carries its arguments and its answer."""
    trusted: bool
    """Whether the kernel counted it; otherwise it is a sum from which processes can hide."""


def over_time(reason: str, limits: TimeLimits, cpus: int) -> str:
    """What is said of work that was ended for `reason`."""
    seconds = (limits.cpu_s or 0.0) / max(cpus, 1)
    if reason == "cpu_limit":
        return f"used more than {seconds:g} s of CPU time" + (f" on each of {cpus} processors" if cpus > 1 else "")
    return f"took longer than {seconds:g} s" if reason == "time_limit" else f"was stopped: {reason.replace('_', ' ')}"


def raise_starved(what: str) -> NoReturn:
    """The machine, and not the agent, is why `what` did not end."""
    raise InfraError("starved", f"the machine was too busy with other work to run {what}")
