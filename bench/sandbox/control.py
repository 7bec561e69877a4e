"""How a started job is seen and ended from outside: the part of watching that differs between back ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any, Protocol

from bench.inside.init import descendants, network_counters
from bench.sandbox.group import Group
from bench.sandbox.job import Attempts, EndReason
from bench.sandbox.measure import memory_mb

_REPORT_BYTES = 4096
_END_S = 5.0


class Control(Protocol):
    """One started job, from outside."""

    def came_up(self) -> bool:
        """Whether the first process of the sandbox ran: told in a way that the job's command never sees."""
        ...

    def saw_end(self) -> bool:
        """Whether the first process of the sandbox was there when its command ended: it was not killed before."""
        ...

    def processes(self) -> Sequence[int]:
        """The job's processes, by their ids on this machine."""
        ...

    def memory_mb(self, limit_mb: float) -> float:
        """MiB of memory that the job holds; need be exact only near and above the limit."""
        ...

    def limit_hit(self) -> EndReason | None:
        """The limit that the kernel has enforced on the job, if any."""
        ...

    def attempts(self) -> Attempts:
        """Tries to reach a network so far; still known after the end."""
        ...

    def end(self) -> None:
        """End every process of the job and wait until none is left; harmless when there is none."""
        ...

    def release(self) -> None:
        """Give back what was made for the job on this machine; once, after the end."""
        ...


class StatusPipe:
    """A pipe on which the first process inside says that it runs, and at the end what it has seen.

    It belongs to that process alone: the job's command does not inherit it.
    """

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self._read, False)
        self._said = b""

    def started(self) -> None:
        """The writing end is the child's from now on."""
        os.close(self.write)

    def abandon(self) -> None:
        """Nothing was started."""
        os.close(self.write)
        self.close()

    def close(self) -> None:
        self._listen()
        os.close(self._read)
        self._read = -1

    def came_up(self) -> bool:
        self._listen()
        return bool(self._said)

    def saw_end(self) -> bool:
        self._listen()
        return bool(self._said.partition(b"\n")[2])

    def attempts(self) -> Attempts:
        """What it reported; nothing when it was killed before it could."""
        self._listen()
        report = self._said.partition(b"\n")[2]
        try:
            said: Any = json.loads(report)
            return Attempts(int(said["addresses"]), int(said["names"]))
        except (ValueError, KeyError, TypeError):
            return Attempts()

    def _listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._read >= 0 and (part := os.read(self._read, _REPORT_BYTES)):
                self._said = (self._said + part)[:_REPORT_BYTES]


class TreeControl:
    """A job that is a tree of processes below the one that was started."""

    def __init__(
        self, status: StatusPipe, popen: subprocess.Popen[bytes], isolated: bool, group: Group | None = None
    ) -> None:
        self._group = group
        self._status = status
        self._popen = popen
        self._isolated = isolated
        self._seen = Attempts()

    def came_up(self) -> bool:
        return self._status.came_up()

    def saw_end(self) -> bool:
        return self._status.saw_end()

    def processes(self) -> Sequence[int]:
        if self._group is not None:
            return [pid for pid in self._group.processes() if pid != self._popen.pid]
        return descendants(self._popen.pid)

    def memory_mb(self, limit_mb: float) -> float:
        if self._group is not None and self._group.counts_memory:
            return self._group.memory_mb()
        return memory_mb(self.processes(), limit_mb)

    def limit_hit(self) -> EndReason | None:
        return None if self._group is None else self._group.limit_hit()

    def attempts(self) -> Attempts:
        return self._seen | self._status.attempts()

    def end(self) -> None:
        if self._popen.poll() is not None:
            self._end_half()
            return
        if self._isolated:
            # The child of bubblewrap is PID 1 of the namespace: with it every other process there is gone.
            first = descendants(self._popen.pid)[:1]
            self._look(first)
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

    def release(self) -> None:
        self._status.close()
        if self._group is not None:
            self._group.remove()

    def _end_half(self) -> None:
        """Bubblewrap killed while it starts leaves its other half standing still, in the group that was ours."""
        if self._isolated and self._popen.returncode < 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def _look(self, first: Sequence[int]) -> None:
        """Read the counters from outside: who is about to be killed reports nothing."""
        for pid in first:
            self._seen |= Attempts(*network_counters(f"/proc/{pid}/net"))


def send_signal(pid: int, number: int) -> None:
    """Signal a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
