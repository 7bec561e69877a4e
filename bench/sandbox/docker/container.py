"""The description of a job's container, as the engine wants it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.sandbox.cgroup import Owner, memory_cap_mb, tasks_cap
from bench.sandbox.docker.engine import Engine
from bench.sandbox.docker.guest_python import GUEST_PYTHON, GuestPython
from bench.sandbox.docker.own_image import OwnImage
from bench.sandbox.first_to_go import OOM_SCORE_ADJ
from bench.sandbox.gpu import NO_DEVICE
from bench.sandbox.job import GUEST, GUEST_LIBRARY, GUEST_PRIVATE, Job, JobLimits
from bench.sandbox.orders import guest_socket, resource_limits

IMAGE_PYTHON = "/opt/bench/bin/python"
"""The interpreter of the image that has the cases' libraries."""
SHARED_PYTHON = (IMAGE_PYTHON, "-I", "-S", "-B")
_OURS = "/run/bench"
_CONTROL = f"{_OURS}/.control"
_LANGUAGE = "LC_ALL"
_ULIMITS = {"core": "RLIMIT_CORE", "fsize": "RLIMIT_FSIZE", "cpu": "RLIMIT_CPU"}
_MIB = 1 << 20
_SYSTEM = (Path("/usr"), Path("/bin"))
RUN_LABEL = "ml-dev-bench.run"
CELL_LABEL = "ml-dev-bench.cell"
OWNER_LABEL = "ml-dev-bench.owner"
"""Holds the container's name, which tells whose it is: see `bench.sandbox.cgroup.Owner`."""


@dataclass(frozen=True)
class User:
    """The user that runs the job."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Parts:
    """What a container is made of besides its job."""

    name: str
    image: str
    user: User
    control: Path
    """The socket that its first process calls."""
    library: Path
    """What its first process imports, without `bench.guest`, which is mounted in there."""
    etc: Mapping[str, Path]
    own: OwnImage | None = None
    """The image, where it is the agent's own."""
    python: GuestPython | None = None
    """The interpreter that such an image is lent."""

    @property
    def interpreter(self) -> Sequence[str]:
        return SHARED_PYTHON if self.python is None else self.python.command


def container(job: Job, parts: Parts) -> dict[str, Any]:
    """Body of the request that makes the container."""
    cell_environment = job.cell_environment
    return {
        "Image": parts.image,
        "Entrypoint": [*parts.interpreter, f"{GUEST_LIBRARY}/bench/guest/container_entry.py", _CONTROL],
        "Cmd": [],
        "Env": _variables(parts.own),
        "User": f"{parts.user.uid}:{parts.user.gid}",
        "WorkingDir": "/",
        "Hostname": "bench",
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",
        "Labels": {RUN_LABEL: cell_environment.run, CELL_LABEL: cell_environment.cell, OWNER_LABEL: parts.name},
        "HostConfig": {
            **_isolation(job.trusted),
            **_limits(job.limits),
            # One that forks for others marks its forks itself.
            **({} if job.trusted else {"OomScoreAdj": OOM_SCORE_ADJ}),
            "Mounts": list(_mounts(job, parts)),
            "Tmpfs": _folders_in_memory(job, parts),
            "Devices": list(_devices(job)),
        },
    }


def _variables(image: OwnImage | None) -> list[str]:
    """Those of the first process, which runs nothing of an agent's image.

    A name without a value takes away the image's, such as LD_PRELOAD. Of the language C the C library knows all by
    itself: for another one it reads files of the image, and loads the modules for the character set that they name.
    """
    return [] if image is None else [*sorted(set(image.variables) - {_LANGUAGE}), f"{_LANGUAGE}=C"]


def _isolation(trusted: bool) -> dict[str, Any]:
    """What keeps a container from the machine. A trusted job forks into namespaces, and closes them itself."""
    opened = {
        "SecurityOpt": ["no-new-privileges", "seccomp=unconfined", "apparmor=unconfined"],
        # A kernel makes no new /proc where something hides a part of this one.
        "MaskedPaths": [],
        "ReadonlyPaths": [],
    }
    return {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        # The engine's own filter of system calls stays, being the default; ours comes on top.
        "SecurityOpt": ["no-new-privileges"],
        "IpcMode": "private",
        "Privileged": False,
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "Init": False,
        **(opened if trusted else {}),
    }


def _limits(limits: JobLimits) -> dict[str, Any]:
    memory, own = memory_cap_mb(limits) * _MIB, resource_limits(limits)
    return {
        "Memory": memory,
        # Together with swap: none.
        "MemorySwap": memory,
        "NanoCpus": min(limits.cpus, os.cpu_count() or 1) * 10**9,
        "PidsLimit": tasks_cap(limits),
        "Ulimits": [
            *({"Name": name, "Soft": own[key], "Hard": own[key]} for name, key in _ULIMITS.items()),
            # The job's own limit is lower: its first process forwards sockets beside it.
            {"Name": "nofile", "Soft": limits.open_files + 1024, "Hard": limits.open_files + 1024},
        ],
    }


def _folders_in_memory(job: Job, parts: Parts) -> dict[str, str]:
    user = parts.user
    options = f"rw,nosuid,nodev,exec,size={job.limits.disk_mb}m,mode=0700,uid={user.uid},gid={user.gid}"
    # Over what an agent's image has there: it could keep our mounts out, for some cases and not for others.
    covered = {_OURS: "ro,nosuid,nodev,noexec,size=1m,mode=0755"} if parts.own is not None else {}
    return dict.fromkeys(GUEST_PRIVATE, options) | covered


def _mounts(job: Job, parts: Parts) -> Iterator[dict[str, Any]]:
    for root in _roots(job.interpreters):
        yield _bind(root, str(root))
    for mount in job.mounts:
        yield _bind(mount.source, mount.target, mount.writable)
    # Engines mount by depth. Both lie deeper than all mounts of the agent's files, which links in its image could lead
    # to where our first process looks for modules: then ours cover them.
    yield _bind(parts.library, GUEST_LIBRARY)
    yield _bind(GUEST, f"{GUEST_LIBRARY}/bench/guest")
    if parts.python is not None:
        yield _bind(parts.python.folder, GUEST_PYTHON)
    yield from _gpu_mounts(job)
    yield _bind(parts.control, _CONTROL)
    for name, path in job.sockets.items():
        yield _bind(path, guest_socket(name))
    for name, path in parts.etc.items():
        yield _bind(path, f"/etc/{name}")


def _devices(job: Job) -> Iterator[dict[str, str]]:
    """The nodes of the cell's GPU by name: an engine's own request for GPUs would bring others, and needs a runtime."""
    if (gpu := job.cell_environment.gpu) is not None:
        for source, place in gpu.nodes(hidden=job.trusted):
            yield {"PathOnHost": source, "PathInContainer": place, "CgroupPermissions": "rw"}


def _gpu_mounts(job: Job) -> Iterator[dict[str, Any]]:
    if (gpu := job.cell_environment.gpu) is not None:
        for source, place in gpu.libraries:
            yield _bind(Path(source), place)
        for place in gpu.placeholders() if job.trusted else ():
            yield _bind(NO_DEVICE, place)


def _bind(source: Path, target: str, writable: bool = False) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(source.resolve()), "Target": target, "ReadOnly": not writable}


def _roots(interpreters: Iterable[Path]) -> list[Path]:
    """Installations of interpreters other than the image's own; what the system holds is the image's own, too."""
    found: list[Path] = []
    for python in interpreters:
        if python == Path(sys.executable):
            continue
        for root in (python.parent.parent, python.resolve().parent.parent):
            if root != Path("/") and not any(root.is_relative_to(known) for known in (*found, *_SYSTEM)):
                found.append(root)
    return found


def sweep(engine: Engine) -> list[str]:
    """Remove the containers whose owners are gone; returns their names. Raises `EngineError`."""
    removed = leftovers(engine)
    for name in removed:
        engine.remove(name)
    return removed


def leftovers(engine: Engine) -> list[str]:
    """Names of the containers whose owners are gone; raises `EngineError`."""
    found = engine.call("GET", "/containers/json", query={"all": "1", "filters": {"label": [OWNER_LABEL]}})
    names = [str(item["Labels"][OWNER_LABEL]) for item in found]
    return [name for name in names if (owner := Owner.of(name)) is not None and owner.gone()]
