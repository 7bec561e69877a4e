"""Isolation by namespaces through bubblewrap: no network, no home, read-only system, own PID space."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from bench.guest.first_process import NAMES
from bench.sandbox.cgroup import Group, tasks_cap
from bench.sandbox.cgroup_location import new_group
from bench.sandbox.control import StatusPipe, TreeControl
from bench.sandbox.first_to_go import first_to_go
from bench.sandbox.gpu import GPU_LIMIT, NO_DEVICE
from bench.sandbox.job import GUEST, GUEST_LIBRARY, GUEST_PRIVATE, OWN_ETC, WHOLE_PROC, Job, JobLimits, Launch, Mount
from bench.sandbox.lent_ports import LentPorts
from bench.sandbox.orders import guest_socket, host_environment, orders_for

_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--hostname", "bench"),
    *("--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL"),
)
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    # Not the folder: beside it lie the machine's private keys, which a root runner's jobs could read.
    "ssl/certs",
    "ssl/openssl.cnf",
    "ssl/cert.pem",
    "ca-certificates",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "protocols",
    "services",
)
_MASKED = (
    "kcore",
    "keys",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "pagetypeinfo",
    "slabinfo",
    "timer_list",
    "vmallocinfo",
)
"""Of /proc: what tells of the kernel and of other users' work."""
_PACKAGE = Path(__file__).resolve().parents[1]
# From linux/capability.h.
_CAP_SYS_ADMIN = 21
_SHIELD = '"$1" -o rbind,ro /dev /dev || exit 125; shift; exec "$@"'
_FIRST = 1


class BubblewrapSandbox:
    """A job in its own user, mount, PID, network, IPC and UTS namespaces."""

    name = "bubblewrap"
    isolated = True
    private: Sequence[str] = GUEST_PRIVATE
    image = ""
    other_user = False
    library = GUEST_LIBRARY

    def __init__(self, program: str | None = None) -> None:
        self.program = program or shutil.which("bwrap") or "bwrap"

    def interpreter(self, python: Path) -> str:
        return str(python)

    def guest_path(self, mount: Mount) -> str:
        return mount.target

    def launch(self, job: Job) -> Launch:
        python = job.python or Path(sys.executable)
        status, group = StatusPipe(), new_group(job.limits)
        ports = LentPorts.start() if NAMES in job.sockets else None
        tasks = _task_limit(job.limits, group)
        orders = orders_for(job, python) | {"status": status.write, "adopt": False}
        orders |= {"ports": ports.guest} if ports is not None else {}
        orders["limits"] |= tasks
        argv = [self.program, *self._arguments(job, python)]
        argv += ["--", str(python), "-I", "-S", "-B", f"{GUEST_LIBRARY}/bench/guest/first_process.py"]

        def release() -> None:
            status.close()
            if ports is not None:
                ports.end()
            if group is not None:
                group.remove()

        argv = shielded(argv if group is None else group.joined(argv))
        # One that forks for others marks its forks itself.
        argv = argv if job.trusted else first_to_go(argv)
        enforcement = _enforcement(group, bool(tasks), bool(orders["filter"]))
        enforcement += GPU_LIMIT if job.cell_environment.gpu is not None else ""
        control = partial(TreeControl, status, isolated=True, group=group)
        inherited = [status.write] if ports is None else [status.write, ports.guest]
        return Launch(argv, host_environment(orders), control, release, inherited, enforcement)

    def _arguments(self, job: Job, python: Path) -> list[str]:
        """What bubblewrap makes of this machine."""
        argv = [*_NAMESPACES, *self._system(job), *_python_mounts([python, *job.interpreters])]
        for mount in job.mounts:
            argv += ["--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target]
        argv += ["--ro-bind", str(GUEST), f"{GUEST_LIBRARY}/bench/guest"]
        for name, path in job.sockets.items():
            argv += ["--ro-bind", str(path), guest_socket(name)]
        # /proc too: to a runner that is root, the job would be the owner of the whole machine's /proc/sys.
        for folder in ("/dev", "/") if job.trusted else ("/proc", "/dev", "/"):
            argv += ["--remount-ro", folder]
        return [*argv, "--chdir", job.cwd.target]

    @staticmethod
    def _system(job: Job) -> list[str]:
        argv: list[str] = []
        for path in _SYSTEM:
            if os.path.islink(path):
                argv += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                argv += ["--ro-bind", path, path]
        argv += ["--proc", "/proc", "--dev", "/dev"]
        if job.trusted:
            # Bubblewrap hides parts of a root runner's /proc, and the kernel makes a new one only where a whole one is.
            argv += ["--ro-bind", "/proc", WHOLE_PROC]
        for name in () if job.trusted else _MASKED:
            if os.access(f"/proc/{name}", os.R_OK):
                argv += ["--ro-bind", "/dev/null", f"/proc/{name}"]
        size = str(job.limits.disk_mb << 20)
        for folder in GUEST_PRIVATE:
            argv += ["--size", size, "--tmpfs", folder]
        for file in sorted(OWN_ETC.iterdir()):
            argv += ["--ro-bind", str(file), f"/etc/{file.name}"]
        for name in _ETC:
            argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        return [*argv, *_gpu_mounts(job)]


def _task_limit(limits: JobLimits, group: Group | None) -> dict[str, int]:
    """Where no group counts them: since Linux 5.14 the count is one of the job's user namespace, but root has none."""
    if (group is not None and "pids" in group.in_force) or os.geteuid() == 0:
        return {}
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    return {"RLIMIT_NPROC": tasks_cap(limits)} if release >= (5, 14) else {}


def _gpu_mounts(job: Job) -> list[str]:
    """The cell's GPU; to a process that forks for others nothing that a library could open."""
    gpu = job.cell_environment.gpu
    if gpu is None:
        return []
    argv: list[str] = []
    for source, place in gpu.nodes(hidden=job.trusted):
        argv += ["--dev-bind", source, place]
    for place in gpu.placeholders() if job.trusted else ():
        argv += ["--ro-bind", str(NO_DEVICE), place]
    for source, place in gpu.libraries:
        argv += ["--ro-bind", source, place]
    return argv


def _enforcement(group: Group | None, tasks_capped: bool, filtered: bool) -> str:
    limits = "memory and processes watched" if group is None else group.about
    tasks = "; tasks by rlimit" if tasks_capped else ""
    return f"{limits}{tasks}; system calls {'' if filtered else 'not '}filtered"


def _python_mounts(interpreters: Iterable[Path]) -> list[str]:
    """The interpreters' installations, read-only, with this package's own folder (cases, solutions) hidden."""
    argv: list[str] = []
    bound: list[Path] = [Path("/usr"), Path("/bin")]
    roots = {Path(sys.base_prefix), Path(sys.prefix)}
    for python in interpreters:
        roots |= {python.parent.parent, python.resolve().parent.parent}
    for root in sorted(roots):
        if root != Path("/") and not any(root.is_relative_to(known) for known in bound):
            argv += ["--ro-bind", str(root), str(root)]
            bound.append(root)
    if any(_PACKAGE.is_relative_to(known) for known in bound):
        argv += ["--tmpfs", str(_PACKAGE)]
    return argv


def shielded(argv: Sequence[str]) -> list[str]:
    """`argv`, started where /dev is read-only: devices can be used, and their permissions and names not be changed.

    The jobs of a root runner own what root owns, also behind the other ids of the guest: without this, one could take
    /dev/null from every process. Bubblewrap itself mounts the files of devices writable.
    """
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    if os.geteuid() != 0 or not _may_mount() or unshare is None or mount is None:
        return list(argv)
    return [unshare, "--mount", "--", "/bin/sh", "-c", _SHIELD, "sh", mount, *argv]


def _may_mount() -> bool:
    """Root of a container often may not, and has no devices of the machine to lose."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def end_orphans(folders: Sequence[Path]) -> None:
    """End bubblewrap processes of this user that have lost their parent and were started with one of `folders`.

    The caller holds the locks of these folders, so that no living runner works there.
    """
    marks = [os.fsencode(f"{folder}/") for folder in folders]
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if _is_orphan(Path("/proc", entry), marks):
                    os.kill(int(entry), signal.SIGKILL)


def _is_orphan(process: Path, marks: Sequence[bytes]) -> bool:
    words = (process / "cmdline").read_bytes().split(b"\0")
    if os.path.basename(words[0]) != b"bwrap" or process.stat().st_uid != os.getuid():
        return False
    parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    return parent == _FIRST and any(word.startswith(mark) for word in words for mark in marks)
