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
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from bench.base.child import log_tail
from bench.base.errors import InfraError
from bench.sandbox import Group, JobLimits, base_environment, new_group

EndedBy = Literal["exit", "time", "memory", "answer", "outside"]
_TICK_S = 0.02
_END_S = 10.0
_MIB = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_MOST_PROCESSES = 64
_OWN_SIGNALS = frozenset(
    {signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS}
)
"""A process meets these by what it does itself."""
# Of its memory when it was killed: nearer to its cap than this, the kernel did it for that reason.
_NEAR = 0.9


@dataclass(frozen=True)
class Envelope:
    """Limits of one fork. Times in seconds, memory in MiB."""

    cpu_s: float
    """Of the process itself, not of the sandboxes that it starts."""
    wall_s: float
    memory_mb: int
    answer_bytes: int = 16 * _MIB
    log_bytes: int = 8000
    grouped: bool = True
    """In a control group of its own, so that the kernel holds the cap; otherwise its memory is only looked at."""


@dataclass(frozen=True)
class Ended:
    """How a fork ended, and what it had said by then."""

    by: EndedBy
    """`exit`: by itself, also by a signal of its own making; `outside`: by a signal that is not from here."""
    code: int
    """Exit status, or -n for signal n."""
    answer: bytes
    log: str
    cpu_s: float


@dataclass
class _Seen:
    """What is known of a fork at work."""

    pid: int = 0
    code: int | None = None
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    answer: bytearray = field(default_factory=bytearray)
    log: bytearray = field(default_factory=bytearray)
    line: bytearray = field(default_factory=bytearray)


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
        """Ask for a fork; raises `InfraError` when the server cannot be reached."""
        file = os.memfd_create("orders")
        try:
            os.write(file, orders)
            os.lseek(file, 0, os.SEEK_SET)
            for attempt in (1, 2):
                control = self._started()
                try:
                    socket.send_fds(control, [module.encode()], [file, line.fileno(), answers, log])
                    return
                except OSError as error:
                    if attempt == 2:
                        raise InfraError("judge_killed", f"the judge's server is gone: {error}") from None
                    self._drop(control)
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
                popen.wait(_END_S)
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
    """Run `serve` of `module` in a fork within `envelope`; raises `InfraError` when it cannot be started."""
    server = _server(python)
    limits = JobLimits(envelope.wall_s, envelope.memory_mb, os.cpu_count() or 1, _MOST_PROCESSES)
    group = new_group(limits) if envelope.grouped else None
    try:
        paths = [str(path) for path in group.paths] if group is not None else []
        told = json.dumps({**orders, "environment": dict(environment), "cgroup": paths}).encode()
        ours, theirs = socket.socketpair()
        with ours, _pipe() as (answers, answers_end), _pipe() as (log, log_end):
            with theirs:
                server.send(module, told, theirs, answers_end.fileno(), log_end.fileno())
            answers_end.close()
            log_end.close()
            watch = _Watch(envelope, group, ours, answers.fileno(), log.fileno())
            ended = watch.wait()
        if not watch.seen.pid:
            said = ended.log or server.said()
            raise InfraError("judge_killed", f"the judge's server did not fork: {said}"[:2000])
        return ended
    finally:
        if group is not None:
            group.remove()


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    read, write = os.pipe()
    with os.fdopen(read, "rb", 0) as source, os.fdopen(write, "wb", 0) as target:
        yield source, target


class _Watch:
    """Reads what a fork says, and ends it at its limits."""

    def __init__(self, envelope: Envelope, group: Group | None, line: socket.socket, answers: int, log: int) -> None:
        self._envelope = envelope
        self._group = group
        self._line = line
        self._began = time.monotonic()
        self._by: EndedBy | None = None
        self._patience = float("inf")
        self.seen = _Seen()
        self._streams = {line.fileno(): self.seen.line, answers: self.seen.answer, log: self.seen.log}

    def wait(self) -> Ended:
        with selectors.DefaultSelector() as selector:
            for descriptor in self._streams:
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ)
            next_look = self._began + _TICK_S
            # Without its line the server is gone, and with it the fork.
            while self._line.fileno() in selector.get_map() and not self._is_over():
                for key, _ in selector.select(max(0.0, next_look - time.monotonic())):
                    if not self._read(key.fd):
                        selector.unregister(key.fd)
                if time.monotonic() >= next_look:
                    next_look = time.monotonic() + _TICK_S
                    self._look()
        for descriptor in self._streams:
            while self._read(descriptor):
                continue
        return self._ended()

    def _is_over(self) -> bool:
        return self.seen.code is not None or time.monotonic() >= self._patience

    def _read(self, descriptor: int) -> bool:
        """Take what is there; False at the end, or when nothing more is there."""
        try:
            data = os.read(descriptor, 1 << 16)
        except (BlockingIOError, ConnectionResetError):
            return False
        kept = self._streams[descriptor]
        kept += data
        if kept is self.seen.log and len(kept) > 2 * self._envelope.log_bytes:
            del kept[: -self._envelope.log_bytes]
        elif kept is self.seen.answer and len(kept) > self._envelope.answer_bytes:
            del kept[self._envelope.answer_bytes :]
            self._end("answer")
        elif kept is self.seen.line:
            self._understand()
        return bool(data)

    def _understand(self) -> None:
        for text in bytes(self.seen.line).split(b"\n")[:-1]:
            word, number = text.split()
            if word == b"forked":
                self.seen.pid = int(number)
            else:
                self.seen.code = int(number)

    def _look(self) -> None:
        if not self.seen.pid or self._by is not None:
            return
        try:
            stat = Path(f"/proc/{self.seen.pid}/stat").read_text(encoding="utf-8", errors="replace")
            pages = Path(f"/proc/{self.seen.pid}/statm").read_text(encoding="ascii").split()
        except OSError:
            return
        fields = stat.rpartition(")")[2].split()
        self.seen.cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
        held = (int(pages[1]) - int(pages[2])) * _PAGE / _MIB
        self.seen.peak_mb = max(self.seen.peak_mb, held)
        if held > self._envelope.memory_mb:
            self._end("memory")
        elif self.seen.cpu_s > self._envelope.cpu_s or time.monotonic() - self._began > self._envelope.wall_s:
            self._end("time")

    def _end(self, by: EndedBy) -> None:
        if self._by is None:
            self._by = by
            self._patience = time.monotonic() + _END_S
            with contextlib.suppress(OSError):
                self._line.send(b"end\n")

    def _ended(self) -> Ended:
        seen = self.seen
        code = -signal.SIGKILL if seen.code is None else seen.code
        by = self._by or "exit"
        if self._by is None and code < 0:
            full = self._group is not None and self._group.limit_hit() == "memory_limit"
            near = seen.peak_mb > _NEAR * self._envelope.memory_mb
            by = "memory" if full or near else "exit" if -code in _OWN_SIGNALS else "outside"
        log = bytes(seen.log[-self._envelope.log_bytes :]).decode("utf-8", "replace").strip()
        return Ended(by, code, bytes(seen.answer), log, seen.cpu_s)
