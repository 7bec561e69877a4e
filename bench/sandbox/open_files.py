"""Files that processes hold without a name: they take the disk as others do, and no folder lists them.

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass


class TooManyError(Exception):
    """More is open than can be looked at."""


@dataclass(frozen=True)
class Held:
    """What processes hold beside the files that folders list."""

    nameless: int
    """Bytes of files without a name that they have open or mapped."""
    hidden: int
    """Places where nobody can see which files they hold: files sent and not yet received, tasks closed to this user."""
    mapped: frozenset[tuple[int, int]] = frozenset()
    """Removed files of which they have only mapped a part, where this user may not see how large the whole is."""


def look_at(processes: Sequence[int], disks: Collection[int], most: int) -> Held:
    """What `processes` hold of the disks `disks` (as `st_dev`).

    most: of open files to look at; raises `TooManyError` where there are more.
    """
    look = _Look(disks, most)
    for process in processes:
        look.at_regions(process)
        look.at_open_files(process)
    return look.found()


def bytes_open(processes: Sequence[int], disks: Collection[int], most: int) -> int:
    """Bytes of files without a name that `processes` have open on `disks`, without those that are only mapped."""
    look = _Look(disks, most)
    for process in processes:
        look.at_open_files(process)
    return look.found().nameless


class _Look:
    """What was found so far."""

    def __init__(self, disks: Collection[int], most: int) -> None:
        self._disks, self._most = disks, most
        self._files: dict[tuple[int, int], int] = {}
        self._sockets: dict[int, int] = {}
        self._closed = 0
        self._regions: dict[tuple[int, int], int] = {}
        """Removed files that could not be looked at, with the bytes that a write to memory can fill."""

    def at_open_files(self, process: int) -> None:
        """What a process has open; a thread can have files of its own."""
        for thread in _listed(f"/proc/{process}/task"):
            self._at_task(f"/proc/{process}/task/{thread}")

    def _at_task(self, task: str) -> None:
        try:
            names = os.listdir(f"{task}/fd")
        except PermissionError:
            self._closed += _may_hide(task)
        except OSError:
            # Gone with its process, meanwhile.
            pass
        else:
            for name in names:
                with contextlib.suppress(OSError):
                    self._add(f"{task}/fd/{name}")

    def at_regions(self, process: int) -> None:
        """What a process has mapped of files that were removed."""
        for region in _removed_regions(process):
            try:
                self._add(f"/proc/{process}/map_files/{region.name}")
            except PermissionError:
                # Only root may follow these.
                if region.file[0] in self._disks or _on_a_disk(process, region.file[0]):
                    self._regions[region.file] = max(self._regions.get(region.file, 0), region.writable_to)
            except OSError:
                continue

    def _add(self, path: str) -> None:
        info = os.stat(path)
        self._most -= 1
        if self._most < 0:
            raise TooManyError
        if info.st_nlink == 0 and info.st_dev in self._disks and stat.S_ISREG(info.st_mode):
            self._files[info.st_dev, info.st_ino] = info.st_blocks * 512
        elif stat.S_ISSOCK(info.st_mode) and info.st_ino not in self._sockets:
            self._sockets[info.st_ino] = _under_way(path)

    def found(self) -> Held:
        """All of it."""
        # Which number a disk has in a list of regions, some file systems tell otherwise than `stat`.
        seen = {inode for _, inode in self._files}
        unseen = {file: size for file, size in self._regions.items() if file[1] not in seen}
        nameless = sum(self._files.values()) + sum(unseen.values())
        return Held(nameless, sum(self._sockets.values()) + self._closed, frozenset(unseen))


@dataclass(frozen=True)
class _Region:
    """A part of a process's memory that shows a file which was removed."""

    name: str
    """In `map_files`."""
    file: tuple[int, int]
    """Device and inode."""
    writable_to: int
    """Bytes of the file that writing to memory can fill, holes included."""


def _removed_regions(process: int) -> list[_Region]:
    try:
        with open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as file:
            lines = [line.split(maxsplit=5) for line in file if line.endswith(" (deleted)\n")]
    except OSError:
        return []
    found = []
    for addresses, mode, offset, device, inode, _ in lines:
        first, end = (int(address, 16) for address in addresses.split("-"))
        major, minor = (int(number, 16) for number in device.split(":"))
        writable_to = int(offset, 16) + end - first if mode.endswith("s") else 0
        found.append(_Region(f"{first:x}-{end:x}", (os.makedev(major, minor), int(inode)), writable_to))
    return found


def _on_a_disk(process: int, device: int) -> bool:
    """Whether `device`, as a list of regions has it, is not memory alone."""
    if os.major(device) != 0:
        return True
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(f"/proc/{process}/mountinfo", encoding="utf-8", errors="replace") as file:
            kinds = [line.rpartition(" - ")[2].split()[0] for line in file if line.split()[2] == wanted]
    except (OSError, IndexError):
        return False
    return any(kind not in ("tmpfs", "ramfs") for kind in kinds)


def _may_hide(task: str) -> bool:
    """Whether a thread that is closed to us may have files open: one that has ended has none.

    The first process of a sandbox is ours, and closed to the job; without a sandbox of processes nothing can be said.
    """
    try:
        with open(f"{task}/status", encoding="utf-8", errors="replace") as file:
            facts = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return False
    ids = facts.get("NSpid", "").split()
    return facts.get("State", "Z")[0] not in "ZX" and len(ids) > 1 and ids[-1] != "1"


def _under_way(path: str) -> int:
    """Descriptors that wait in an open socket, as the kernel tells since Linux 5.8."""
    folder, _, name = path.rpartition("/fd/")
    try:
        with open(f"{folder}/fdinfo/{name}", encoding="ascii", errors="replace") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("scm_fds:"))
    except (OSError, ValueError, IndexError):
        return 0


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
