"""What a running job uses of memory and disk, seen from outside. Standard library only."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

_MAX_ENTRIES = 500_000


def memory_mb(pids: Iterable[int], limit_mb: float) -> float:
    """MiB of memory that the processes hold; exact where it matters.

    The cheap sum counts pages that forks share once per fork, so it is only believed below the limit.
    """
    known = list(pids)
    bound = sum(map(_resident_mb, known))
    return bound if bound <= limit_mb else min(bound, sum(map(_proportional_mb, known)))


def _resident_mb(pid: int) -> float:
    """Anonymous and shared memory; pages of files can be dropped by the system and do not count."""
    return _fields_mb(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:"))


def _proportional_mb(pid: int) -> float:
    """Like `_resident_mb`, with each shared page divided by the number of processes that map it."""
    fields = (b"Pss_Anon:", b"Pss_Shmem:")
    return _fields_mb(f"/proc/{pid}/smaps_rollup", fields) or _resident_mb(pid)


def _fields_mb(path: str, names: tuple[bytes, ...]) -> float:
    try:
        with open(path, "rb") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith(names)) / 1024
    except (OSError, ValueError, IndexError):
        return 0.0


def disk_mb(folders: Iterable[Path]) -> tuple[float, float]:
    """MiB in `folders` and the seconds it took to look; a crowd of files, or paths too long to follow, are too much.

    A file counts with its whole length, and under each of its names: holes and links do not survive a copy.
    """
    began = time.monotonic()
    total = entries = 0
    pending = [str(folder) for folder in folders]
    while pending:
        try:
            with os.scandir(pending.pop()) as found:
                for entry in found:
                    entries += 1
                    info = entry.stat(follow_symlinks=False)
                    total += max(info.st_blocks * 512, info.st_size)
                    if stat.S_ISDIR(info.st_mode):
                        pending.append(entry.path)
        except OSError as error:
            # Anything else is a folder that vanished or is locked while the job runs.
            if error.errno == errno.ENAMETOOLONG:
                return float("inf"), time.monotonic() - began
        if entries > _MAX_ENTRIES:
            return float("inf"), time.monotonic() - began
    return total / (1 << 20), time.monotonic() - began
