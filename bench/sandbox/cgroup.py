"""The control group (cgroup) of one job: the kernel's own limits on it, what it uses, and all that belongs to it.

Both versions of cgroups, each controller in whichever it is found. Standard library only.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.sandbox.cgroup_files import members, numbers, read_words, remove_group, write_file
from bench.sandbox.job import EndReason, JobLimits

CONTROLLERS = ("memory", "pids", "cpu")
GROUP_PREFIX = "mldb-"
CPU_TIME = "cpuacct"
"""Counts and limits nothing. In version 2 every group does what this controller does in version 1."""
_MIB = 1 << 20
_PERIOD_US = 100_000
_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@"'


@dataclass(frozen=True)
class Branch:
    """A folder of a hierarchy of cgroups in which groups can be made, and the controllers that they have there."""

    version: Literal[1, 2]
    folder: Path
    controllers: tuple[str, ...]


@dataclass(frozen=True)
class CgroupSetting:
    """A value for a file of a group."""

    file: str
    value: str
    needed: bool = True
    """Otherwise: only where the kernel has such a file."""


def memory_cap_mb(limits: JobLimits) -> int:
    """MiB at which the kernel steps in, page cache and the kernel's own included.

    Above the limit, which is watched, by what the sandbox itself takes and what the kernel needs for tables and stacks.
    """
    return limits.memory_mb + limits.memory_mb // 32 + 64


def tasks_cap(limits: JobLimits) -> int:
    """The kernel counts threads, the limit counts processes: few have more than four."""
    return 4 * limits.processes + 64


def settings(version: Literal[1, 2], controller: str, limits: JobLimits) -> list[CgroupSetting]:
    """What is written to limit a group, in this order."""
    memory, quota = str(memory_cap_mb(limits) * _MIB), str(max(limits.cpus, 1) * _PERIOD_US)
    if controller == CPU_TIME:
        return []
    if controller == "pids":
        return [CgroupSetting("pids.max", str(tasks_cap(limits)))]
    if controller == "memory" and version == 1:
        # The second counts memory and swap together, and may not be below the first.
        return [
            CgroupSetting("memory.limit_in_bytes", memory),
            CgroupSetting("memory.memsw.limit_in_bytes", memory, needed=False),
            CgroupSetting("memory.swappiness", "0", needed=False),
        ]
    if controller == "memory":
        return [
            CgroupSetting("memory.max", memory),
            CgroupSetting("memory.swap.max", "0", needed=False),
            CgroupSetting("memory.oom.group", "1", needed=False),
        ]
    if version == 1:
        return [CgroupSetting("cpu.cfs_period_us", str(_PERIOD_US)), CgroupSetting("cpu.cfs_quota_us", quota)]
    return [CgroupSetting("cpu.max", f"{quota} {_PERIOD_US}")]


@dataclass(frozen=True)
class Owner:
    """The process that makes groups. Its name is theirs: so a dead one's are known."""

    namespace: int
    """Of its process id: elsewhere the number means another process."""
    pid: int
    started: int
    """Ticks since the machine's start: process ids are used again."""

    @classmethod
    def this(cls) -> Owner:
        return cls(_own_namespace(), os.getpid(), _start_of(os.getpid()))

    @classmethod
    def of(cls, name: str) -> Owner | None:
        """The owner of the group called `name`; None for a group that is not ours."""
        parts = name.removeprefix(GROUP_PREFIX).split("-")
        if not name.startswith(GROUP_PREFIX) or len(parts) != 4 or not all(part.isdigit() for part in parts[:3]):
            return None
        return cls(*map(int, parts[:3]))

    def new_name(self) -> str:
        return f"{GROUP_PREFIX}{self.namespace}-{self.pid}-{self.started}-{secrets.token_hex(4)}"

    def gone(self) -> bool:
        """Whether it is known to have ended."""
        return self.namespace == _own_namespace() and _start_of(self.pid) != self.started


def _own_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _start_of(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return -1
    # The name of the program, in brackets, may hold anything.
    return int(stat.rpartition(")")[2].split()[19])


@dataclass
class Group:
    """One job's group: a folder of the same name in each branch."""

    folders: dict[str, Path]
    """By controller."""
    versions: dict[str, Literal[1, 2]]
    cap_mb: int
    in_force: tuple[str, ...] = field(default=())
    """Controllers whose limits the kernel took."""

    @property
    def paths(self) -> list[Path]:
        """The folders, each once."""
        return list(dict.fromkeys(self.folders.values()))

    def joined(self, argv: Sequence[str]) -> list[str]:
        """`argv`, started by a shell that joins the group first: nothing of it runs outside."""
        return ["/bin/sh", "-c", _JOIN, "sh", *map(str, self.paths), "--", *argv]

    @property
    def counts_memory(self) -> bool:
        return "memory" in self.in_force

    @property
    def counts_cpu(self) -> bool:
        return CPU_TIME in self.folders

    def cpu_s(self) -> float | None:
        """Seconds of CPU time that everything ever in the group has used; None where it is not counted."""
        return cpu_time(self.folders[CPU_TIME]) if self.counts_cpu else None

    def processes(self) -> list[int]:
        return members(self.paths[0])

    def memory_mb(self) -> float:
        """MiB that the job holds, where memory is counted: anonymous, shared and files in memory; no page cache."""
        if self._events("memory"):
            return self.cap_mb
        wanted = ("total_rss", "total_shmem") if self.versions["memory"] == 1 else ("anon", "shmem")
        found = numbers(self.folders["memory"] / "memory.stat")
        return sum(found.get(name, 0) for name in wanted) / _MIB

    def limit_hit(self) -> EndReason | None:
        """What the kernel has refused: it counts."""
        if self._events("memory"):
            return "memory_limit"
        return "process_limit" if self._events("pids") else None

    def _events(self, controller: str) -> int:
        if controller not in self.in_force:
            return 0
        if controller == "pids":
            return numbers(self.folders[controller] / "pids.events").get("max", 0)
        file = "memory.oom_control" if self.versions[controller] == 1 else "memory.events"
        return numbers(self.folders[controller] / file).get("oom_kill", 0)

    def remove(self) -> None:
        """End whatever is left in the group and remove it."""
        for place in self.paths:
            remove_group(place)

    @property
    def about(self) -> str:
        """Which version of cgroups enforces which limits, in words."""
        by_version = {
            version: ", ".join(name for name in self.in_force if self.versions[name] == version) for version in (1, 2)
        }
        found = "; ".join(f"{names} by cgroup v{version}" for version, names in by_version.items() if names)
        return found or "memory and processes watched"


def cpu_time(folder: Path) -> float | None:
    """Seconds of CPU time used so far in a group and in those below it, of either version; None where unknown."""
    if words := read_words(folder / "cpuacct.usage"):
        return int(words[0]) / 1e9
    used = numbers(folder / "cpu.stat").get("usage_usec")
    return None if used is None else used / 1e6


def make_group(branches: Iterable[Branch], limits: JobLimits) -> Group | None:
    """A new group with these limits; None where the kernel takes none of them and counts no CPU time."""
    name = Owner.this().new_name()
    group = Group({}, {}, memory_cap_mb(limits))
    for branch in branches:
        folder = branch.folder / name
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            continue
        for controller in branch.controllers:
            group.folders[controller], group.versions[controller] = folder, branch.version
            if _limit(folder, settings(branch.version, controller, limits)) and controller in CONTROLLERS:
                group.in_force += (controller,)
    if not group.in_force and not group.counts_cpu:
        group.remove()
        return None
    return group


def _limit(folder: Path, wanted: Iterable[CgroupSetting]) -> bool:
    """Whether the kernel took what is needed of it."""
    for setting in wanted:
        try:
            if setting.needed or (folder / setting.file).exists():
                write_file(folder / setting.file, setting.value)
        except OSError:
            if setting.needed:
                return False
    return True


def job_folders(branch: Branch) -> list[Path]:
    """Groups of jobs of all runners: those made here, and those made from a group beside this one."""
    beside = [group for folder in _folders(branch.folder.parent) for group in _folders(folder)]
    return [group for group in (*_folders(branch.folder), *beside) if group.name.startswith(GROUP_PREFIX)]


def _folders(place: Path) -> list[Path]:
    """Those in a group; none in one that its owner removes at this moment."""
    try:
        with os.scandir(place) as found:
            return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def remove_abandoned(branches: Iterable[Branch]) -> None:
    """Remove the groups of owners that are dead."""
    for branch in branches:
        for folder in job_folders(branch):
            owner = Owner.of(folder.name)
            if owner is not None and owner.gone():
                remove_group(folder)
