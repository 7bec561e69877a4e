"""Whether the machine had CPU time to give: told by its own counters, never by what a judged job says or uses.

Foreign is what the processors did for processes that are not this benchmark's, and what a hypervisor took from them.
All of our own is taken out, whichever cell it is of: groups of jobs, the runner and its judges, and the kernel's own
threads, which work for whoever asked. So an agent that makes noise, in this cell or in another, leaves no evidence.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.guest.first_process import children as _children
from bench.guest.first_process import descendants
from bench.sandbox.cgroup import GROUP_PREFIX, cpu_time
from bench.sandbox.cgroup_location import counted_jobs

STARVED_SHARE = 0.5
"""Of the CPU time that a job may use: a machine that had less to give has starved it.

What is left goes to other cells and to the runner, too, which takes up to a quarter of a processor for four cells.
"""
_WANTED_SHARE = 0.5
_KERNEL_THREADS = 2
_OURS = re.compile(rb"\bfrom bench\.|/bench/(guest|sandbox)/|\0-m\0bench\0")
"""How the command lines of our helpers can be told: an agent starts no process that has no group."""


@dataclass(frozen=True)
class Processors:
    """Counters of the processors that this process may use, since the machine started; in seconds, all together."""

    idle_s: float
    busy_s: float
    """For processes; interrupts are left out."""
    stolen_s: float
    count: int


def read_processors(text: str | None = None, usable: Iterable[int] | None = None) -> Processors:
    """The processors now; `text`: what /proc/stat says."""
    text = Path("/proc/stat").read_text() if text is None else text
    wanted = {f"cpu{number}" for number in (os.sched_getaffinity(0) if usable is None else usable)}
    rows = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    found = [list(map(int, row[1:])) for row in rows if row[0] in wanted]
    user, nice, system, idle, waiting, _, _, stolen = (sum(row[place] for row in found) for place in range(8))
    tick = os.sysconf("SC_CLK_TCK")
    return Processors((idle + waiting) / tick, (user + nice + system) / tick, stolen / tick, max(len(found), 1))


def own_counters(containers: Iterable[Path] = ()) -> dict[str, float]:
    """Seconds of CPU time of everything that is not foreign, by what used it.

    containers: folders of the groups of containers, which the engine made and named.
    """
    groups = [*counted_jobs(), *containers]
    counted = {str(folder): cpu_time(folder) or 0.0 for folder in groups}
    # Of jobs that have groups, their parents would count everything again at their end.
    until = 13 if groups else 15
    for pid in (*_own_processes(), *descendants(_KERNEL_THREADS)):
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            # The time of its start makes the name of a process that of no other.
            counted[f"{pid} {words[19].decode()}"] = sum(map(int, words[11:until])) / os.sysconf("SC_CLK_TCK")
    return counted


def groups_like(group: Path) -> list[Path]:
    """The groups of all containers of the engine that made `group`: whose they are is not asked, it takes long."""
    # With systemd they lie among the system's own services.
    prefix, dash, _ = group.name.rpartition("-")
    return list(group.parent.glob(f"{prefix}{dash}*" if group.suffix == ".scope" else "*/"))


def _own_processes() -> list[int]:
    """The runner, its helpers and what these have started, without the jobs that have groups.

    Not everything below the runner: what has started it may have started others, too.
    """
    chain = _runner()
    found, pending = list(chain), [(pid, False) for pid in _children(chain[-1])]
    while pending:
        pid, ours = pending.pop()
        with contextlib.suppress(OSError):
            if f"/{GROUP_PREFIX}" in Path(f"/proc/{pid}/cgroup").read_text():
                continue
            ours = ours or _OURS.search(Path(f"/proc/{pid}/cmdline").read_bytes()) is not None
            if ours and pid not in chain:
                found.append(pid)
            pending += [(child, ours) for child in _children(pid)]
    return found


def _runner() -> list[int]:
    """This process and the interpreters above it."""
    chain = [os.getpid()]
    with contextlib.suppress(OSError, ValueError):
        while True:
            parent = int(Path(f"/proc/{chain[-1]}/stat").read_bytes().rpartition(b")")[2].split()[1])
            if not os.path.basename(os.readlink(f"/proc/{parent}/exe")).startswith("python"):
                break
            chain.append(parent)
    return chain


@dataclass
class Witness:
    """Watches the machine beside a job: `look` about once a second while it works, ask `starved` at the end."""

    cpus: int
    """That the job may use at once."""
    processors: Callable[[], Processors] = read_processors
    own: Callable[[Iterable[Path]], Mapping[str, float]] = own_counters
    clock: Callable[[], float] = time.monotonic
    watched_s: float = 0.0
    left_s: float = 0.0
    """CPU time that foreign load left for our jobs, at most what the job could have used."""
    looks: int = 0
    wanted: int = 0
    """Looks at which the job ran or waited for a processor."""
    _last: tuple[float, Processors, Mapping[str, float]] | None = field(default=None, repr=False)

    def look(self, runnable: bool, containers: Iterable[Path] = ()) -> None:
        """Read the machine's counters; `runnable`: whether the job runs or waits for a processor."""
        now = (self.clock(), self.processors(), self.own(containers))
        self.looks += 1
        self.wanted += runnable
        if self._last is not None:
            self._add(self._last, now)
        self._last = now

    def _add(
        self, before: tuple[float, Processors, Mapping[str, float]], now: tuple[float, Processors, Mapping[str, float]]
    ) -> None:
        seconds = now[0] - before[0]
        busy = now[1].busy_s - before[1].busy_s
        # What is new has done all of it since the last look.
        own = sum(max(0.0, used - before[2].get(name, 0.0)) for name, used in now[2].items())
        foreign = max(0.0, busy - own) + now[1].stolen_s - before[1].stolen_s
        most = min(self.cpus, now[1].count) * seconds
        self.watched_s += seconds
        self.left_s += min(most, max(0.0, now[1].count * seconds - foreign))

    def starved(self) -> bool:
        """Whether foreign load left the job less than `STARVED_SHARE` of what it may use; False before two looks.

        The machine's counters alone decide. That a job waited for something else can only speak against it.
        """
        if self._last is None or self.watched_s <= 0 or self.wanted < _WANTED_SHARE * self.looks:
            return False
        return self.left_s < STARVED_SHARE * min(self.cpus, self._last[1].count) * self.watched_s
