"""How long the agent's code may run when it is judged: in CPU time, so that a busy machine makes no difference.

Three clocks. CPU time is the limit that a case states. Available time stands still while others hold the processors
and ends what only waits. Wall time ends everything; then the machine's own counters say whether it starved the job.
Standard library only.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.sandbox.starvation import Processors, Witness, read_processors

OverTime = Literal["cpu_limit", "time_limit", "starved"]
_WAITING_FACTOR, _WAITING_S = 1.25, 1.0
_WALL_FACTOR, _WALL_S = 10.0, 30.0
_LOOK_S = 1.0
_MOST_TASKS = 200


@dataclass(frozen=True)
class TimeLimits:
    """Limits of a piece of work of the agent's code, in seconds."""

    cpu_s: float | None
    available_s: float | None
    """In which a processor was free for it, or worked for it."""
    wall_s: float


def judging_limits(seconds: float, cpus: int) -> TimeLimits:
    """Limits of work for which a case allows `seconds` on each of `cpus` processors."""
    return TimeLimits(seconds * max(cpus, 1), _WAITING_FACTOR * seconds + _WAITING_S, wall_backstop(seconds))


def wall_backstop(seconds: float) -> float:
    """Wall time after which work that may take `seconds` of CPU time is ended, however busy the machine is."""
    return _WALL_FACTOR * seconds + _WALL_S


class TimeMeter:
    """The time of one piece of work, from now on: ask `over` about ten times a second.

    cpu_s: CPU time of what does the work, since whenever. tasks: its processes. groups_beside: see `Control`.
    counted: whether `cpu_s` is the kernel's count. Where it is a sum from which processes can hide, what hides would
    pass for other work on the machine: then nothing is `starved`.
    """

    def __init__(
        self,
        limits: TimeLimits,
        cpus: int,
        cpu_s: Callable[[], float | None],
        tasks: Callable[[], Sequence[int]],
        *,
        groups_beside: Callable[[], Sequence[Path]] = lambda: (),
        counted: Callable[[], bool] = lambda: True,
        witness: Witness | None = None,
        processors: Callable[[], Processors] = read_processors,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self.available_s = 0.0
        self._cpus = max(cpus, 1)
        self._read_cpu, self._tasks, self._groups_beside, self._counted = cpu_s, tasks, groups_beside, counted
        self._processors, self._clock = processors, clock
        self._witness = witness or Witness(self._cpus)
        self._began = self._last = clock()
        self._first_cpu_s = self._cpu_s = cpu_s()
        self._idle_s = processors().idle_s if limits.available_s is not None else 0.0
        self._next_look = self._began + _LOOK_S

    @property
    def cpu_s(self) -> float | None:
        """CPU time that the work took, as of the last `over` or `read`; None where nothing is known of it."""
        if self._cpu_s is None:
            return None
        return self._cpu_s - (self._first_cpu_s or 0.0)

    @property
    def wall_s(self) -> float:
        return self._clock() - self._began

    def over(self) -> OverTime | None:
        """The limit that the work is over, if any."""
        self.read()
        used, limits = self.cpu_s, self.limits
        if limits.cpu_s is not None and used is not None and used > limits.cpu_s:
            return "cpu_limit"
        if limits.available_s is not None and self.available_s > limits.available_s:
            return "time_limit"
        if self.wall_s <= limits.wall_s:
            return None
        return "starved" if self._counted() and self._witness.starved() else "time_limit"

    def read(self) -> None:
        """Bring the clocks up to date."""
        now, before = self._clock(), self._cpu_s
        used = self._read_cpu()
        if used is not None and (before is None or used > before):
            self._cpu_s = used
        if self.limits.available_s is None:
            return
        idle_s = self._processors().idle_s
        own_s = (self._cpu_s or 0.0) - (before or 0.0)
        seconds = now - self._last
        self.available_s += min(seconds, max(0.0, idle_s - self._idle_s + own_s) / self._cpus)
        self._last, self._idle_s = now, idle_s
        if now >= self._next_look:
            self._next_look = now + _LOOK_S
            self._witness.look(any_runnable(self._tasks()), self._groups_beside())


def any_runnable(pids: Sequence[int]) -> bool:
    """Whether a thread of these processes runs or waits for a processor; of a crowd, only some are asked."""
    tasks = (f"/proc/{pid}/task/{task}/stat" for pid in pids for task in _threads(pid))
    return any(_state(path) == b"R" for path in itertools.islice(tasks, _MOST_TASKS))


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _state(path: str) -> bytes:
    with contextlib.suppress(OSError, IndexError), open(path, "rb") as file:
        return file.read().rpartition(b")")[2].split()[0]
    return b""
