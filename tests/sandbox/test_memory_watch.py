"""What a job holds in memory where no group of the kernel counts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.guest.first_process import descendants
from bench.sandbox import bubblewrap as bubblewrap_module
from bench.sandbox import memory_watch
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.memory_watch import MemoryWatch, files_mb
from tests.helpers.cells import make_limits, run_code

_FILES = {
    "a memfd": "held = os.memfd_create('x')\nos.write(held, bytes(60 << 20))",
    "a folder": "open(f'/tmp/{number}', 'wb').write(bytes(60 << 20))",
    "shared memory": "open(f'/dev/shm/{number}', 'wb').write(bytes(60 << 20))",
    "removed": "held = os.open(f'/tmp/{number}', os.O_CREAT | os.O_RDWR)\nos.write(held, bytes(60 << 20))\n"
    "os.unlink(f'/tmp/{number}')",
}


@pytest.mark.parametrize("how", _FILES)
def test_files_in_memory_count_where_no_group_counts(
    tmp_path: Path, bubblewrap: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """No process maps them, so none has them in its account."""
    monkeypatch.setattr(bubblewrap_module, "new_group", lambda _: None)
    work = _FILES[how].replace("\n", "\n    ")
    code = f"import os, time\nfor number in range(5):\n    {work}\ntime.sleep(20)"
    ended = run_code(bubblewrap, tmp_path, code, limits=make_limits(memory_mb=200, disk_mb=1000))
    assert ended.reason == "memory_limit", (ended.code, ended.stderr)


_LOADER = """
import mmap, os, sys
file = os.memfd_create("x")
os.truncate(file, 60 << 20)
shared = mmap.mmap(file, 60 << 20)
shared[:] = bytes(60 << 20)
for _ in range(3):
    if os.fork() == 0:
        sum(shared[::4096])
        break
sys.stdout.write(".")
sys.stdout.flush()
sys.stdin.read()
"""


def test_shared_memory_of_several_processes_counts_once() -> None:
    """A loader's workers map what they pass on, and have it open, too."""
    argv = [sys.executable, "-c", _LOADER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as loader:
        assert loader.stdout is not None
        for _ in range(4):
            assert loader.stdout.read(1) == b"."
        watch = MemoryWatch(lambda: [loader.pid, *descendants(loader.pid)])
        assert 60 <= watch.mb(100) < 160
        for pid in (*descendants(loader.pid), loader.pid):
            os.kill(pid, signal.SIGKILL)


def test_what_this_machine_has_in_memory_is_not_the_job_s() -> None:
    """A job without folders of its own sees those of all."""
    assert files_mb([os.getpid()]) == 0


def test_files_are_looked_at_when_shared_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    now, shared, held, looks = [1000.0], [0.0], [0.0], []

    def files(_: object) -> float:
        looks.append(now[0])
        return held[0]

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(memory_watch, "_shared_of_all_mb", lambda: shared[0])
    monkeypatch.setattr(memory_watch, "files_mb", files)
    watch = MemoryWatch(lambda: [])
    assert watch.mb(100) == 0
    now[0] += 0.1
    held[0] = 50
    assert watch.mb(100) == 0, "looked before it was time"
    shared[0] = 50
    now[0] += 0.1
    assert watch.mb(100) == 50
    held[0] = 0
    now[0] += 1.1
    assert watch.mb(100) == 0
    assert len(looks) == 3
