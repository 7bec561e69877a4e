"""The watch over one fork: its time, its memory, what it says, and how it ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.sandbox import Group, Witness

EndedBy = Literal["exit", "time", "starved", "memory", "answer", "outside"]
"""`starved`: over its wall time on a machine that was too busy with other work."""
_TICK_S = 0.02
_WITNESS_S = 2.0
END_S = 10.0
_MIB = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
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


class ForkWatch:
    """Reads what a fork says, and ends it at its limits."""

    def __init__(self, envelope: Envelope, group: Group | None, line: socket.socket, answers: int, log: int) -> None:
        self._envelope = envelope
        self._group = group
        self._line = line
        self._began = time.monotonic()
        self._witness, self._next_witness = Witness(1), self._began + _WITNESS_S
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
        elif self.seen.cpu_s > self._envelope.cpu_s:
            self._end("time")
        elif (now := time.monotonic()) - self._began > self._envelope.wall_s:
            self._end("starved" if self._counted() and self._witness.starved() else "time")
        elif now >= self._next_witness:
            self._next_witness = now + _WITNESS_S
            # It mostly awaits what it has started, so what it does itself says nothing.
            self._witness.look(runnable=True)

    def _counted(self) -> bool:
        """Whether the kernel counts the work that it awaits; one without a group awaits none of an agent's."""
        return not self._envelope.grouped or (self._group is not None and self._group.counts_cpu)

    def _end(self, by: EndedBy) -> None:
        if self._by is None:
            self._by = by
            self._patience = time.monotonic() + END_S
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
