"""Where this process may make control groups (cgroups) for its jobs. Standard library only.

In version 1 each controller has a hierarchy of its own, and groups are made below the runner's. In version 2 a group
that holds processes has no controllers to give away: groups are made beside the runner, in the nearest group above
it that gives them and that it may write, or below its own after all processes there have moved into a group
`mldb-runner`, which is what a delegated group is for.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.sandbox.cgroup import (
    CONTROLLERS,
    CPU_TIME,
    GROUP_PREFIX,
    Branch,
    Group,
    job_folders,
    make_group,
    remove_abandoned,
)
from bench.sandbox.cgroup_files import read_words, write_file
from bench.sandbox.job import JobLimits

_LEAF = f"{GROUP_PREFIX}runner"
_ROUNDS = 20
_WANTED = (*CONTROLLERS, CPU_TIME)
_TRIAL_S = 10.0
_REMEDY = "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes -- ml-dev-bench …"


@dataclass(frozen=True)
class Probe:
    """Whether something that a runner needs works on this machine, and if not, why and what to do."""

    works: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class _Mount:
    """A hierarchy of cgroups as this process sees it."""

    controllers: frozenset[str]
    """Empty: version 2."""
    root: str
    point: Path

    def folder(self, path: str) -> Path | None:
        """The folder of the group at `path`; None when it lies outside of what is mounted."""
        relative = os.path.relpath(path, self.root)
        return None if relative.startswith("..") else self.point / relative


def new_group(limits: JobLimits) -> Group | None:
    """A group for a job; None where this process can make none."""
    branches = _branches()
    return make_group(branches, limits) if branches else None


def counting_group() -> Group | None:
    """A group that limits nothing and counts the CPU time of its processes and of all jobs that they start.

    None where there is none to be made, and in version 2, where jobs get groups beside that of who starts them.
    """
    branches = [
        Branch(1, it.folder, (CPU_TIME,)) for it in _branches() if it.version == 1 and CPU_TIME in it.controllers
    ]
    return make_group(branches, JobLimits(wall_s=1)) if branches else None


def counted_jobs() -> list[Path]:
    """Folders of the groups, of all runners, that count the CPU time of jobs."""
    found = [folder for branch in _branches() if CPU_TIME in branch.controllers for folder in job_folders(branch)]
    return list(dict.fromkeys(found))


def probe_cgroups() -> Probe:
    """What the kernel will enforce, found by making a group."""
    group = new_group(JobLimits(wall_s=1))
    if group is None:
        return Probe(False, "no cgroup can be made: memory and processes are only watched", _REMEDY)
    about, lacking = group.about, [name for name in CONTROLLERS if name not in group.in_force]
    if not group.counts_cpu:
        lacking.append(CPU_TIME)
    group.remove()
    if lacking:
        return Probe(False, f"{about}; not {', '.join(lacking)}", _REMEDY)
    return Probe(True, about)


@functools.lru_cache(maxsize=1)
def _branches() -> tuple[Branch, ...]:
    """Found once; groups that dead runners have left there are removed."""
    try:
        branches = find_branches(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    except (OSError, ValueError):
        return ()
    if branches and os.geteuid() != 0 and not _can_join(branches):
        return ()
    remove_abandoned(branches)
    return branches


def find_branches(memberships: str, mounts: str) -> tuple[Branch, ...]:
    """Where groups can be made, from the texts of /proc/self/cgroup and mountinfo."""
    own = {}
    for line in memberships.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            own[name] = path
    found: dict[Path, tuple[str, ...]] = {}
    missing = list(_WANTED)
    hierarchies = list(_hierarchies(mounts))
    for name in _WANTED:
        for mount in hierarchies:
            folder = mount.folder(own[name]) if name in mount.controllers and name in own else None
            if folder is not None and name in missing and _writable(folder):
                found[folder] = (*found.get(folder, ()), name)
                missing.remove(name)
    branches = [Branch(1, folder, names) for folder, names in found.items()]
    for mount in hierarchies:
        folder = mount.folder(own[""]) if not mount.controllers and "" in own else None
        if missing and folder is not None and (branch := unified_branch(folder, mount.point, missing)):
            branches.append(branch)
            break
    return tuple(branches)


def _hierarchies(mounts: str) -> Iterable[_Mount]:
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        root, point = (word.encode().decode("unicode_escape") for word in fields.split()[3:5])
        kind, _, options = rest.split()[:3]
        if kind == "cgroup2":
            yield _Mount(frozenset(), root, Path(point))
        elif kind == "cgroup" and (controllers := frozenset(options.split(",")) & set(_WANTED)):
            yield _Mount(controllers, root, Path(point))


def unified_branch(own: Path, top: Path, wanted: Iterable[str]) -> Branch | None:
    """Where in version 2 groups can have some of the controllers in `wanted`.

    own: the group of this process. top: the highest that it sees.
    """
    names = tuple(wanted)
    weaker: Branch | None = None
    for folder in (own, *own.parents):
        if not _writable(folder):
            break
        # Every group of version 2 counts CPU time, with or without a controller.
        given = [*read_words(folder / "cgroup.subtree_control"), CPU_TIME]
        branch = Branch(2, folder, tuple(name for name in names if name in given))
        if branch.controllers == names:
            return branch
        if weaker is None or len(branch.controllers) > len(weaker.controllers):
            weaker = branch if branch.controllers else None
        if folder == top:
            break
    own_names = _give(own, names) if _writable(own) else ()
    return Branch(2, own, (*own_names, *(name for name in names if name == CPU_TIME))) if own_names else weaker


def _give(own: Path, names: Iterable[str]) -> tuple[str, ...]:
    """Have `own` give its controllers to groups below it; those that it gives then."""
    there = [name for name in names if name in read_words(own / "cgroup.controllers")]
    refused = [name for name in there if not _enable(own, name)]
    if refused:
        _move_down(own)
        for name in refused:
            _enable(own, name)
    return tuple(name for name in there if name in read_words(own / "cgroup.subtree_control"))


def _enable(folder: Path, name: str) -> bool:
    with contextlib.suppress(OSError):
        write_file(folder / "cgroup.subtree_control", f"+{name}")
        return True
    return False


def _move_down(own: Path) -> None:
    """Move all processes of `own` into a group below it; new ones made meanwhile are met in the next round."""
    with contextlib.suppress(OSError):
        (own / _LEAF).mkdir(exist_ok=True)
        for _ in range(_ROUNDS):
            members = read_words(own / "cgroup.procs")
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    write_file(own / _LEAF / "cgroup.procs", pid)
            if not members:
                return


def _writable(folder: Path) -> bool:
    """Groups can be made in it, and processes moved between it and them."""
    return os.access(folder, os.W_OK | os.X_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _can_join(branches: tuple[Branch, ...]) -> bool:
    """What is written on files does not say whether an ordinary user may move between these groups."""
    group = make_group(branches, JobLimits(wall_s=1))
    if group is None:
        return False
    try:
        argv = group.joined(["true"])
        return subprocess.run(argv, capture_output=True, check=False, timeout=_TRIAL_S).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        group.remove()
