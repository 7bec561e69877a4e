"""The runner's side of the fork server: work on an agent's bytes in a process that has limits and can be ended.

Time is the process's own CPU time, with a generous wall clock behind it for waiting. Memory is capped by a control
group where one can be made, and looked at many times a second everywhere. What it says and prints is bounded.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from bench.base.child import log_tail
from bench.base.errors import InfraError
from bench.judge.fork_watch import END_S, Ended, Envelope, ForkWatch
from bench.sandbox import JobLimits, base_environment, new_group

_MOST_PROCESSES = 64
# One that is dead when it is asked, one that dies with the request, and a new one.
_MOST_SERVERS = 3


class ServerGone(Exception):
    """The server has ended, and a request did not reach it."""


class ForkServer:
    """One server process, started when it is first needed, and again when it was killed. For several threads."""

    def __init__(self, python: Path) -> None:
        self._python = python
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as this
        atexit.register(self.close)

    def send(self, module: str, orders: bytes, line: socket.socket, answers: int, log: int) -> None:
        """Ask for a fork; raises `ServerGone` when the server cannot be asked: another one serves the next request."""
        file = os.memfd_create("orders")
        try:
            os.write(file, orders)
            os.lseek(file, 0, os.SEEK_SET)
            control = self._started()
            try:
                socket.send_fds(control, [module.encode()], [file, line.fileno(), answers, log])
            except OSError as error:
                self._drop(control)
                raise ServerGone(f"it is gone: {error}") from None
        finally:
            os.close(file)

    def said(self) -> str:
        """The end of what the server itself has printed."""
        return log_tail(self._log)

    def _started(self) -> socket.socket:
        with self._lock:
            if self._control is not None and self._popen is not None and self._popen.poll() is None:
                return self._control
            self._close()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                env = base_environment(home="/nonexistent", tmp=tempfile.gettempdir(), python=self._python, cpus=1)
                self._popen = subprocess.Popen(
                    [str(self._python), "-I", "-B", "-c", "from bench.judge.server import main; main()"],
                    stdin=theirs.fileno(),
                    stdout=self._log,
                    stderr=self._log,
                    env=env,
                    cwd="/",
                    start_new_session=True,
                )
            self._control = ours
            return ours

    def _drop(self, control: socket.socket) -> None:
        """Give up the server behind `control`, unless another thread has done so."""
        with self._lock:
            if self._control is control:
                self._close()

    def close(self) -> None:
        """End the server and every fork of it."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        popen, self._popen = self._popen, None
        control, self._control = self._control, None
        if control is not None:
            control.close()
        if popen is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(END_S)
                return
            popen.kill()
            popen.wait()


@functools.cache
def _server(python: Path) -> ForkServer:
    return ForkServer(python)


def end_judges(python: Path = Path(sys.executable)) -> None:
    """End the server of this process and wait for it; the next fork starts another."""
    _server(python).close()


def run_fork(
    module: str,
    orders: Mapping[str, Any],
    envelope: Envelope,
    *,
    environment: Mapping[str, str],
    python: Path = Path(sys.executable),
) -> Ended:
    """Run `serve` of `module` in a fork within `envelope`; raises `InfraError` when it cannot be started.

    A killed server is noticed by its request alone, or looks alive and loses one, which has begun nothing then:
    the next server gets it.
    """
    server = _server(python)
    told = {**orders, "environment": dict(environment)}
    said = ""
    for _ in range(_MOST_SERVERS):
        try:
            ended, forked = _fork(server, module, told, envelope)
        except ServerGone as error:
            said = str(error)
            continue
        if forked:
            return ended
        if said := ended.log:
            break
    raise InfraError("judge_killed", f"the judge's server did not fork: {said or server.said()}"[:2000])


def _fork(server: ForkServer, module: str, orders: Mapping[str, Any], envelope: Envelope) -> tuple[Ended, bool]:
    """How one request ended, and whether there was a fork; without one the log says why, if the server did."""
    limits = JobLimits(envelope.wall_s, envelope.memory_mb, os.cpu_count() or 1, _MOST_PROCESSES)
    group = new_group(limits) if envelope.grouped else None
    try:
        paths = [str(path) for path in group.paths] if group is not None else []
        told = json.dumps({**orders, "cgroup": paths}).encode()
        ours, theirs = socket.socketpair()
        with ours, _pipe() as (answers, answers_end), _pipe() as (log, log_end):
            with theirs:
                server.send(module, told, theirs, answers_end.fileno(), log_end.fileno())
            answers_end.close()
            log_end.close()
            watch = ForkWatch(envelope, group, ours, answers.fileno(), log.fileno())
            ended = watch.wait()
        return ended, bool(watch.seen.pid)
    finally:
        if group is not None:
            group.remove()


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    read, write = os.pipe()
    with os.fdopen(read, "rb", 0) as source, os.fdopen(write, "wb", 0) as target:
        yield source, target
