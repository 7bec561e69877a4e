"""The machine class: times are compared only within one fingerprint."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.base.files import sha256_bytes
from bench.formats.provenance import Machine
from bench.sandbox import disk_mb

_LEAST_BYTES = 16 << 20
"""With less than this a disk counts as full: what did not fit has left the rest."""
_LEAST_FILES = 1000
"""With room for fewer, a cell that has filled the disk could not be judged."""


@functools.lru_cache(maxsize=1)
def this_machine() -> Machine:
    """What this machine is made of."""
    cpu, gpu = _cpu(), _gpu()
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.machine()}"
    # Memory rounded to GiB: kernels differ by some pages on equal machines.
    fingerprint = sha256_bytes(f"{system}|{cpu}|{cores}|{round(memory_mb / 1024)}|{gpu}".encode())[7:19]
    return Machine(
        fingerprint=fingerprint,
        system=system,
        cpu=cpu,
        cores=cores,
        memory_mb=memory_mb,
        gpu=gpu,
        python=platform.python_version(),
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpu() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ", ".join(sorted(done.stdout.split("\n")[:-1])) if done.returncode == 0 else ""


def has_room(folder: Path) -> bool:
    """Whether the disk of `folder` has room for what is written when a cell is judged."""
    info = os.statvfs(folder)
    # Some file systems count no inodes.
    return info.f_bavail * info.f_frsize >= _LEAST_BYTES and (not info.f_files or info.f_favail >= _LEAST_FILES)


@dataclass(eq=False)
class CellRoom:
    """The room that one cell takes, and whether a disk was full beside it."""

    folders: Sequence[Path]
    most_mb: int
    """That its case lets an agent have."""
    _full_at: float = -math.inf
    _full: str = ""

    def met(self, said: str) -> None:
        """A disk is full. A cell that holds over half of what it may have can be why, and is not lost by it.

        What its agent has left is copied for each program that is judged, and these may write as much again: otherwise
        whoever leaves enough could choose to be lost.
        """
        if disk_mb(self.folders)[0] <= self.most_mb / 2:
            self._full_at, self._full = time.monotonic(), said

    def full_since(self, moment: float) -> str:
        """What is known of a full disk at or after `moment` (monotonic seconds), by others; empty: nothing."""
        return self._full if self._full_at >= moment else ""


@dataclass
class DiskSpace:
    """Looked at now and then while cells run. Safe to use from several threads."""

    folders: tuple[Path, ...] = ()
    _cells: list[CellRoom] = field(default_factory=list)

    @contextlib.contextmanager
    def of_cell(self, folders: Sequence[Path], most_mb: int) -> Iterator[CellRoom]:
        """The room of a cell that keeps everything in these folders, for as long as the context is open."""
        room = CellRoom(folders, most_mb)
        self._cells.append(room)
        try:
            yield room
        finally:
            self._cells.remove(room)

    def look(self) -> None:
        """Tell the cells whether one of the disks is full at this instant."""
        for folder in self.folders:
            # A folder may not be there yet, or not any more.
            with contextlib.suppress(OSError):
                info = os.statvfs(folder)
                left = info.f_bavail * info.f_frsize
                # Some file systems count no inodes.
                if left < _LEAST_BYTES or (info.f_files and not info.f_favail):
                    for cell in list(self._cells):
                        cell.met(f"{left >> 20} MiB are left on the disk of {folder}")
