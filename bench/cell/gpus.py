"""GPUs among the cells of this machine: each belongs to one cell from its start to its record."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.base.errors import InfraError
from bench.formats.case_parts import Needs
from bench.sandbox import Gpu, GpuRoots, find_gpus

_TICK_S = 0.2


@contextmanager
def leased_gpu(needs: Needs, roots: GpuRoots, locks: Path, stopped: threading.Event) -> Iterator[Gpu | None]:
    """A GPU that no other cell of this user has, also of another run; waits for one. None where none is needed.

    locks: folder of the lock files, which end with their processes. Raises `InfraError` where there is no GPU at all,
    and when the run is stopped while it waits.
    """
    if not needs.gpu:
        yield None
        return
    gpus = find_gpus(roots)
    if not gpus:
        raise InfraError("needs_missing", "a GPU is missing; use a machine that has one")
    locks.mkdir(parents=True, exist_ok=True)
    gpu, held = _first_free(gpus, locks, stopped)
    try:
        yield gpu
    finally:
        os.close(held)


def _first_free(gpus: Sequence[Gpu], locks: Path, stopped: threading.Event) -> tuple[Gpu, int]:
    """The GPU, and the descriptor that holds its lock."""
    while not stopped.is_set():
        for gpu in gpus:
            descriptor = os.open(locks / f"gpu{gpu.minor}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
            else:
                return gpu, descriptor
        time.sleep(_TICK_S)
    raise InfraError("interrupted", "the run was stopped while the cell waited for a GPU")
