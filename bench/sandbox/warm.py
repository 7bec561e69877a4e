"""A process in a sandbox that has imported what is slow to import, and its forks, each a job of its own.

Standard library only. The guest's side is `bench.guest.fork_server`. A fork has namespaces and a control group of its
own; this process never reads anything that could be more than a claim of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.base.errors import InfraError
from bench.sandbox.cgroup_location import Probe
from bench.sandbox.fork import CannotFork, Fork
from bench.sandbox.job import GUEST, CellEnvironment, EndReason, Job, JobLimits, Mount, Sandbox
from bench.sandbox.orders import resource_limits
from bench.sandbox.running import Running, Tail, start
from bench.sandbox.seccomp import encoded_filter
from bench.sandbox.starvation import Witness

_PASS = 0o011
_ARENA = "/run/bench/arena"
_PROBE_S = 30.0
_REMEDY = (
    "allow namespaces in namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for bwrap"
)
_PLACE = "/workspace"
_TICK_S = 0.1


@dataclass(frozen=True)
class Preparation:
    """What a warm process is made ready for."""

    preload: tuple[str, ...]
    """Modules that it imports."""
    arena: Path
    """Folder that holds the workspaces of its forks, each of which sees only its own."""
    limits: JobLimits
    cell_environment: CellEnvironment = field(default_factory=CellEnvironment)
    programs: bool = False
    """Its forks may be programs, which may write their workspaces."""


class WarmProcess:
    """A warm process that is there; its forks may be asked for by several processes at the same time."""

    def __init__(
        self,
        sandbox: Sandbox,
        preparation: Preparation,
        requests: socket.socket,
        enforcement: str,
        alive: Callable[[], bool] = lambda: True,
        hit: Callable[[], EndReason | None] = lambda: None,
    ) -> None:
        self.requests = requests
        self.enforcement = enforcement
        self.preparation = preparation
        self.alive = alive
        """Whether it has not ended yet, as far as this process can tell."""
        self.hit = hit
        """The limit of what it holds together with its forks that was met, where one holds for them."""
        self._isolated = sandbox.isolated
        self._other_user = sandbox.other_user
        self._contained = bool(sandbox.image)

    @classmethod
    def reached(cls, sandbox: Sandbox, preparation: Preparation, descriptor: int, enforcement: str) -> WarmProcess:
        """One that another process has started, by the descriptor of its socket."""
        return cls(sandbox, preparation, socket.socket(fileno=descriptor), enforcement)

    @contextlib.contextmanager
    def fork(
        self,
        workspace: Path,
        limits: JobLimits,
        witness: Witness | None = None,
        services: Mapping[str, Path] | None = None,
        program: Sequence[str] | None = None,
    ) -> Iterator[Running]:
        """A fork that sees `workspace`, a folder below the arena, and waits for one request of the subject's protocol.

        program: instead of that it runs this file of the workspace, with these arguments, and may write there.
        witness: of the machine, where it has been watched before. services: Unix sockets that are forwarded to ports
        in the fork's own network, by the variable that holds the address there; at most `MOST_SERVICES`.
        Raises `CannotFork` where namespaces are refused, `InfraError` when the warm process is gone, and `RuntimeError`
        naming the modules that it cannot import.
        """
        arena = self.preparation.arena
        seen = str(workspace.relative_to(arena)) if self._isolated else str(workspace)
        if self._other_user:
            for folder in [parent for parent in workspace.parents if parent.is_relative_to(arena)]:
                # That user may pass through it, and not see what is there.
                folder.chmod(folder.stat().st_mode | _PASS)
        order = {
            "workspace": seen,
            "private_mb": limits.disk_mb,
            "limits": resource_limits(limits),
            "program": None if program is None else list(program),
        }
        started = Fork(limits, self.hit)
        try:
            started.ask(self.requests, order, services or {})
            place = Mount(workspace, _PLACE, writable=program is not None)
            mounts = [place] if place.writable else []
            job = Job([], mounts, place, limits, cell_environment=self.preparation.cell_environment)
            started.enter(self._isolated, contained=self._contained)
            yield Running(job, started, started, self.enforcement, witness, isolated=self._isolated)
        finally:
            started.release()

    def run(
        self, workspace: Path, program: Sequence[str], limits: JobLimits, services: Mapping[str, Path]
    ) -> tuple[int, str]:
        """Run `program` in `workspace` to its end or its limit: its status and the end of what it printed.

        Raises what `fork` does, and `InfraError` when it was ended from outside.
        """
        log = Tail(limits.output_mb << 20)
        with self.fork(workspace, limits, services=services, program=program) as running:
            _follow(running, log)
            running.stop()
            running.settle()
            _take_rest(running, log)
            if running.lost():
                raise InfraError("sandbox_error", "a fork of the warm process was killed")
            return running.code(), log.value().decode("utf-8", "replace")


def _follow(running: Running, log: Tail) -> None:
    """Read what a fork prints until it has ended, while its limits are watched."""
    stream = running.popen.stderr
    assert stream is not None
    printing, tick = True, time.monotonic() + _TICK_S
    while running.popen.poll() is None:
        left = max(0.0, tick - time.monotonic())
        if not printing:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.popen.wait(left)
        elif select.select([stream], [], [], left)[0]:
            part = os.read(stream.fileno(), 1 << 16)
            log.feed(part)
            printing = bool(part)
        if time.monotonic() >= tick:
            tick = time.monotonic() + _TICK_S
            if not running.watch():
                return


def _take_rest(running: Running, log: Tail) -> None:
    """Read what a fork printed after the last look, which its pipe holds: what writes on does not keep us here."""
    stream = running.popen.stderr
    if stream is not None and select.select([stream], [], [], 0)[0]:
        log.feed(os.read(stream.fileno(), 1 << 20))


@contextlib.contextmanager
def start_warm(sandbox: Sandbox, preparation: Preparation) -> Iterator[WarmProcess]:
    """Start a warm process, which ends with the block; its forks wait until it is ready."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = f"{sandbox.library}/bench/guest/fork_server.py"
    gpu = preparation.cell_environment.gpu
    devices = gpu.placeholders() if gpu is not None else {}
    view = {"place": _PLACE, "arena": _ARENA, "private": list(sandbox.private), "devices": devices}
    orders = {
        "preload": list(preparation.preload),
        "view": view if sandbox.isolated else None,
        # What this process must not see: CUDA, once begun, does not work in a fork.
        "variables": gpu.variables(isolated=sandbox.isolated) if gpu is not None else {},
        "filter": encoded_filter() if sandbox.isolated else "",
    }
    # Each fork puts its workspace over it.
    place = Mount(GUEST, _PLACE)
    job = Job(
        argv=["python", "-I", "-B", script, json.dumps(orders)],
        mounts=[place, Mount(preparation.arena, _ARENA, writable=preparation.programs)],
        cwd=place,
        limits=preparation.limits,
        cell_environment=preparation.cell_environment,
        trusted=True,
    )
    null = subprocess.DEVNULL
    with ours, contextlib.ExitStack() as stack:
        with theirs:
            running = stack.enter_context(start(sandbox, job, stdin=theirs.fileno(), stdout=null, stderr=null))

        def alive() -> bool:
            return running.popen.poll() is None

        yield WarmProcess(sandbox, preparation, ours, running.enforcement, alive, running.control.limit_hit)


def probe_forks(sandbox: Sandbox) -> Probe:
    """Whether calls of the judge can be forks in namespaces here; where not, each is a sandbox, slower and as fresh."""
    with tempfile.TemporaryDirectory(prefix="mldb-probe-") as folder:
        limits = JobLimits(wall_s=_PROBE_S)
        try:
            with start_warm(sandbox, Preparation((), Path(folder), limits)) as warm, warm.fork(Path(folder), limits):
                return Probe(True, "each a fork in namespaces of its own")
        except (CannotFork, InfraError) as refusal:
            return Probe(False, f"each a sandbox of its own, slower where a library is preloaded: {refusal}", _REMEDY)
