"""How much a job has written to the runner's disk: looked at now and then, and at once when the disk itself shrinks.

Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.sandbox.open_files import Held, TooManyError, look_at

# Scanning more takes seconds, in which the job is not watched.
_MAX_ENTRIES = 500_000
_TICK_S = 1.0
_SHARE_OF_TIME = 20
"""At most one of so many seconds goes into looking, however many files there are."""
_SHARE_OF_LIMIT = 4
"""Of the limit, what may go from the disk between two looks."""
_SHARE_OF_ROOM = 0.75
"""Of what the disk had left, what a job may hold: what it takes beyond would be the runner's, or a cell's beside it."""
_HIDDEN_S = 3.0
"""Whoever sends open files to another process has them received before; ours are closed to others while they start."""
_TRIES = 3
"""To enter a folder that the job closes again and again."""


@dataclass(frozen=True)
class _Free:
    """What the disks of a job's folders have left, all together."""

    size: int
    entries: int
    """Zero where the file system counts none, too."""


@dataclass(frozen=True)
class _Look:
    """What was seen at one moment."""

    at: float
    free: int
    used_mb: float
    held: Held

    def lost_mb(self, later: _Look) -> float:
        """What has gone from the disk until `later` and is not in sight."""
        return max(0.0, (self.free - later.free) / (1 << 20) - (later.used_mb - self.used_mb))


class DiskWatch:
    """Watches what a job holds in the folders that it may write: ask `over` about ten times a second.

    A job may hold at most half of the files that the disk had room for, and three quarters of the bytes: where it could
    take all of them, this machine would be full by the agent's choice.
    """

    def __init__(
        self, folders: Iterable[Path], limit_mb: float, processes: Callable[[], Sequence[int]] = tuple
    ) -> None:
        """processes: of the job, by their ids here; they may hold files that have no name any more."""
        self._folders = tuple(folders)
        self._processes = processes
        self._free = free = _free(self._folders)
        self._limit_mb = min(limit_mb, _SHARE_OF_ROOM * free.size / (1 << 20)) if free.size else limit_mb
        self._most_entries = min(_MAX_ENTRIES, free.entries // 2) if free.entries else _MAX_ENTRIES
        now = time.monotonic()
        self._soonest, self._next = now, now + _TICK_S
        # What is there at the start is not looked for, which would take time; it is within the limit.
        self._last = self._whole = _Look(now, free.size, 0.0, Held(0, 0))
        """Of these, `_whole` is the last at which nothing of the job's was where nobody can see it."""
        self._mapped_mb = 0.0

    def over(self) -> bool:
        """Whether the job holds more than its limit, as far as it is time to look."""
        now = time.monotonic()
        if not self._folders or now < self._soonest or (now < self._next and not self._shrunk()):
            return False
        return self.look()

    def look(self) -> bool:
        """Whether the job holds more than its limit now."""
        self._free = _free(self._folders)
        began = time.monotonic()
        held = self._held()
        used = float("inf")
        if held is not None:
            used = disk_mb(self._folders, self._most_entries)[0] + held.nameless / (1 << 20)
            used += self._unseen_mb(_Look(began, self._free.size, used, held))
        now = time.monotonic()
        seconds = now - began
        # Other jobs may be what the disk shrinks by: then half of the time goes into looking, and not all of it.
        self._soonest, self._next = now + seconds, now + max(_TICK_S, _SHARE_OF_TIME * seconds)
        return used > self._limit_mb

    def _held(self) -> Held | None:
        """None: more is open than can be looked at."""
        disks = set()
        for folder in self._folders:
            with contextlib.suppress(OSError):
                disks.add(os.stat(folder).st_dev)
        try:
            return look_at(self._processes(), disks, _MAX_ENTRIES)
        except TooManyError:
            return None

    def _unseen_mb(self, now: _Look) -> float:
        """What has gone from the disk while the job kept files where nobody sees which, or how large they are."""
        last, self._last = self._last, now
        if not now.held.mapped:
            self._mapped_mb = 0.0
        elif now.held.mapped - last.held.mapped or now.held.hidden or last.held.hidden:
            # What is mapped and nowhere open cannot grow any more: only what came to it since the last look counts.
            self._mapped_mb += last.lost_mb(now)
        if now.held.hidden == 0:
            self._whole = now
        hidden_mb = self._whole.lost_mb(now) if now.at - self._whole.at >= _HIDDEN_S else 0.0
        return max(self._mapped_mb, hidden_mb)

    def _shrunk(self) -> bool:
        """Whether so much has gone from the disk since the last look that the job may be over its limit."""
        free = _free(self._folders)
        size, entries = self._free.size - free.size, self._free.entries - free.entries
        most_size = self._limit_mb * (1 << 20) / _SHARE_OF_LIMIT
        return size > most_size or entries > self._most_entries / _SHARE_OF_LIMIT


def _free(folders: Sequence[Path]) -> _Free:
    """What the disks of these folders have left; one that cannot be asked has nothing."""
    size = entries = 0
    seen = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            if (disk := os.stat(folder).st_dev) not in seen:
                seen.add(disk)
                info = os.statvfs(folder)
                size, entries = size + info.f_bavail * info.f_frsize, entries + info.f_favail
    return _Free(size, entries)


def room_needed(limit_mb: int) -> int:
    """Bytes that must be free for a job that may hold `limit_mb`: with fewer it meets its limit sooner."""
    return int((limit_mb << 20) / _SHARE_OF_ROOM)


def disk_mb(folders: Iterable[Path], most_entries: int = _MAX_ENTRIES) -> tuple[float, float]:
    """MiB in `folders` and the seconds it took to look; a crowd of files, or paths too long to follow, are too much.

    A file counts with its whole length, and under each of its names: holes and links do not survive a copy.
    """
    began = time.monotonic()
    total = entries = 0
    pending = [str(folder) for folder in folders]
    while pending:
        folder = pending.pop()
        try:
            size, count, below = _counted(folder)
        except OSError as error:
            # Anything else is a folder that vanished while the job runs.
            if error.errno in (errno.ENAMETOOLONG, errno.EACCES):
                return float("inf"), time.monotonic() - began
            continue
        total, entries = total + size, entries + count
        pending += below
        if entries > most_entries:
            return float("inf"), time.monotonic() - began
    return total / (1 << 20), time.monotonic() - began


def _counted(folder: str) -> tuple[int, int, list[str]]:
    """Bytes and entries of one folder, and the folders in it; where its owner has closed it, it is opened first."""
    for _ in range(_TRIES):
        with contextlib.suppress(PermissionError):
            return _listed(folder)
        # What it holds counts as well, and its files may be open in the job.
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IRWXU)
        finally:
            os.close(descriptor)
    return _listed(folder)


def _listed(folder: str) -> tuple[int, int, list[str]]:
    size = entries = 0
    below: list[str] = []
    with os.scandir(folder) as found:
        for entry in found:
            entries += 1
            # One that vanishes meanwhile must not hide the others.
            with contextlib.suppress(FileNotFoundError):
                info = entry.stat(follow_symlinks=False)
                size += max(info.st_blocks * 512, info.st_size)
                if stat.S_ISDIR(info.st_mode):
                    below.append(entry.path)
    return size, entries, below
