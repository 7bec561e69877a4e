"""When the runner looks at what a job has written, and what is too much."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.sandbox import disk_watch
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.disk_watch import DiskWatch, disk_mb
from bench.sandbox.job import Sandbox
from bench.sandbox.open_files import Held
from tests.helpers.cells import make_limits, not_here, run_code
from tests.helpers.readable import readable_package

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


def test_a_job_holds_no_more_than_a_share_of_the_room_that_there_was(tmp_path: Path, disk: Disk) -> None:
    disk.size = 4 << 20
    watch = DiskWatch([tmp_path], limit_mb=1024)
    (tmp_path / "large").write_bytes(bytes((3 << 20) - 8192))
    assert not watch.look()
    (tmp_path / "more").write_bytes(bytes(12288))
    assert watch.look(), "it may choose to fill the disk, and be lost by that"


def test_a_disk_that_tells_nothing_leaves_the_limit(tmp_path: Path, disk: Disk) -> None:
    disk.size = 0
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    assert not DiskWatch([tmp_path], limit_mb=2).look()


def test_a_crowd_of_files_is_looked_at_at_once(tmp_path: Path, disk: Disk) -> None:
    """No job may hold more than half of the files that a disk has room for."""
    disk.entries = 20
    watch = DiskWatch([tmp_path], limit_mb=1)
    for number in range(11):
        (tmp_path / str(number)).touch()
    assert not watch.over()
    disk.entries -= 11
    assert watch.over()


_NAMELESS = {
    "removed": "os.open(name, os.O_CREAT | os.O_RDWR); os.unlink(name)",
    "never named": "os.open('.', os.O_TMPFILE | os.O_RDWR)",
    "mapped": "os.open(name, os.O_CREAT | os.O_RDWR); os.unlink(name)",
    "a thread's own": "os.open('.', os.O_TMPFILE | os.O_RDWR)",
}


@pytest.mark.parametrize("how", _NAMELESS)
def test_files_without_a_name_count(sandbox: Sandbox, tmp_path: Path, how: str) -> None:
    """They fill the disk of all, and no folder lists them."""
    code = f"""
import ctypes, mmap, os, time
held = []
for name in map(str, range(6)):
    file = {_NAMELESS[how]}
    os.write(file, bytes(4 << 20))
    if {how == "mapped"}:
        held.append(mmap.mmap(file, 4096))
        os.close(file)
if {how == "a thread's own"}:
    libc = ctypes.CDLL(None, use_errno=True)
    stack = mmap.mmap(-1, 1 << 20)
    top = ctypes.addressof(ctypes.c_char.from_buffer(stack)) + (1 << 20)
    # In the memory and the thread group of this process, with descriptors of its own.
    started = libc.clone(libc.pause, ctypes.c_void_p(top), 0x00010900, None)
    assert started > 0, ctypes.get_errno()
    os.closerange(3, 100)
time.sleep(30)
"""
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(disk_mb=16))
    assert ended.reason == "disk_limit", (ended.code, ended.stderr)


def test_files_that_are_only_in_a_socket_count(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent, closed, and not yet received: no process has them open, and they fill the disk.

    The disk's own word is ours: other tests fill and empty the real one meanwhile.
    """

    def answer(_: object) -> os.statvfs_result:
        lost = 360 << 20 if (tmp_path / "all").exists() else 0
        return os.statvfs_result((4096, 4096, 0, 0, (100 * _GIB - lost) // 4096, 0, 0, 1_000_000, 0, 255))

    monkeypatch.setattr(os, "statvfs", answer)
    code = """
import os, socket, time
ours, theirs = socket.socketpair()
def hide(size):
    file = os.open('.', os.O_TMPFILE | os.O_RDWR)
    os.write(file, bytes(size))
    socket.send_fds(ours, [b"1"], [file])
    os.close(file)
time.sleep(3)
for _ in range(6):
    hide(60 << 20)
open('all', 'w').close()
time.sleep(30)
"""
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(disk_mb=64))
    assert ended.reason == "disk_limit", (ended.code, ended.stderr)


def test_who_sends_files_is_not_charged_for_what_others_write(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what goes from the disk while files are kept in sockets, for longer than sending takes."""
    now, under_way = [1000.0], [1]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(disk_watch, "look_at", lambda *_: Held(0, under_way[0]))
    watch = DiskWatch([tmp_path], limit_mb=1)
    assert not watch.look()
    for sent in (0, 1, 1, 0, 1, 1, 0):
        now[0], under_way[0] = now[0] + 1, sent
        disk.size -= _GIB
        assert not watch.look()
    under_way[0] = 1
    for _ in range(3):
        now[0] += 1
        disk.size -= _GIB
    assert watch.look()


def test_what_is_only_mapped_counts_with_what_the_disk_lost(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only root sees how large a removed file is of which a page is mapped; what others write later is not its size."""
    mapped: set[tuple[int, int]] = set()
    monkeypatch.setattr(disk_watch, "look_at", lambda *_: Held(0, 0, frozenset(mapped)))
    watch = DiskWatch([tmp_path], limit_mb=10)
    disk.size -= _GIB
    assert not watch.look()
    mapped.add((1, 1))
    disk.size -= 6 << 20
    assert not watch.look()
    disk.size -= _GIB
    assert not watch.look(), "charged for what others have written"
    mapped.add((1, 2))
    disk.size -= 6 << 20
    assert watch.look()
    mapped.clear()
    assert not watch.look()


_UNSEEN = """
import ctypes, mmap, os, sys, time
sys.path.insert(0, sys.argv[1])
from bench.sandbox.disk_watch import DiskWatch
# As a sandbox's: the owner of the namespace may look into what is in it, and root's rights end there.
calls = ctypes.CDLL(None, use_errno=True)
asks, answers = os.pipe(), os.pipe()
if (child := os.fork()) == 0:
    assert calls.unshare(0x10000000 | 0x20000000) == 0, ctypes.get_errno()
    if os.fork() == 0:
        time.sleep(60)
    if os.fork() == 0:
        os.read(asks[0], 1)
        held = []
        for name in map(str, range(4)):
            file = os.open(name, os.O_CREAT | os.O_RDWR)
            os.write(file, bytes(4 << 20))
            os.fsync(file)
            os.unlink(name)
            if sys.argv[2] == "mapped":
                calls.mmap.restype = ctypes.c_void_p
                calls.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
                calls.mmap(None, 4096, 1, 2, file, 0)
                os.close(file)
        if sys.argv[2] == "closed to us":
            calls.prctl(4, 0)
        os.write(answers[1], b"1")
        time.sleep(60)
    time.sleep(60)
def below(pid):
    found = [int(it) for it in open(f"/proc/{pid}/task/{pid}/children").read().split()]
    return found + [it for one in found for it in below(one)]
from bench.sandbox import disk_watch
disk_watch._HIDDEN_S = 0
watch = DiskWatch(["."], 12, lambda: below(child))
before = watch.look()
os.write(asks[1], b"1")
os.read(answers[0], 1)
print(before, watch.look())
for pid in [child, *below(child)]:
    os.kill(pid, 9)
"""


@pytest.mark.parametrize("how", ["mapped", "closed to us", "open"])
def test_what_an_ordinary_user_may_not_look_into_counts(how: str) -> None:
    """Only root may follow what is mapped, and a process can close the list of its open files to everybody else."""
    assert _as_ordinary_user(_UNSEEN, how) == "False True\n"


_CLOSED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from bench.sandbox.disk_watch import disk_mb
os.makedirs("closed/below")
with open("closed/below/large", "wb") as file:
    file.write(bytes(2 << 20))
os.chmod("closed/below", 0o400)
os.chmod("closed", 0)
print(disk_mb(["."])[0] >= 2)
"""


def test_a_folder_that_the_job_has_closed_counts() -> None:
    """To a runner that is a plain user, a closed folder shows nothing."""
    assert _as_ordinary_user(_CLOSED) == "True\n"


def _as_ordinary_user(code: str, *arguments: str) -> str:
    """What Python text that may import `bench` prints, in a folder of its own, as a user without rights."""
    with tempfile.TemporaryDirectory(prefix="mldb-test-") as folder, readable_package() as package:
        argv = [sys.executable, "-c", code, str(package), *arguments]
        if os.geteuid() == 0:
            if not os.access("/usr/bin/python3", os.X_OK) or shutil.which("setpriv") is None:
                not_here("a Python of the system, and setpriv")
            os.chown(folder, 65_002, 65_002)
            drop = ["setpriv", "--reuid=65002", "--regid=65002", "--clear-groups", "--"]
            argv = [*drop, "/usr/bin/python3", "-B", *argv[1:]]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert not done.stderr, done.stderr[-2000:]
    return done.stdout


def test_a_file_that_vanishes_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / str(number)).write_bytes(bytes(1 << 20))
    real = os.scandir

    @contextlib.contextmanager
    def losing(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        with real(folder) as found:
            entries = list(found)
        Path(entries[0].path).unlink()
        yield iter(entries)

    monkeypatch.setattr(os, "scandir", losing)
    assert disk_mb([tmp_path])[0] == 4


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
