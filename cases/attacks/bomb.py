"""Using up the machine. Every bomb stops by itself well above the limit that should have ended it."""

from __future__ import annotations

import ctypes
import os
import time

import facts

_LIMITS = facts.FACTS["limits"]
_HARD_MEMORY_MB = 4096
_FLOOD_BYTES = 10 * 10**9


def forks() -> None:
    """Processes that make processes, up to four times as many as are allowed."""
    most = 4 * _LIMITS["processes"]
    made = 0
    until = time.monotonic() + 10
    while made < most and time.monotonic() < until:
        try:
            pid = os.fork()
        except OSError:
            facts.say("full", processes=made)
            break
        if pid == 0:
            time.sleep(10)
            os._exit(0)
        made += 1
    facts.say("made", processes=made)
    time.sleep(2)
    if made == most:
        facts.reached(f"{made} processes lived for two seconds where {_LIMITS['processes']} are allowed")


def memory() -> None:
    """Memory that is really used, up to twice the limit, shared over several processes."""
    most = min(2 * _LIMITS["memory_mb"], _HARD_MEMORY_MB)
    per_child = most // 4
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            held = []
            for number in range(per_child):
                held.append(bytearray(os.urandom(4096)) * 256)
                if number % 64 == 0:
                    facts.say("held", megabytes=number)
            time.sleep(2)
            os._exit(7)
        children.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    if all(os.waitstatus_to_exitcode(status) == 7 for status in statuses):
        facts.reached(f"{most} MiB were held for two seconds where {_LIMITS['memory_mb']} are allowed")


def shared_memory() -> None:
    """Memory that belongs to no process: files in memory and segments that nobody maps."""
    most = min(2 * _LIMITS["memory_mb"], _HARD_MEMORY_MB)
    block = os.urandom(1 << 20)
    handles = []
    made = 0
    until = time.monotonic() + 8
    for number in range(most):
        if number % 64 == 0:
            handles.append(os.memfd_create(f"bomb-{number}"))
        try:
            os.write(handles[-1], block)
        except OSError:
            break
        made += 1
        if time.monotonic() > until:
            break
        if number % 64 == 0:
            facts.say("held", megabytes=made)
    time.sleep(2)
    if made == most:
        facts.reached(f"{made} MiB of files in memory were held where {_LIMITS['memory_mb']} are allowed")


def disk() -> None:
    """Files up to three times the disk limit, in the workspace and beside it."""
    block = os.urandom(1 << 20)
    most = 3 * _LIMITS["disk_mb"]
    made = 0
    for number in range(most):
        folder = (facts.WORKSPACE, facts.OUT)[number % 2]
        try:
            with open(folder / f"fill-{number // 32}", "ab") as file:
                file.write(block)
            made += 1
        except OSError:
            break
        time.sleep(0.001)
    facts.say("wrote", megabytes=made)
    time.sleep(3)
    if made == most:
        facts.reached(f"{made} MiB were kept for three seconds where {_LIMITS['disk_mb']} are allowed")


def reserved() -> None:
    """Room on the runner's disk that is taken without writing: all of it would be gone before any watch looks."""
    number = {"x86_64": 285, "aarch64": 47}[os.uname().machine]
    size = _LIMITS["disk_mb"] << 20
    taken = 0
    for place in (facts.WORKSPACE / "reserved-1", facts.OUT / "reserved-2", facts.WORKSPACE / "reserved-3"):
        with open(place, "wb") as file:
            refused = ctypes.CDLL(None).syscall(
                ctypes.c_long(number), file.fileno(), 0, ctypes.c_long(0), ctypes.c_long(size)
            )
            taken += not refused
        os.truncate(place, 0)
    facts.say("reserved", files=taken)
    if taken:
        facts.reached(f"{taken} files of {_LIMITS['disk_mb']} MiB were reserved at once")


def temporary_folders() -> None:
    """The folders that only the sandbox has: temporary files, home, memory files."""
    block = os.urandom(1 << 20)
    for folder in ("/tmp", os.path.expanduser("~"), "/dev/shm", "/run", "/var/tmp"):
        made = 0.0
        place = os.path.join(folder, facts.FACTS["token"])
        try:
            with open(place, "ab", buffering=0) as file:
                # Removed at once and still there: it takes its room until it is closed.
                os.unlink(place)
                while made < 3 * _LIMITS["disk_mb"]:
                    made += file.write(block) / len(block)
        except OSError as error:
            facts.say("refused", detail=f"{folder} after {made:.0f} MiB: {error}")
            continue
        facts.reached(f"{folder} took {made:.0f} MiB where {_LIMITS['disk_mb']} are allowed")


def flood() -> None:
    """Ten gigabytes on standard output, or as much as is taken."""
    block = (b"flood " * 171 + b"\n") * 64
    written = 0
    while written < _FLOOD_BYTES:
        written += os.write(1, block)
    facts.reached(f"{written} bytes of output were taken")


def sleep_on() -> None:
    """Deaf to all requests to end, asleep beyond the time."""
    import signal

    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    time.sleep(_LIMITS["agent_s"] + 30)
    facts.reached("the time went by unnoticed")


def busy() -> None:
    """Threads and processes that keep every core busy beyond the time."""
    for _ in range(3):
        if os.fork() == 0:
            until = time.monotonic() + _LIMITS["agent_s"] + 20
            while time.monotonic() < until:
                sum(range(10_000))
            os._exit(0)
    time.sleep(_LIMITS["agent_s"] + 30)
    facts.reached("the time went by unnoticed")
