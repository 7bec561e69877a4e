"""How a started job is seen and ended from outside: the part of watching that differs between back ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bench.guest.first_process import descendants, network_counters, read_report
from bench.sandbox.cgroup import Group
from bench.sandbox.job import EndReason, NetworkAttempts
from bench.sandbox.memory_watch import MemoryWatch

_REPORT_BYTES = 4096
_END_S = 5.0


class StatusPipe:
    """A pipe on which the first process of the guest says that it runs, and at the end what it has seen.

    It belongs to that process alone: the job's command does not inherit it.
    """

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self._read, False)
        self._said = b""

    def close(self) -> None:
        self._listen()
        os.close(self._read)
        self._read = -1

    def came_up(self) -> bool:
        return bool(self._listen())

    def report(self) -> dict[str, int]:
        """What it has told of the end; nothing when it was killed before it could."""
        return read_report(self._listen().partition(b"\n")[2])

    def _listen(self) -> bytes:
        """Everything that was said so far: a line when it came up, and the report."""
        with contextlib.suppress(BlockingIOError):
            while self._read >= 0 and (part := os.read(self._read, _REPORT_BYTES)):
                self._said = (self._said + part)[:_REPORT_BYTES]
        return self._said


class TreeControl:
    """A job that is a tree of processes below the one that was started."""

    def __init__(self, status: StatusPipe, popen: subprocess.Popen[bytes], isolated: bool, group: Group | None) -> None:
        self._group = group
        self._status = status
        self._popen = popen
        self._isolated = isolated
        self._seen = NetworkAttempts()
        self._memory = MemoryWatch(self.processes)
        self._cpu_s = 0.0

    def came_up(self) -> bool:
        return self._status.came_up()

    def seen_status(self) -> int | None:
        return self._status.report().get("status")

    def processes(self) -> Sequence[int]:
        if self._group is not None:
            return [pid for pid in self._group.processes() if pid != self._popen.pid]
        return descendants(self._popen.pid)

    def memory_mb(self, limit_mb: float) -> float:
        if self._group is not None and self._group.counts_memory:
            return self._group.memory_mb()
        return self._memory.mb(limit_mb)

    def cpu_s(self) -> float | None:
        counted = self._group.cpu_s() if self._group is not None else None
        if counted is None:
            counted = cpu_s([self._popen.pid, *descendants(self._popen.pid)])
        self._cpu_s = max(self._cpu_s, counted)
        return self._cpu_s

    def counts_cpu(self) -> bool:
        # What is not isolated can leave its group.
        return self._isolated and self._group is not None and self._group.counts_cpu

    def groups_beside(self) -> Sequence[Path]:
        return []

    def limit_hit(self) -> EndReason | None:
        return None if self._group is None else self._group.limit_hit()

    def network_attempts(self) -> NetworkAttempts:
        said = self._status.report()
        return self._seen | NetworkAttempts(int(said.get("addresses", 0)), int(said.get("names", 0)))

    def end(self) -> None:
        if self._popen.poll() is not None:
            self._end_half()
            return
        if self._isolated:
            # The child of bubblewrap is PID 1 of the namespace: with it every other process there is gone.
            first = descendants(self._popen.pid)[:1]
            for pid in first:
                # Read from outside: a first process that is about to be killed reports nothing.
                self._seen |= NetworkAttempts(*network_counters(f"/proc/{pid}/net"))
            for pid in first or [self._popen.pid]:
                send_signal(pid, signal.SIGKILL)
        else:
            send_signal(self._popen.pid, signal.SIGTERM)
        try:
            self._popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            for pid in [*descendants(self._popen.pid), self._popen.pid]:
                send_signal(pid, signal.SIGKILL)
            self._popen.wait()

    def _end_half(self) -> None:
        """Bubblewrap killed while it starts leaves its other half standing still, in the group that was ours."""
        if self._isolated and self._popen.returncode < 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)


def send_signal(pid: int, number: int) -> None:
    """Signal a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def cpu_s(pids: Iterable[int]) -> float:
    """Seconds of CPU time of these processes and of their children that ended and were waited for.

    An estimate: what a process used whose end its parent ignores, or which left the tree, is missing.
    """
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program, in brackets, may hold anything.
            ticks += sum(map(int, file.read().rpartition(b")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


MOST_NAMES = 100
"""Of one job; further ones are counted together."""
OTHERS = "others"
_LONGEST_NAME = 100
_LARGEST_QUERY = 4096
_HEADER = 12
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LOOK_S = 0.1


def asked_name(query: bytes) -> str | None:
    """The name in a DNS query, in lower case, bytes that no name has as `?`; None where it cannot be read."""
    labels: list[str] = []
    at = _HEADER
    while at < len(query) and (size := query[at]):
        label = query[at + 1 : at + 1 + size].lower()
        if size > 63 or len(label) < size:
            return None
        labels.append("".join(chr(byte) if byte in _PLAIN else "?" for byte in label))
        at += size + 1
    if at >= len(query) or not labels:
        return None
    name = ".".join(labels)
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


class NameQueries:
    """The names that a job asks a name server for: answered inside with "no such name", listed out here.

    A sandbox without a network has no name server either. The first process stands in for one and passes each query on
    to the Unix socket `path`, where this listens while it is open. Where the kernel gives nobody a port that low,
    queries are only counted. Nothing that is asked leaves this machine: what somebody smuggles in a name ends in the
    list.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: Counter[str] = Counter()
        self._open = True
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> NameQueries:
        self.path.unlink(missing_ok=True)
        self._socket.bind(os.fspath(self.path))
        self.path.chmod(0o600)
        self._socket.settimeout(_LOOK_S)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._open = False
        self._thread.join()
        self._socket.close()
        self.path.unlink(missing_ok=True)

    def counts(self) -> Mapping[str, int]:
        """How many queries there were for each name, in the order of the first; whole after the end."""
        return dict(self._seen)

    def _listen(self) -> None:
        while True:
            try:
                query = self._socket.recv(_LARGEST_QUERY)
            except TimeoutError:
                # Only when nothing is left of what was sent before the end.
                if not self._open:
                    return
                continue
            name = asked_name(query)
            if name is not None:
                known = name in self._seen or len(self._seen) < MOST_NAMES
                self._seen[name if known else OTHERS] += 1
