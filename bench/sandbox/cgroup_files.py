"""Files of control groups (cgroups): reading and writing them, and removing a group. Standard library only."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_REMOVE_S = 5.0
_TICK_S = 0.005


def remove_group(folder: Path) -> None:
    """End every process in the group at `folder` and in those below it, and remove them; a missing one is fine.

    Waits up to five seconds for the processes to go; what then remains is found by the next owner.
    """
    until = time.monotonic() + _REMOVE_S
    while True:
        try:
            os.rmdir(folder)
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > until:
                return
        with contextlib.suppress(OSError):
            # Stop new processes from being created while the rest are killed.
            write_file(folder / "pids.max", "0")
        with contextlib.suppress(OSError):
            write_file(folder / "cgroup.kill", "1")
        for pid in members(folder):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for below in _folders(folder):
            remove_group(below)
        time.sleep(_TICK_S)


def _folders(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def write_file(path: Path, value: str) -> None:
    """Write to a file of a cgroup, which must be there; raises `OSError` where the kernel refuses."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def members(folder: Path) -> list[int]:
    """Processes in a group, without those that this PID namespace does not know."""
    return [pid for pid in map(int, read_words(folder / "cgroup.procs")) if pid]


def read_words(path: Path) -> list[str]:
    """Words of a file of a cgroup; none of one that is gone."""
    try:
        return path.read_text().split()
    except OSError:
        return []


def numbers(path: Path) -> dict[str, int]:
    """Of a file of lines of a name and a number."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if value.isdigit():
                found[name] = int(value)
    return found
