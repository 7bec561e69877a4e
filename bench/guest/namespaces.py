"""A fork in namespaces of its own: nothing of it reaches the next one, neither in memory nor in the kernel.

The process that forks was made ready in a sandbox without ever meeting code of an agent's. Each of its forks leaves the
sandbox's namespaces for new ones, sees new folders in memory, a new /proc and one folder of those that the sandbox can
see, and gives up the right to change any of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.guest import kernel
from bench.guest.kernel import Kernel

_NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)
_FROZEN = (
    "diskstats",
    "interrupts",
    "loadavg",
    "meminfo",
    "schedstat",
    "softirqs",
    "stat",
    "uptime",
    "vmstat",
)
"""Of /proc: counters of the whole machine, which one fork could drive and another read. Shown as they once were."""
_MASKED = (
    "buddyinfo",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "locks",
    "pagetypeinfo",
    "sched_debug",
    "slabinfo",
    "swaps",
    "sys/fs/aio-nr",
    "sys/fs/dentry-state",
    "sys/fs/epoll/max_user_watches",
    "sys/fs/file-nr",
    "sys/fs/inode-nr",
    "sys/fs/inode-state",
    "sys/kernel/pty/nr",
    "sys/kernel/random/entropy_avail",
    "sysrq-trigger",
    "timer_list",
    "vmallocinfo",
    "zoneinfo",
)
_HIDDEN = ("acpi", "asound", "driver", "fs", "irq", "pressure", "scsi", "sysvipc", "tty")
"""Folders of /proc."""
_COVERED = ("/run/bench/proc", "/sys/fs/cgroup", "/dev/mqueue", "/dev/pts", "/dev/hugepages")
_OPTIONS: Mapping[str, int] = {
    "nosuid": kernel.MS_NOSUID,
    "nodev": kernel.MS_NODEV,
    "noexec": kernel.MS_NOEXEC,
    "noatime": kernel.MS_NOATIME,
    "nodiratime": kernel.MS_NODIRATIME,
    "relatime": kernel.MS_RELATIME,
}
_SAFE = kernel.MS_NOSUID | kernel.MS_NODEV


@dataclass(frozen=True)
class View:
    """What a fork sees of the sandbox's files."""

    workspace: str
    """Folder below `arena` that it finds at `place`."""
    place: str
    arena: str
    """Where the sandbox sees all workspaces; the fork sees nothing there."""
    private: Sequence[str]
    """Folders that are new and empty."""
    private_mb: int
    devices: Mapping[str, str]
    """By its place in /dev, where the sandbox keeps the device node that belongs there."""
    writable: bool = False
    """The fork may write its workspace."""


def machine_counters() -> dict[str, bytes]:
    """What /proc says of the machine now."""
    found = {}
    for name in _FROZEN:
        try:
            with open(f"/proc/{name}", "rb") as file:
                found[name] = file.read(1 << 20)
        except OSError:
            continue
    return found


def leave_namespaces(calls: Kernel) -> None:
    """Enter new namespaces of every kind, as the same user; the next fork is the first process of the new ones."""
    uid, gid = os.geteuid(), os.getegid()
    calls.unshare(_NAMESPACES)
    # Otherwise /proc gives what follows to root.
    calls.prctl(kernel.PR_SET_DUMPABLE, 1)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def make_view(calls: Kernel, view: View, counters: Mapping[str, bytes]) -> None:
    """Mount what the fork sees. Called by the first process of the new namespaces."""
    calls.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    calls.mount(f"{view.arena}/{view.workspace}", view.place, "", kernel.MS_BIND)
    _empty(calls, view.arena)
    for folder in view.private:
        _renew(calls, folder, view.private_mb)
    # CUDA asks there which GPUs exist.
    _mount_proc(calls, view.private[0], counters, shown={"driver"} if view.devices else set())
    for place, kept in view.devices.items():
        calls.mount(kept, place, "", kernel.MS_BIND)
    for folder in _COVERED:
        if os.path.isdir(folder):
            _empty(calls, folder)
    _close_writable(calls, {*view.private, view.place} if view.writable else {*view.private})
    kernel.raise_loopback()


def _renew(calls: Kernel, folder: str, size_mb: int) -> None:
    """A new file system at `folder`; what the sandbox has mounted below it, such as an interpreter, is there again."""
    below = [place for place, _ in _mounts() if place.startswith(f"{folder}/")]
    held = {place: os.open(place, os.O_PATH) for place in below}
    calls.mount("tmpfs", folder, "tmpfs", _SAFE, f"size={size_mb}m,mode=0755")
    for place, descriptor in held.items():
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            os.makedirs(place)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444))
        calls.mount(f"/proc/self/fd/{descriptor}", place, "", kernel.MS_BIND)
        os.close(descriptor)


def _empty(calls: Kernel, folder: str) -> None:
    calls.mount("tmpfs", folder, "tmpfs", _SAFE | kernel.MS_NOEXEC | kernel.MS_RDONLY, "size=4k,mode=0755")


def _mount_proc(calls: Kernel, room: str, counters: Mapping[str, bytes], shown: set[str]) -> None:
    safe = _SAFE | kernel.MS_NOEXEC
    calls.mount("proc", "/proc", "proc", safe | kernel.MS_RDONLY)
    for name, text in counters.items():
        _freeze(calls, f"/proc/{name}", f"{room}/.frozen", text)
    for name in _MASKED:
        if os.path.exists(f"/proc/{name}"):
            calls.mount("/dev/null", f"/proc/{name}", "", kernel.MS_BIND)
    for name in _HIDDEN:
        if name not in shown and os.path.isdir(f"/proc/{name}"):
            _empty(calls, f"/proc/{name}")


def _freeze(calls: Kernel, place: str, temporary: str, text: bytes) -> None:
    """Put a file that is nowhere else at `place`: it is mounted, and then its name is removed."""
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o444)
    os.write(descriptor, text)
    os.close(descriptor)
    calls.mount(temporary, place, "", kernel.MS_BIND)
    os.unlink(temporary)


def _close_writable(calls: Kernel, kept: set[str]) -> None:
    """Make every mount read-only but those in `kept`, devices included, whose times are a way to leave a word."""
    for place, options in _mounts():
        if place in kept or "ro" in options:
            continue
        flags = sum(flag for name, flag in _OPTIONS.items() if name in options)
        calls.mount("none", place, "", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | flags)
    open_still = [place for place, options in _mounts() if "ro" not in options and place not in kept]
    if open_still:
        raise OSError(f"still writable: {', '.join(sorted(open_still))}")


def _mounts() -> Iterator[tuple[str, list[str]]]:
    """The topmost mount at each place that can be reached, and its options."""
    found: dict[str, list[str]] = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words = line.split()
            place = words[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
            found[place] = words[5].split(",")
    yield from found.items()
