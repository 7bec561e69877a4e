"""When the runner looks at what a job has written, and what is too much."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.sandbox import disk_watch
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.disk_watch import DiskWatch
from tests.helpers.cells import run_code

_GIB = 1 << 30
_FAR = 1e9
"""Seconds: in none of these tests is it time for the usual look."""


class Disk:
    """What a disk says of itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.size, self.entries = 100 * _GIB, 1_000_000
        monkeypatch.setattr(disk_watch, "_TICK_S", _FAR)
        monkeypatch.setattr(os, "statvfs", self._answer)

    def _answer(self, _: object) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 0, 0, self.size // 4096, 0, 0, self.entries, 0, 255))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_disk_that_shrinks_is_looked_at_at_once(tmp_path: Path, disk: Disk) -> None:
    watch = DiskWatch([tmp_path], limit_mb=1)
    (tmp_path / "large").write_bytes(bytes(2 << 20))
    assert not watch.over(), "looked before it was time"
    disk.size -= _GIB
    assert watch.over()


def test_a_disk_that_others_fill_is_not_the_job_s_doing(tmp_path: Path, disk: Disk) -> None:
    watch = DiskWatch([tmp_path], limit_mb=1)
    disk.size = disk.entries = 0
    assert not watch.over()
    assert not watch.look()


def test_a_crowd_of_files_is_looked_at_at_once(tmp_path: Path, disk: Disk) -> None:
    """No job may hold more than half of the files that a disk has room for."""
    disk.entries = 20
    watch = DiskWatch([tmp_path], limit_mb=1)
    for number in range(11):
        (tmp_path / str(number)).touch()
    assert not watch.over()
    disk.entries -= 11
    assert watch.over()


def test_a_job_can_reserve_room_by_writing_alone(tmp_path: Path, bubblewrap: BubblewrapSandbox) -> None:
    """The C library's own way round is what honest programs get: it takes the time that a watch needs."""
    code = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
file = os.open("reserved", os.O_CREAT | os.O_RDWR)
refused = libc.syscall(ctypes.c_long({"x86_64": 285, "aarch64": 47}[os.uname().machine]), file, 0,
                       ctypes.c_long(0), ctypes.c_long(1 << 20))
print(refused, errno.errorcode[ctypes.get_errno()], os.fstat(file).st_size)
os.posix_fallocate(file, 0, 1 << 16)
print(os.fstat(file).st_size, os.fstat(file).st_blocks * 512)
"""
    assert run_code(bubblewrap, tmp_path, code).stdout.split() == [b"-1", b"ENOTSUP", b"0", b"65536", b"65536"]
