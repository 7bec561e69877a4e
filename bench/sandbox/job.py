"""What a sandbox is asked to run, and what came of it. Standard library only: the judge's child imports this."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from bench.sandbox.gpu import Gpu

EndReason = Literal[
    "exit",
    "stopped",
    "time_limit",
    "cpu_limit",
    "starved",
    "memory_limit",
    "process_limit",
    "disk_limit",
    "output_limit",
]
"""`stopped`: by the caller that asked for the job. `starved`: over its wall time on a machine that was too busy."""
GUEST = Path(__file__).resolve().parents[1] / "guest"
OWN_ETC = Path(__file__).resolve().parent / "etc"
"""Files for /etc of a guest that isolates."""
GUEST_LIBRARY = "/run/bench/library"
GUEST_PRIVATE = ("/tmp", "/home/agent", "/dev/shm")  # noqa: S108  paths in the guest, not on this machine
WHOLE_PROC = "/run/bench/proc"
"""Of a trusted job."""


@dataclass(frozen=True)
class JobLimits:
    """Limits of one job. Sizes in MiB, times in seconds."""

    wall_s: float
    memory_mb: int = 4096
    cpus: int = 1
    processes: int = 256
    open_files: int = 1024
    disk_mb: int = 1024
    """All writable mounts together, holes in files included; also the size of /tmp and of any one file."""
    output_mb: int = 10
    """Kept of standard output and error; twenty times as much ends the job."""
    cpu_s: float | None = None
    """CPU time of all its processes together, the start of the sandbox included; none by default."""
    available_s: float | None = None
    """Time in which a processor was free for it, or worked for it; none by default. With it, a job that is over
    `wall_s` may have been `starved`."""


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine that the job may see."""

    source: Path
    target: str
    """Absolute path in the guest, for back ends that isolate."""
    writable: bool = False


@dataclass(frozen=True)
class CellEnvironment:
    """What all jobs of a cell have in common, and only some back ends can give."""

    gpu: Gpu | None = None
    """The one that is the cell's while it runs."""
    environment: Path | None = None
    """Folder of the case's own additions to the shared image."""
    run: str = ""
    cell: str = ""
    """Names by which what is left of a job is recognised."""

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> CellEnvironment:
        """The one of which `facts` came back from JSON."""
        gpu, folder = facts["gpu"], facts["environment"]
        return cls(Gpu.of(gpu) if gpu else None, Path(folder) if folder else None, facts["run"], facts["cell"])

    def facts(self) -> dict[str, Any]:
        gpu = None if self.gpu is None else self.gpu.facts()
        return {"gpu": gpu, "environment": str(self.environment or ""), "run": self.run, "cell": self.cell}


@dataclass(frozen=True)
class Job:
    """One command with everything it may see."""

    argv: Sequence[str]
    mounts: Sequence[Mount]
    cwd: Mount
    limits: JobLimits
    env: Mapping[str, str] = field(default_factory=dict)
    sockets: Mapping[str, Path] = field(default_factory=dict)
    """Unix sockets by name, forwarded to loopback ports; `{port:NAME}` in `env` becomes the port."""
    scratch: Path | None = None
    """Folder of this machine for what the job needs while it lives; default: the system's temporary folder."""
    python: Path | None = None
    """Interpreter whose installation is mounted read-only and stands first on PATH."""
    interpreters: Sequence[Path] = ()
    """Further ones, mounted too and last on PATH: the programs beside them are found, `python` stays what it was."""
    cell_environment: CellEnvironment = field(default_factory=CellEnvironment)
    image: str = ""
    """The agent's own image, by a name with its digest, as the job's system: with its programs alone, not ours. For
    back ends whose jobs run in containers."""
    trusted: bool = False
    """Our own program, which forks into namespaces of its own making before it runs anything of the agent's: without
    the filter of system calls, which each fork gets."""


@dataclass(frozen=True)
class NetworkAttempts:
    """Tries to leave a sandbox that has no network, counted by the kernel in the job's own network namespace."""

    addresses: int = 0
    """Packets and connections for which there was no route."""
    names: int = 0
    """Queries sent to a name server that is not there; one look-up sends several."""

    def __bool__(self) -> bool:
        return bool(self.addresses or self.names)

    def __add__(self, other: NetworkAttempts) -> NetworkAttempts:
        """Of two jobs."""
        return NetworkAttempts(self.addresses + other.addresses, self.names + other.names)

    def __or__(self, other: NetworkAttempts) -> NetworkAttempts:
        """Two readings of the same counters."""
        return NetworkAttempts(max(self.addresses, other.addresses), max(self.names, other.names))


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    reason: EndReason
    code: int
    """Exit status; 128 + n for signal n."""
    stdout: bytes
    stderr: bytes
    dropped_bytes: int
    """Output beyond what was kept."""
    wall_s: float
    peak_memory_mb: float
    peak_processes: int
    network_attempts: NetworkAttempts = field(default_factory=NetworkAttempts)
    enforcement: str = ""
    """See `Launch`."""
    cpu_s: float | None = None
    """CPU time of all processes of the job; None where nothing is known of it."""
    available_s: float = 0.0
    """Time in which a processor was free for the job or worked for it; 0 where that is not limited."""


@dataclass(frozen=True)
class Launch:
    """What to execute to start a job: argument list and complete environment, and how to see the job then."""

    argv: list[str]
    env: dict[str, str]
    control: Callable[[subprocess.Popen[bytes]], Control]
    """Called once, right after the start."""
    release: Callable[[], None]
    """Called once at the end, also when the program could not be executed: gives back what was made for the job."""
    descriptors: Sequence[int] = ()
    """Inherited by what is started; closed on this side then."""
    enforcement: str = ""
    """What the kernel itself enforces: of the limits, and of the system calls. For people and records."""


class Sandbox(Protocol):
    """A back end: how a job is started, and how paths look in the guest."""

    name: str
    isolated: bool
    private: Sequence[str]
    """Folders of the guest that a job may write and no other job sees."""
    library: str
    """The guest's import root that holds `bench.guest` and nothing else of value."""
    image: str
    """Content id of the image that jobs see as their system; empty: they see this machine's own."""

    @property
    def other_user(self) -> bool:
        """Jobs run as a user of this machine that is not the runner's."""
        ...

    def guest_path(self, mount: Mount) -> str:
        """The path of `mount` in the guest."""
        ...

    def interpreter(self, python: Path) -> str:
        """The path at which a job finds the interpreter that is `python` on this machine, or its counterpart."""
        ...

    def launch(self, job: Job) -> Launch:
        """Make ready for `job` and say how to start it."""
        ...


class StartedProcess(Protocol):
    """What a job is watched by: what is used of a process of the library `subprocess`."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    @property
    def stderr(self) -> IO[bytes] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class Control(Protocol):
    """One started job, from outside."""

    def came_up(self) -> bool:
        """Whether the first process of the sandbox ran: told in a way that the job's command never sees."""
        ...

    def seen_status(self) -> int | None:
        """How the command ended: its exit status, or -n for signal n, as the first process of the sandbox saw it.

        None: that process was killed before. What becomes of it afterwards says nothing about the command.
        """
        ...

    def processes(self) -> Sequence[int]:
        """The job's processes, by their ids on this machine."""
        ...

    def memory_mb(self, limit_mb: float) -> float:
        """MiB of memory that the job holds; need be exact only near and above the limit."""
        ...

    def cpu_s(self) -> float | None:
        """Seconds of CPU time that the job has used so far; None where nothing is known of it."""
        ...

    def counts_cpu(self) -> bool:
        """Whether the kernel counts it; otherwise `cpu_s` is a sum from which processes can hide."""
        ...

    def groups_beside(self) -> Sequence[Path]:
        """Groups, with the job's own, that an engine made for jobs of ours: their names do not say whose they are."""
        ...

    def limit_hit(self) -> EndReason | None:
        """The limit that the kernel has enforced on the job, if any."""
        ...

    def network_attempts(self) -> NetworkAttempts:
        """Tries to reach a network so far; still known after the end."""
        ...

    def end(self) -> None:
        """End every process of the job and wait until none is left; harmless when there is none."""
        ...
