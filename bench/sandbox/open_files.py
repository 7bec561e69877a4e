"""Files that processes hold without a name: they take the disk as others do, and no folder lists them.

Standard library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass


class TooManyError(Exception):
    """More is open than can be looked at."""


@dataclass(frozen=True)
class Held:
    """What processes hold beside the files that folders list."""

    nameless: int
    """Bytes of files without a name that they have open or mapped."""
    under_way: int
    """Files in their sockets, sent and not yet received: which ones nobody can see."""


def look_at(processes: Sequence[int], disks: Collection[int], most: int) -> Held:
    """What `processes` hold of the disks `disks` (as `st_dev`).

    most: of open files to look at; raises `TooManyError` where there are more. What this user may not look into is not
    seen.
    """
    found: dict[tuple[int, int], int] = {}
    sockets: dict[int, int] = {}
    for count, (path, info) in enumerate(_open_files(processes)):
        if count >= most:
            raise TooManyError
        if info.st_nlink == 0 and info.st_dev in disks and stat.S_ISREG(info.st_mode):
            found[info.st_dev, info.st_ino] = info.st_blocks * 512
        elif stat.S_ISSOCK(info.st_mode) and info.st_ino not in sockets:
            sockets[info.st_ino] = _under_way(path)
    return Held(sum(found.values()), sum(sockets.values()))


def _open_files(processes: Sequence[int]) -> Iterator[tuple[str, os.stat_result]]:
    for process in processes:
        yield from _files_in(f"/proc/{process}/map_files", _deleted_regions(process))
        # A thread can have files of its own.
        for thread in _listed(f"/proc/{process}/task"):
            folder = f"/proc/{process}/task/{thread}/fd"
            yield from _files_in(folder, _listed(folder))


def _files_in(folder: str, names: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
    for name in names:
        try:
            yield f"{folder}/{name}", os.stat(f"{folder}/{name}")
        except OSError:
            # Closed, or gone with its process, meanwhile.
            continue


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


def _deleted_regions(process: int) -> list[str]:
    """The parts of its memory that show a file which was removed, by their names in `map_files`."""
    try:
        with open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as file:
            lines = [line.split(maxsplit=5) for line in file if line.endswith(" (deleted)\n")]
    except OSError:
        return []
    return ["-".join(f"{int(end, 16):x}" for end in words[0].split("-")) for words in lines]
