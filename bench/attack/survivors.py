"""What a cell may have left behind on this machine: processes, and files that still change."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from bench.sandbox.group import PREFIX, Owner

_MAX_WATCHED = 5000
_GROUP_DEPTH = 8


def processes_with(token: str) -> list[str]:
    """Processes other than this one that have `token` in their command line or environment."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        if token.encode() in _read(entry, "cmdline") + _read(entry, "environ"):
            name = _read(entry, "comm").decode("utf-8", "replace").strip()
            found.append(f"process {entry} ({name}) is still there")
    return found


def containers_of(run: str, cell: str) -> list[str]:
    """Containers of one cell, running or not."""
    from bench.sandbox.dockerengine import find_engine
    from bench.sandbox.dockersweep import CELL, RUN

    wanted = {"label": [f"{RUN}={run}", f"{CELL}={cell}"]}
    found = find_engine().call("GET", "/containers/json", query={"all": "1", "filters": wanted})
    return [f"container {item['Names'][0]} is still there" for item in found]


def groups_of_this_process() -> list[str]:
    """Control groups that this process has made and not removed."""
    owner = Owner.this()
    prefix = f"{PREFIX}{owner.namespace}-{owner.pid}-{owner.started}-"
    found = []
    for root, folders, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{root}/{name} is still there" for name in folders if name.startswith(prefix)]
        if root.count("/") > _GROUP_DEPTH:
            folders.clear()
    return found


def _read(pid: str, name: str) -> bytes:
    try:
        return Path("/proc", pid, name).read_bytes()
    except OSError:
        return b""


def changes(folder: Path, seconds: float) -> list[str]:
    """Files below `folder` that change within `seconds`."""
    if not seconds:
        return []
    before = _state(folder)
    time.sleep(seconds)
    after = _state(folder)
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return [f"{name} changed after the end" for name in names[:5]]


def _state(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Size, time of change and content of the first files below `folder`."""
    found: dict[str, tuple[int, int, str]] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            try:
                info = path.lstat()
                content = hashlib.sha256(path.read_bytes()).hexdigest() if info.st_size < 1 << 20 else ""
            except OSError:
                continue
            found[str(path.relative_to(folder))] = (info.st_size, info.st_mtime_ns, content)
            if len(found) == _MAX_WATCHED:
                return found
    return found
