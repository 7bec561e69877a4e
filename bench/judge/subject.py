"""The judge's side of the subject: starts calls into the agent's code and reads their answers."""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.base.errors import InfraError
from bench.guest import codec
from bench.judge.deadline import Deadline, Timed, over_time, raise_starved
from bench.judge.hidden_files import Hidden, outgoing
from bench.sandbox import (
    CannotFork,
    CellEnvironment,
    Job,
    JobLimits,
    Mount,
    NetworkAttempts,
    Preparation,
    Running,
    Sandbox,
    Tail,
    TimeLimits,
    WarmProcess,
    start,
    start_warm,
)

_IMPORT_S = 10.0
_END_S = 2.0
_TICK_S = 0.1
_LOG_BYTES = 8000


class SubjectError(AssertionError):
    """The agent's code failed, took too long, or gave something that is not a value: a failed check."""


class Subject:
    """The agent's code at arm's length: every call is a process of its own, which meets nothing that another left.

    A call is a fork of a warm process, in namespaces and a control group of its own; where the sandbox lets no process
    make namespaces, a new sandbox, which imports everything again.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        snapshot: Path,
        preload: Sequence[str],
        limits: JobLimits,
        deadline: Deadline,
        cell_environment: CellEnvironment | None = None,
        warm: WarmProcess | None = None,
        services: Mapping[str, Path] | None = None,
    ) -> None:
        """warm: of another owner, for these libraries and limits and this folder; otherwise one is started at need.

        services: sockets that calls may reach, by the variable that tells where.
        """
        self._sandbox = sandbox
        self._snapshot = snapshot
        self._preload = tuple(preload)
        self._limits = limits
        self._deadline = deadline
        self._cell_environment = cell_environment or CellEnvironment()
        self._services = dict(services or {})
        self._warm = warm
        self._stack = contextlib.ExitStack()
        self._forks = True
        self._uncounted = False
        """Nothing counts the time of forks here."""
        self.network_attempts = NetworkAttempts()
        """Tries to reach a network by the code that was called."""

    def call(
        self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, timeout: float, driver: Hidden | None
    ) -> Any:
        """Value of the function `module:function` in the subject; raises `SubjectError`."""
        return self.timed_call(target, args, kwargs, timeout=timeout, driver=driver).value

    def timed_call(
        self,
        target: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        timeout: float,
        driver: Hidden | None,
        apart: bool = False,
        counted: bool = False,
    ) -> Timed:
        """Like `call`, with the CPU time that it took. timeout: seconds of CPU time on each processor.

        apart: the driver cannot import the workspace's modules. counted: in a sandbox of its own where the kernel does
        not count the time of a fork.
        """
        buffers: list[bytes] = []
        arguments = {
            "t": "dict",
            "v": {"args": outgoing(list(args), buffers), "kwargs": outgoing(kwargs, buffers)},
        }
        header: dict[str, Any] = {"target": target, "arguments": arguments, "apart": apart}
        if driver is not None:
            header["driver"] = len(buffers)
            buffers.append(driver.read_bytes())
        self._deadline.grant(timeout)
        with contextlib.ExitStack() as stack:
            running = self._start(stack, timeout, counted)
            exchange = _Exchange(running, target)
            try:
                answer, parts = exchange.ask(header, buffers)
            finally:
                running.stop()
                cpu_s, trusted = running.control.cpu_s() or 0.0, running.control.counts_cpu()
                self._deadline.spend(cpu_s, running.available_s)
                self.network_attempts += running.control.network_attempts()
            if answer.get("error") is not None:
                raise SubjectError(f"{target}: {str(answer['error'])[:500]}{exchange.printed()}")
        try:
            return Timed(codec.decode(answer.get("value"), parts, scalars=True), cpu_s, trusted)
        except codec.CodecError as error:
            raise SubjectError(f"{target}: answer cannot be read: {error}") from None

    def close(self) -> None:
        """End the warm process that was started here."""
        self._warm = None
        self._stack.close()

    def _start(self, stack: contextlib.ExitStack, timeout: float, counted: bool) -> Running:
        """A started call of at most `timeout` seconds that waits for its request."""
        if self._forks and not (counted and self._uncounted):
            try:
                running = self._fork(stack, timeout)
                self._uncounted = not running.control.counts_cpu()
                return self._cold(stack, timeout) if counted and self._uncounted else running
            except CannotFork:
                self._forks = False
            except InfraError:
                # What is not isolated can end the warm process: that is no more than the end of one call.
                self.close()
                return self._fork(stack, timeout)
        return self._cold(stack, timeout)

    def _fork(self, stack: contextlib.ExitStack, timeout: float) -> Running:
        if self._warm is not None and self._warm.hit() is not None:
            # An earlier call has filled what all of them share.
            self.close()
        warm = self._warm_process()
        limits = replace(self._limits, **vars(self._deadline.grant(timeout)))
        return stack.enter_context(warm.fork(self._snapshot, limits, self._deadline.witness, self._services))

    def _warm_process(self) -> WarmProcess:
        if self._warm is None:
            preparation = Preparation(self._preload, self._snapshot, self._limits, self._cell_environment)
            self._warm = self._stack.enter_context(start_warm(self._sandbox, preparation))
        return self._warm

    def _cold(self, stack: contextlib.ExitStack, timeout: float) -> Running:
        """A call in a sandbox of its own."""
        mount = Mount(self._snapshot, "/workspace")
        orders = {"workspace": self._sandbox.guest_path(mount), "preload": self._preload}
        # What it imports counts, too, since nothing tells where that ends.
        granted = self._deadline.grant(timeout + _IMPORT_S)
        limits = replace(self._limits, **vars(granted))
        script = f"{self._sandbox.library}/bench/guest/subject.py"
        sockets, addresses = forwarded(self._services)
        job = Job(
            argv=["python", "-I", "-B", script, json.dumps(orders)],
            mounts=[mount],
            cwd=mount,
            limits=limits,
            env=addresses,
            sockets=sockets,
            cell_environment=self._cell_environment,
        )
        pipe = subprocess.PIPE
        running = stack.enter_context(
            start(self._sandbox, job, stdin=pipe, stdout=pipe, stderr=pipe, witness=self._deadline.witness)
        )
        ready, _ = _Exchange(running, "the start").hear()
        if ready.get("missing"):
            raise RuntimeError(f"the case's environment lacks what it preloads: {ready['missing']}")
        return running


def forwarded(services: Mapping[str, Path]) -> tuple[dict[str, Path], dict[str, str]]:
    """Sockets and variables of a job whose processes may reach `services`, sockets by variable."""
    # The name is part of a path in the guest, and of what its first process replaces.
    sockets = {variable.lower(): path for variable, path in services.items()}
    return sockets, {variable: f"http://127.0.0.1:{{port:{variable.lower()}}}" for variable in services}


class _Exchange:
    """One request to a started call and its answer, while its limits are watched."""

    def __init__(self, running: Running, target: str) -> None:
        self._running = running
        self._target = target
        self._log = Tail(_LOG_BYTES)

    def ask(self, header: dict[str, Any], buffers: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """Raises `SubjectError` when no answer comes, and `InfraError` when the call was ended from outside."""
        requests = self._running.popen.stdin
        assert requests is not None
        # A call that ends before it has read everything may still have answered.
        with contextlib.suppress(OSError):
            codec.write_frame(requests, header, buffers)  # type: ignore[arg-type]
        return self.hear()

    def hear(self) -> tuple[dict[str, Any], list[bytes]]:
        try:
            return codec.read_frame(self._exactly)
        except (OSError, EOFError, codec.CodecError, struct.error) as error:
            running = self._running
            with contextlib.suppress(subprocess.TimeoutExpired):
                # Only its own end shows whether it was killed.
                running.popen.wait(_END_S)
            running.stop()
            running.settle()
            if running.lost():
                raise InfraError("sandbox_error", "the judge's sandbox was killed") from None
            raise SubjectError(f"{self._target}: {self._ended(error)}{self.printed()}") from None

    def _ended(self, error: Exception) -> str:
        running = self._running
        limits = running.job.limits
        if running.reason == "starved":
            raise_starved(self._target)
        if running.reason in ("cpu_limit", "time_limit"):
            granted = TimeLimits(limits.cpu_s, limits.available_s, limits.wall_s)
            return over_time(running.reason, granted, limits.cpus)
        if running.reason != "exit":
            return f"the call was ended: {running.reason.replace('_', ' ')}"
        if isinstance(error, codec.CodecError | struct.error):
            return f"gave an answer that cannot be read: {error}"
        return f"ended without an answer (status {running.code()})"

    def printed(self) -> str:
        """The end of what the call has printed, for a message."""
        log = self._running.popen.stderr
        if log is not None:
            os.set_blocking(log.fileno(), False)
            with contextlib.suppress(BlockingIOError):
                while part := os.read(log.fileno(), 1 << 16):
                    self._log.feed(part)
        text = self._log.value().decode("utf-8", "replace").strip()
        return f"; it printed: ...{text[-300:]}" if text else ""

    def _exactly(self, count: int) -> bytes:
        """The next `count` bytes of the answer; raises `EOFError` when the call ends or is over a limit."""
        running, data = self._running, bytearray()
        answers, log = running.popen.stdout, running.popen.stderr
        assert answers is not None and log is not None
        poll = select.poll()
        poll.register(answers, select.POLLIN)
        poll.register(log, select.POLLIN)
        tick = time.monotonic() + _TICK_S / 4
        while len(data) < count:
            ready = {descriptor for descriptor, _ in poll.poll(max(0.0, tick - time.monotonic()) * 1000)}
            if log.fileno() in ready:
                part = os.read(log.fileno(), 1 << 16)
                self._log.feed(part)
                if not part:
                    poll.unregister(log)
            if answers.fileno() in ready:
                part = os.read(answers.fileno(), min(count - len(data), 1 << 20))
                if not part:
                    raise EOFError
                data += part
            if time.monotonic() >= tick:
                tick = time.monotonic() + _TICK_S
                if not running.watch():
                    raise EOFError
        return bytes(data)
