"""The judge's side of the subject: starts the sandboxed interpreter and calls into it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.base.errors import InfraError
from bench.guest import codec
from bench.judge.deadline import Deadline, Timed, over_time, raise_starved
from bench.sandbox import CellEnvironment, Job, JobLimits, Mount, NetworkAttempts, Running, Sandbox, TimeMeter, start

_START_S = 60.0
# Over the time of the call, which the subject itself watches: its answer to a time-out must still arrive.
_ANSWER_GRACE_S = 5.0
_END_S = 2.0
_TICK_S = 0.1


class SubjectError(AssertionError):
    """The agent's code failed, took too long, or gave something that is not a value: a failed check."""


class Hidden(os.PathLike[str]):
    """A file that only the judge sees; as an argument of a call it becomes a path in the subject."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)

    def read_bytes(self) -> bytes:
        return self.path.read_bytes()


class Subject:
    """One sandboxed interpreter on the read-only snapshot; every call is a fresh fork of it."""

    def __init__(
        self,
        sandbox: Sandbox,
        snapshot: Path,
        preload: Sequence[str],
        limits: JobLimits,
        deadline: Deadline,
        cell_environment: CellEnvironment | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._mount = Mount(snapshot, "/workspace")
        self._preload = list(preload)
        self._limits = limits
        self._deadline = deadline
        self._cell_environment = cell_environment or CellEnvironment()
        self._stack = contextlib.ExitStack()
        self._running: Running | None = None
        self.network_attempts = NetworkAttempts()
        """Tries to reach a network by the code that was called; complete after `close`."""

    def call(
        self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, timeout: float, driver: Hidden | None
    ) -> Any:
        """Value of the function `module:function` in the subject; raises `SubjectError`."""
        return self.timed_call(target, args, kwargs, timeout=timeout, driver=driver).value

    def timed_call(
        self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, timeout: float, driver: Hidden | None
    ) -> Timed:
        """Like `call`, with the CPU time that it took. timeout: seconds of CPU time on each processor."""
        buffers: list[bytes] = []
        arguments = {
            "t": "dict",
            "v": {"args": _outgoing(list(args), buffers), "kwargs": _outgoing(kwargs, buffers)},
        }
        header: dict[str, Any] = {"target": target, "arguments": arguments}
        if driver is not None:
            header["driver"] = len(buffers)
            buffers.append(driver.read_bytes())
        self._deadline.grant(timeout)
        running = self._started()
        limits = self._deadline.grant(timeout)
        header["timeout"] = limits.wall_s
        meter = running.time_meter(limits, self._deadline.witness)
        try:
            answer, parts = self._exchange(running, header, buffers, meter)
        finally:
            meter.read()
            self._deadline.spend(meter.cpu_s, meter.available_s)
        log = str(answer.get("log") or "").strip()
        if answer.get("error") is not None:
            self._blame_limit(running, target)
            last = f"; it printed: ...{log[-300:]}" if log else ""
            raise SubjectError(f"{target}: {str(answer['error'])[:500]}{last}")
        try:
            value = codec.decode(answer.get("value"), parts)
            return Timed(value, meter.cpu_s or 0.0, running.control.counts_cpu())
        except codec.CodecError as error:
            raise SubjectError(f"{target}: answer cannot be read: {error}") from None

    def _blame_limit(self, running: Running, target: str) -> None:
        """Where the kernel ended the call for a limit, say so: the call server itself may have been spared."""
        hit = running.control.limit_hit()
        if hit is not None:
            self.close()
            raise SubjectError(f"{target}: the subject ended: {hit.replace('_', ' ')}")

    def close(self) -> None:
        running, self._running = self._running, None
        self._stack.close()
        if running is not None:
            self.network_attempts += running.control.network_attempts()

    def _started(self) -> Running:
        if self._running is not None and self._running.popen.poll() is None:
            return self._running
        self.close()
        script = f"{self._sandbox.library}/bench/guest/subject.py"
        orders = {
            "workspace": self._sandbox.guest_path(self._mount),
            "preload": self._preload,
            "private": list(self._sandbox.private),
        }
        job = Job(
            argv=["python", "-I", "-B", script, json.dumps(orders)],
            mounts=[self._mount],
            cwd=self._mount,
            limits=self._limits,
            cell_environment=self._cell_environment,
        )
        pipe = subprocess.PIPE
        context = start(self._sandbox, job, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        running = self._stack.enter_context(context)
        try:
            ready, _ = self._receive(running, _START_S)
        except (EOFError, codec.CodecError):
            reason = running.reason if running.control.came_up() else "no sandbox"
            raise InfraError("sandbox_error", f"the judge's subject did not come up: {reason}") from None
        if not ready.get("ready"):
            raise RuntimeError(f"the case's environment lacks what it preloads: {ready.get('missing')}")
        self._running = running
        return running

    def _exchange(
        self, running: Running, header: dict[str, Any], buffers: list[bytes], meter: TimeMeter
    ) -> tuple[dict[str, Any], list[bytes]]:
        assert running.popen.stdin is not None
        try:
            codec.write_frame(running.popen.stdin, header, buffers)  # type: ignore[arg-type]
            return self._receive(running, float(header["timeout"]) + _ANSWER_GRACE_S, meter)
        except (OSError, EOFError, codec.CodecError) as error:
            if not isinstance(error, codec.CodecError):
                # The subject is ending; only its own end shows whether it was killed.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.popen.wait(_END_S)
            if running.lost():
                raise InfraError("sandbox_error", "the judge's sandbox was killed") from None
            reason = running.reason
            self.close()
            if reason == "starved":
                raise_starved(header["target"])
            if reason in ("cpu_limit", "time_limit"):
                said = over_time(reason, meter.limits, self._limits.cpus)
                raise SubjectError(f"{header['target']}: {said}") from None
            ended = reason.replace("_", " ") if reason != "exit" else str(error) or "it is gone"
            raise SubjectError(f"{header['target']}: the subject ended: {ended}") from None

    def _receive(
        self, running: Running, seconds: float, meter: TimeMeter | None = None
    ) -> tuple[dict[str, Any], list[bytes]]:
        """One message from the subject within `seconds`, watching its limits and those of `meter` meanwhile."""
        stdout = running.popen.stdout
        assert stdout is not None
        until = time.monotonic() + seconds
        descriptor = stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)

            def exactly(count: int) -> bytes:
                data = bytearray()
                while len(data) < count:
                    if not selector.select(_TICK_S):
                        over = meter.over() if meter is not None else None
                        if over is not None or time.monotonic() > until:
                            running.stop(over or "time_limit")
                        running.watch()
                        if running.popen.poll() is not None:
                            raise EOFError
                        continue
                    part = os.read(descriptor, min(count - len(data), 1 << 20))
                    if not part:
                        raise EOFError
                    data += part
                return bytes(data)

            try:
                return codec.read_frame(exactly)
            except struct.error as error:
                raise codec.CodecError(str(error)) from None


def _outgoing(value: object, buffers: list[bytes]) -> Any:
    """Like `codec.encode`, with hidden files sent by content."""
    if isinstance(value, Hidden):
        buffers.append(value.read_bytes())
        return {"t": "file", "n": value.path.name, "b": len(buffers) - 1}
    if isinstance(value, (list, tuple)):
        return {"t": "list", "v": [_outgoing(item, buffers) for item in value]}
    if isinstance(value, dict):
        return {"t": "dict", "v": {str(key): _outgoing(item, buffers) for key, item in value.items()}}
    tree, parts = codec.encode(value, scalars=False)
    if parts:
        tree["b"] += len(buffers)
        buffers.extend(parts)
    return tree
