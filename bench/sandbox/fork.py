"""One fork of a warm process as its asker sees it: a process with streams, in a control group of its own.

Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from bench.base.errors import InfraError
from bench.guest.first_process import descendants
from bench.sandbox.cgroup import CPU_TIME, Group
from bench.sandbox.cgroup_files import write_file
from bench.sandbox.cgroup_location import new_group
from bench.sandbox.control import cpu_s
from bench.sandbox.docker.control import group_of, memberships
from bench.sandbox.job import EndReason, JobLimits, NetworkAttempts
from bench.sandbox.memory_watch import MemoryWatch
from bench.sandbox.starvation import groups_like

_PACKET = 1 << 16
_START_S = 120.0
_END_S = 5.0
_CREDENTIALS = struct.Struct("3i")


class CannotFork(Exception):
    """The sandbox does not let a process fork into namespaces; the message is the kernel's."""


class Fork:
    """One fork as its asker sees it: a process with streams, and its control."""

    def __init__(self, limits: JobLimits, shared_hit: Callable[[], EndReason | None]) -> None:
        """shared_hit: the limit that the kernel has enforced on all that the warm process and its forks hold."""
        self._limits = limits
        self._shared_hit = shared_hit
        self._container: Path | None = None
        """Group of the container in which it was forked, if in one."""
        self._data, self._their_data = socket.socketpair()
        self._report, self._their_report = socket.socketpair()
        self._log, self._their_log = os.pipe()
        # The kernel then tells who sends, by the id that the process has here.
        for connection in (self._data, self._report):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.pid = 0
        self._guard = -1
        self.stdin: IO[bytes] = self._data.makefile("wb")
        self.stdout: IO[bytes] = self._data.makefile("rb")
        self.stderr: IO[bytes] = os.fdopen(self._log, "rb", buffering=0)
        self._group: Group | None = None
        self._said = b""
        self._over = False
        self._counted = False
        self._memory = MemoryWatch(self.processes)
        self._cpu_s = 0.0
        self._hit: EndReason | None = None

    def ask(self, requests: socket.socket, order: dict[str, Any], services: Mapping[str, Path]) -> None:
        theirs = [self._their_data.fileno(), self._their_report.fileno(), self._their_log]
        # A handle of the socket's file, by which the fork's guard connects: no path in the sandbox leads to it.
        doors = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in services.values()]
        order = {**order, "services": list(services)}
        try:
            socket.send_fds(requests, [json.dumps(order).encode()], [*theirs, *doors])
        except OSError as error:
            raise InfraError("sandbox_error", f"the judge's warm process is gone: {error}") from None
        finally:
            for door in doors:
                os.close(door)
            self._their_data.close()
            self._their_report.close()
            os.close(self._their_log)

    def enter(self, isolated: bool, *, contained: bool = False) -> None:
        """Wait until the fork stands in its namespaces, and put it into its group before it does anything.

        contained: it is forked in a container of an engine.
        """
        guard = self._sender(self._report)
        with contextlib.suppress(OSError):
            self._guard = os.pidfd_open(guard)
        self.pid = self._sender(self._data)
        if self.pid == 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(_END_S)
            facts = self._facts()
            if facts.get("missing"):
                raise RuntimeError(f"the case's environment lacks what it preloads: {'; '.join(facts['missing'])}")
            if "fault" not in facts:
                raise InfraError("sandbox_error", "the judge's warm process did not come up, or has ended")
            raise CannotFork(str(facts["fault"]))
        if contained and (container := group_of(memberships(self.pid), 0)) is not None:
            self._container = container.folders.get(CPU_TIME)
        self._group = new_group(self._limits) if self.pid > 0 else None
        if self._group is not None:
            try:
                for folder in self._group.paths:
                    write_file(folder / "cgroup.procs", str(self.pid))
            except OSError:
                self._group.remove()
                self._group = None
        # Where nothing isolates, a process can leave its group.
        self._counted = isolated and self._group is not None and self._group.counts_cpu
        self._data.send(b"!")

    def _sender(self, connection: socket.socket) -> int:
        """Who sends the next byte of it, by the id that the process has here; 0 when it ends or is not known here."""
        if not select.select([connection], [], [], _START_S)[0]:
            return 0
        said, control, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size), socket.MSG_DONTWAIT)
        if connection is self._report:
            self._said = said
        for level, kind, content in control if said else ():
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                return int(_CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0])
        return 0

    def poll(self) -> int | None:
        """Its status when its guard has ended everything, None before."""
        with contextlib.suppress(BlockingIOError):
            while not self._over:
                part = self._report.recv(_PACKET, socket.MSG_DONTWAIT)
                self._said = (self._said + part)[:_PACKET]
                self._over = not part
        if not self._over:
            return None
        seen = self.seen_status()
        return -signal.SIGKILL if seen is None else seen

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises `TimeoutExpired` after `timeout` seconds."""
        until = time.monotonic() + (_END_S if timeout is None else timeout)
        while (status := self.poll()) is None:
            left = until - time.monotonic()
            if left < 0:
                raise subprocess.TimeoutExpired("fork", timeout or _END_S)
            select.select([self._report], [], [], left)
        return status

    def _facts(self) -> dict[str, Any]:
        try:
            facts = json.loads(self._said)
        except ValueError:
            return {}
        return facts if isinstance(facts, dict) else {}

    def came_up(self) -> bool:
        return self.pid > 0

    def seen_status(self) -> int | None:
        status = self._facts().get("status")
        return None if status is None else int(status)

    def processes(self) -> Sequence[int]:
        if self._group is not None:
            return self._group.processes()
        return [] if self.poll() is not None else [self.pid, *descendants(self.pid)]

    def memory_mb(self, limit_mb: float) -> float:
        if self._group is not None and self._group.counts_memory:
            return self._group.memory_mb()
        return self._memory.mb(limit_mb)

    def cpu_s(self) -> float | None:
        counted = self._group.cpu_s() if self._group is not None else None
        if counted is None:
            counted = max(cpu_s(self.processes()), float(self._facts().get("cpu_s", 0.0)))
        self._cpu_s = max(self._cpu_s, counted)
        return self._cpu_s

    def counts_cpu(self) -> bool:
        return self._counted

    def groups_beside(self) -> Sequence[Path]:
        return [] if self._container is None else groups_like(self._container)

    def limit_hit(self) -> EndReason | None:
        if self._hit is None:
            self._hit = self._group.limit_hit() if self._group is not None else self._shared_hit()
        return self._hit

    def network_attempts(self) -> NetworkAttempts:
        facts = self._facts()
        return NetworkAttempts(int(facts.get("addresses", 0)), int(facts.get("names", 0)))

    def end(self) -> None:
        """Have the guard end the call, and wait for it."""
        if self.poll() is None:
            with contextlib.suppress(OSError):
                self._report.shutdown(socket.SHUT_WR)
            try:
                self.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._kill()
        self.cpu_s()
        self.limit_hit()

    def _kill(self) -> None:
        """End a guard that does not: with the first process of its namespaces everything in them ends."""
        if self._guard >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._guard, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(_END_S)

    def release(self) -> None:
        """End it and close everything."""
        self.end()
        if self._group is not None:
            self._group.remove()
        with contextlib.suppress(OSError):
            self.stdin.close()
        self.stdout.close()
        self.stderr.close()
        self._data.close()
        self._report.close()
        if self._guard >= 0:
            os.close(self._guard)
