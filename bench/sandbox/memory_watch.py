"""How much memory a job holds, where no group of the kernel counts it: that of its processes and of files in memory.

What remains unseen: shared memory of which the job has only kept a part mapped, and files in memory that lie in
sockets or are mapped and not open. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence

from bench.sandbox.open_files import TooManyError, bytes_open

_MOST_FILES = 500_000
_TICK_S = 1.0
_SHARE_OF_TIME = 20
"""At most one of so many seconds goes into looking at files, however many there are."""
_SHARE_OF_LIMIT = 8
"""Of the limit, by what all shared memory of the machine may grow between two looks."""
_MIB = 1 << 20


class MemoryWatch:
    """Ask `mb` about ten times a second."""

    def __init__(self, processes: Callable[[], Sequence[int]]) -> None:
        """processes: of the job, by their ids here."""
        self._processes = processes
        self._files_mb = 0.0
        self._shared_mb = 0.0
        self._soonest = self._next = 0.0

    def mb(self, limit_mb: float) -> float:
        """MiB that the job holds; exact where it matters.

        The cheap sum counts pages that forks share once per fork, so it is only believed below the limit. Files in
        memory that are mapped are in the account of processes, too: the larger of both counts.
        """
        known = list(self._processes())
        self._look_at_files(known, limit_mb)
        bound = _held_mb(map(_resident_mb, known), self._files_mb)
        if bound <= limit_mb:
            return bound
        # What was there at the last look may be gone.
        self._files_mb = files_mb(known)
        return min(bound, _held_mb(map(_proportional_mb, known), self._files_mb))

    def _look_at_files(self, pids: Sequence[int], limit_mb: float) -> None:
        now = time.monotonic()
        if now < self._soonest:
            return
        shared_mb = _shared_of_all_mb()
        if now < self._next and shared_mb - self._shared_mb <= limit_mb / _SHARE_OF_LIMIT:
            return
        self._files_mb, self._shared_mb = files_mb(pids), shared_mb
        seconds = time.monotonic() - now
        # Other jobs may be what the shared memory grows by: then half of the time goes into looking, and not all of it.
        self._soonest, self._next = now + 2 * seconds, now + max(_TICK_S, _SHARE_OF_TIME * seconds)


def _held_mb(accounts: Iterable[tuple[float, float]], files_mb: float) -> float:
    found = list(accounts)
    return sum(own for own, _ in found) + max(sum(shared for _, shared in found), files_mb)


def _resident_mb(pid: int) -> tuple[float, float]:
    """Anonymous and shared memory; pages of files can be dropped by the system and do not count."""
    return _fields_mb(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:"))


def _proportional_mb(pid: int) -> tuple[float, float]:
    """Like `_resident_mb`, with each shared page divided by the number of processes that map it."""
    own, shared = _fields_mb(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))
    return (own, shared) if own or shared else _resident_mb(pid)


def _shared_of_all_mb() -> float:
    return _fields_mb("/proc/meminfo", (b"Shmem:",))[0]


def _fields_mb(path: str, names: tuple[bytes, ...]) -> tuple[float, float]:
    """The values of at most two lines; nothing of a process that is gone."""
    found = dict.fromkeys(names, 0.0)
    with contextlib.suppress(OSError, ValueError, IndexError), open(path, "rb") as file:
        for line in file:
            if (name := line.partition(b" ")[0].strip()) in found:
                found[name] = int(line.split()[1]) / 1024
    first, second = [*found.values(), 0.0][:2]
    return first, second


def files_mb(pids: Sequence[int]) -> float:
    """MiB of the files without a name that these processes have open in memory, and of all in their own folders there.

    A crowd that cannot be looked at is too much.
    """
    descriptor = os.memfd_create("probe", os.MFD_CLOEXEC)
    try:
        device = os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)
    try:
        nameless = bytes_open(pids, {device}, _MOST_FILES)
    except TooManyError:
        return float("inf")
    return (nameless + _bytes_in_folders(pids)) / _MIB


def _bytes_in_folders(pids: Sequence[int]) -> int:
    """What is in file systems in memory that these processes see and this one does not, each counted once."""
    ours, seen, found = {device for device, _ in _in_memory(os.getpid())}, set(), dict[str, int]()
    for pid in pids:
        with contextlib.suppress(OSError):
            namespace = os.stat(f"/proc/{pid}/ns/mnt").st_ino
            if namespace in seen:
                continue
            mounts = [(device, place) for device, place in _in_memory(pid) if device not in ours]
            for device, place in mounts:
                with contextlib.suppress(OSError):
                    info = os.statvfs(f"/proc/{pid}/root{place}")
                    found[device] = (info.f_blocks - info.f_bfree) * info.f_frsize
            seen.add(namespace)
    return sum(found.values())


def _in_memory(pid: int) -> list[tuple[str, str]]:
    """The file systems in memory that a process sees: device and place."""
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.split() for line in file]
    return [(words[2], words[4]) for words in lines if words[words.index("-") + 1] in ("tmpfs", "ramfs")]
