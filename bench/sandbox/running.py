"""Running a job: start, feed nothing, keep bounded output, watch limits, leave no process behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bench.base.errors import InfraError
from bench.sandbox.disk_watch import DiskWatch
from bench.sandbox.job import Control, Ended, EndReason, Job, Launch, Sandbox, StartedProcess
from bench.sandbox.starvation import Witness
from bench.sandbox.time_limits import TimeLimits, TimeMeter

_TICK_S = 0.1
_FLOOD_FACTOR = 20


@dataclass
class Tail:
    """The first and the last bytes of a stream, half each, and a count of what lay between."""

    limit: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0
    seen: Callable[[bytes], None] | None = None
    """Shown every piece as it comes."""

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        if self.seen is not None:
            self.seen(data)
        room = self.limit // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > self.limit:
            del self.tail[: -(self.limit // 2)]

    @property
    def dropped(self) -> int:
        return self.total - len(self.head) - min(len(self.tail), self.limit // 2)

    def value(self) -> bytes:
        if not self.dropped:
            return bytes(self.head + self.tail)
        end = self.tail[-(self.limit // 2) :]
        return bytes(self.head) + f"\n[... {self.dropped} bytes left out ...]\n".encode() + bytes(end)


class Running:
    """A started job. `watch` is to be called often; `stop` ends the whole tree."""

    def __init__(
        self,
        job: Job,
        popen: StartedProcess,
        control: Control,
        enforcement: str = "",
        witness: Witness | None = None,
        *,
        isolated: bool,
    ) -> None:
        self._enforcement = enforcement
        self.isolated = isolated
        self.job = job
        self.popen = popen
        self.control = control
        self.reason: EndReason = "exit"
        self._ended_here = False
        self.peak_memory_mb = 0.0
        self.peak_processes = 0
        self.cpu_s: float | None = None
        limits = job.limits
        self._meter = self.time_meter(TimeLimits(limits.cpu_s, limits.available_s, limits.wall_s), witness)
        self._started = time.monotonic()
        folders = [mount.source for mount in job.mounts if mount.writable]
        self._disk = DiskWatch(folders, limits.disk_mb, control.processes)

    @property
    def enforcement(self) -> str:
        """What the kernel enforces and counts of the job."""
        return f"{self._enforcement}; CPU time {'counted' if self.control.counts_cpu() else 'estimated'}"

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self._started

    def watch(self) -> bool:
        """Measure the tree; end it and return False when it is over a limit."""
        limits = self.job.limits
        self.peak_processes = max(self.peak_processes, len(self.control.processes()))
        self.peak_memory_mb = max(self.peak_memory_mb, self.control.memory_mb(limits.memory_mb))
        if (over := self._meter.over()) is not None:
            return self._over(over)
        if self.peak_memory_mb > limits.memory_mb:
            return self._over("memory_limit")
        if self.peak_processes > limits.processes:
            return self._over("process_limit")
        if (hit := self.control.limit_hit()) is not None:
            return self._over(hit)
        if self._disk.over():
            return self._over("disk_limit")
        return True

    def settle(self) -> None:
        """Look once more when the job is over: much can happen between two looks."""
        self.peak_memory_mb = max(self.peak_memory_mb, self.control.memory_mb(self.job.limits.memory_mb))
        self.cpu_s, limit = self.control.cpu_s(), self.job.limits.cpu_s
        if self.reason == "exit" and limit is not None and self.cpu_s is not None and self.cpu_s > limit:
            self.reason = "cpu_limit"
        if self.reason == "exit":
            self.reason = self.control.limit_hit() or "exit"
        # Whatever has stopped it: a full disk makes the runner fail, too, and which limit was seen first is chance.
        if self.reason != "disk_limit" and self._disk.look():
            self.reason = "disk_limit"

    @property
    def available_s(self) -> float:
        """See `TimeLimits`; 0 where it is not limited."""
        return self._meter.available_s

    def time_meter(self, limits: TimeLimits, witness: Witness | None = None) -> TimeMeter:
        """The time of what the job does from now on; `witness`: one that has watched for longer."""
        control = self.control
        return TimeMeter(
            limits,
            self.job.limits.cpus,
            control.cpu_s,
            # A starved machine may not even come to start the job.
            lambda: [self.popen.pid, *control.processes()],
            groups_beside=control.groups_beside,
            counted=control.counts_cpu,
            witness=witness,
        )

    def _over(self, reason: EndReason) -> bool:
        self.stop(reason)
        return False

    def stop(self, reason: EndReason | None = None) -> None:
        """End the whole tree and wait until it is gone."""
        if self.popen.poll() is None:
            self._ended_here = True
            self.reason = reason or self.reason
        self.control.end()

    def lost(self) -> bool:
        """Whether the sandbox was ended from outside: neither by the guest, nor by a limit, nor by us."""
        # Without isolation the job can end everything by itself, so it has.
        if not self.isolated or self.reason != "exit" or self._ended_here or self.popen.poll() is None:
            return False
        return self.control.seen_status() is None and self.control.limit_hit() is None

    def code(self) -> int:
        """Exit status; 128 + n for signal n."""
        left, seen = self.popen.wait(), self.control.seen_status()
        # The sandbox may be killed when its command has ended.
        code = left if seen is None else seen
        return code if code >= 0 else 128 - code


@contextlib.contextmanager
def start(
    sandbox: Sandbox, job: Job, *, stdin: int, stdout: int, stderr: int, witness: Witness | None = None
) -> Iterator[Running]:
    """Start `job` with the given streams; on leaving, no process of it is left.

    witness: of the machine, where it has been watched before.
    The calling thread must outlive the job: its end is the signal for the sandbox to end.
    """
    launch = sandbox.launch(job)
    with contextlib.ExitStack() as stack:
        # Called in reverse order: first every process is ended, then what was made for the job is given back.
        stack.callback(launch.release)
        popen = _spawn(sandbox, job, launch, (stdin, stdout, stderr))
        running = Running(job, popen, launch.control(popen), launch.enforcement, witness, isolated=sandbox.isolated)
        stack.callback(running.stop)
        yield running


def _spawn(sandbox: Sandbox, job: Job, launch: Launch, streams: tuple[int, int, int]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            launch.argv,
            env=launch.env,
            cwd=str(job.cwd.source),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
            pass_fds=launch.descriptors,
        )
    except OSError as error:
        raise InfraError("sandbox_error", f"the {sandbox.name} sandbox did not start: {error}") from None
    finally:
        for descriptor in launch.descriptors:
            os.close(descriptor)


def run_job(
    sandbox: Sandbox,
    job: Job,
    should_stop: Callable[[], bool] | None = None,
    witness: Witness | None = None,
    seen: Callable[[bytes], None] | None = None,
) -> Ended:
    """Run `job` to its end or its limit; raises `InfraError` when the sandbox itself does not come up.

    should_stop: asked about ten times a second; when it says so, the job is ended with the reason `stopped`.
    seen: shown what the job writes to its standard output, as it comes.
    """
    pipe = subprocess.PIPE
    with start(sandbox, job, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, witness=witness) as running:
        streams = _pump(running, should_stop, seen)
        running.stop()
        code = running.code()
        if running.reason == "exit" and not running.control.came_up():
            text = streams[1].value().decode("utf-8", "replace").strip()[-500:]
            raise InfraError("sandbox_error", f"the {sandbox.name} sandbox did not start: {text}")
        running.settle()
        if running.lost():
            raise InfraError("sandbox_error", f"the first process of the {sandbox.name} sandbox was killed")
        return Ended(
            reason=running.reason,
            code=code,
            stdout=streams[0].value(),
            stderr=streams[1].value(),
            dropped_bytes=streams[0].dropped + streams[1].dropped,
            wall_s=running.wall_s,
            peak_memory_mb=running.peak_memory_mb,
            peak_processes=running.peak_processes,
            network_attempts=running.control.network_attempts(),
            enforcement=running.enforcement,
            cpu_s=running.cpu_s,
            available_s=running.available_s,
        )


def _pump(
    running: Running, should_stop: Callable[[], bool] | None, seen: Callable[[bytes], None] | None
) -> tuple[Tail, Tail]:
    """Read both streams until the job's first process ends, watching the limits."""
    popen = running.popen
    limit = running.job.limits.output_mb << 20
    out, err = Tail(limit, seen=seen), Tail(limit)
    assert popen.stdout is not None and popen.stderr is not None
    exit_handle = os.pidfd_open(popen.pid)
    with selectors.DefaultSelector() as selector:
        for stream, tail in ((popen.stdout, out), (popen.stderr, err)):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, tail)
        selector.register(exit_handle, selectors.EVENT_READ, None)
        next_tick = time.monotonic() + _TICK_S / 4
        alive = True
        while alive:
            for key, _ in selector.select(max(0.0, next_tick - time.monotonic())):
                if key.data is None:
                    alive = False
                elif not _read(key.fd, key.data):
                    selector.unregister(key.fileobj)
            if alive and time.monotonic() >= next_tick:
                next_tick = time.monotonic() + _TICK_S
                alive = running.watch()
                if alive and should_stop is not None and should_stop():
                    running.stop("stopped")
                    alive = False
            if alive and out.total + err.total > limit * _FLOOD_FACTOR:
                running.stop("output_limit")
                alive = False
    os.close(exit_handle)
    # Before the process is waited for: without a group, its own entry is all that is left to be asked.
    running.control.cpu_s()
    running.stop()
    for stream, tail in ((popen.stdout, out), (popen.stderr, err)):
        while _read(stream.fileno(), tail) and tail.total <= limit * (_FLOOD_FACTOR + 1):
            continue
        stream.close()
    return out, err


def _read(descriptor: int, tail: Tail) -> bool:
    """Take what is there; False at the end of the stream, or when nothing is left in a finished one."""
    try:
        data = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return False
    tail.feed(data)
    return bool(data)
