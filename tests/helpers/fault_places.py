"""Small and read-only disks, a clock that can be set, and damaged files: for tests of what the runner makes of them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path


class Mounts:
    """A mount namespace of its own, in which disks are small or read-only; nothing of it is seen outside."""

    def __init__(self) -> None:
        program = shutil.which("unshare")
        if program is None or shutil.which("nsenter") is None or os.getuid() != 0:
            raise OSError("a mount namespace needs root, unshare and nsenter")
        argv = [program, "--mount", "--propagation", "private", "sh", "-c", "echo up; exec sleep 900"]
        self._holder = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"up\n":
            raise OSError("this machine gives no mount namespace")

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()

    @property
    def prefix(self) -> list[str]:
        """Starts a command in here."""
        return ["nsenter", f"--target={self._holder.pid}", "--mount", "--"]

    @property
    def root(self) -> Path:
        """Where its files are seen from outside."""
        return Path(f"/proc/{self._holder.pid}/root")

    def mount(self, *arguments: str) -> None:
        subprocess.run([*self.prefix, "mount", *arguments], check=True, capture_output=True)

    def small_disk(self, place: Path, mb: int) -> None:
        self.mount("-t", "tmpfs", "-o", f"size={mb}m", "none", str(place))

    def read_only(self, place: Path) -> None:
        self.mount("--bind", str(place), str(place))
        self.mount("-o", "remount,bind,ro", str(place))

    def writable_again(self, place: Path) -> None:
        subprocess.run([*self.prefix, "umount", "--lazy", str(place)], check=True, capture_output=True)


@contextlib.contextmanager
def own_mounts() -> Iterator[Mounts]:
    mounts = Mounts()
    try:
        yield mounts
    finally:
        mounts.close()


def fill(folder: Path, leave_mb: float) -> Path:
    """Fill the disk of `folder` but for so much; returns the file that does it."""
    filler = folder / "filler"
    info = os.statvfs(folder)
    with filler.open("wb") as file:
        left = info.f_bavail * info.f_frsize - int(leave_mb * (1 << 20))
        with contextlib.suppress(OSError):
            while left > 0:
                left -= file.write(bytes(min(left, 1 << 20)))
    return filler


_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *offset;

__attribute__((constructor)) static void look(void) {
    int file = open(OFFSET_FILE, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        void *page = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) offset = page;
        close(file);
    }
}

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, now);
    if (status == 0 && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (place) *place = exact.tv_sec;
    return exact.tv_sec;
}
"""


class SettableClock:
    """The time of day of everything started in `mounts`, which can be set; the monotonic clock goes on as it does."""

    def __init__(self, folder: Path, mounts: Mounts) -> None:
        folder.mkdir()
        self._offset = folder / "offset"
        self.set(0)
        source, library = folder / "clock.c", folder / "clock.so"
        source.write_text(_CLOCK)
        define = f'-DOFFSET_FILE="{self._offset}"'
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", define, "-o", library, source, "-ldl"], check=True)
        # The loader's own list: it also holds for processes that get an environment of their own.
        shutil.copytree("/etc", folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
        (folder / "etc" / "ld.so.preload").write_text(f"{library}\n")
        mounts.mount("--bind", str(folder / "etc"), "/etc")

    def set(self, seconds: int) -> None:
        """By so much the time of day is ahead from now on."""
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))


# --- memory ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_memory() -> Iterator[Callable[[int, Callable[[], None]], None]]:
    """Takes a process into a control group with next to no memory, and lets it go on until the kernel kills it."""
    root = Path("/sys/fs/cgroup")
    first = (root / "memory").is_dir()
    folder = (root / "memory" if first else root) / f"mldb-fault.{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        limit = folder / ("memory.limit_in_bytes" if first else "memory.max")
        limit.write_text(str(1 << 20))
        counter = folder / ("memory.oom_control" if first else "memory.events")

        def take(pid: int, go_on: Callable[[], None]) -> None:
            (folder / "cgroup.procs").write_text(str(pid))
            go_on()
            until = time.monotonic() + 60
            while "oom_kill 0" in counter.read_text().splitlines() and time.monotonic() < until:
                time.sleep(0.001)
            limit.write_text("-1" if first else "max")

        yield take
    finally:
        until = time.monotonic() + 10
        while folder.exists() and time.monotonic() < until:
            with contextlib.suppress(OSError):
                folder.rmdir()
            time.sleep(0.02)


# --- damage ----------------------------------------------------------------------------------------------------------


def cut(path: Path, share: float = 0.5) -> None:
    """Only the first part of a file is left."""
    os.truncate(path, int(path.stat().st_size * share))


def flip(path: Path, at: int | None = None) -> None:
    """One bit of a file is another one; default: in its middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.write_bytes(data)
