"""What the first process of a sandbox is told, and in which environment it starts. Standard library only."""

from __future__ import annotations

import marshal
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.sandbox.job import Job, JobLimits
from bench.sandbox.seccomp import encoded_filter

# Understood by every version of Python alike.
_MARSHAL = 2
NO_CORE = 1
"""Bytes of a core: too few for any, see core(5)."""
_MIB = 1 << 20
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Chosen per machine: without it some builds of OpenBLAS compute wrong results or crash on some processors.
_PASSED_ON = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "TZ")


def guest_socket(name: str) -> str:
    """The path of a job's socket in a guest that isolates."""
    return f"/run/bench/{name}.sock"


def orders_for(job: Job, python: Path, folder: Path | None = None) -> dict[str, Any]:
    """What the first process of every sandbox is told.

    python: the guest's path of the job's interpreter, which is `python` to it whatever else PATH offers.
    folder: of this machine, for the job's files, where nothing isolates.
    """
    home, tmp = ("/home/agent", "/tmp") if folder is None else (str(folder / "home"), str(folder))  # noqa: S108
    env = base_environment(home=home, tmp=tmp, python=python, cpus=job.limits.cpus, also=job.interpreters)
    env |= job.env
    if (gpu := job.cell_environment.gpu) is not None:
        own = env.get("LD_LIBRARY_PATH", "")
        env |= gpu.variables(isolated=folder is None, hidden=job.trusted)
        env |= {"LD_LIBRARY_PATH": f"{env['LD_LIBRARY_PATH']}:{own}"} if own and folder is None else {}
    return {
        "argv": [str(python), *job.argv[1:]] if job.argv[0] == "python" else list(job.argv),
        "environment": env,
        "sockets": {name: str(path) if folder else guest_socket(name) for name, path in job.sockets.items()},
        "limits": resource_limits(job.limits),
        "filter": "" if job.trusted or folder else encoded_filter(),
    }


def resource_limits(limits: JobLimits) -> dict[str, int]:
    """rlimits by name. Memory and processes are not among them: rlimits count neither per sandbox."""
    return {
        # Not 0: a kernel that hands cores to a program of the machine does so at 0, too, and at this one never.
        "RLIMIT_CORE": NO_CORE,
        "RLIMIT_FSIZE": limits.disk_mb * _MIB,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CPU": int(limits.wall_s * max(limits.cpus, 1) * 4) + 60,
    }


def host_environment(orders: Mapping[str, object]) -> dict[str, str]:
    """The environment in which programs of this machine start a sandbox, with the orders to its first process.

    Nothing in it is the job's: a variable such as LD_PRELOAD would run the agent's code before the sandbox exists.
    """
    encoded = marshal.dumps(dict(orders), _MARSHAL).hex()
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "BENCH_INIT": encoded}


def base_environment(*, home: str, tmp: str, python: Path, cpus: int, also: Sequence[Path] = ()) -> dict[str, str]:
    """The environment every job starts from: nothing of the runner's own but what the machine's libraries need."""
    folders = [str(python.parent), "/usr/local/bin", "/usr/bin", "/bin", *(str(other.parent) for other in also)]
    env = {
        "PATH": ":".join(folders),
        "HOME": home,
        "TMPDIR": tmp,
        "USER": "agent",
        "LOGNAME": "agent",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # Threads sleep while they wait for each other: spinning, two of them take five times the CPU time on a busy
        # machine, and CPU time is what a job is held to.
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    env |= {name: str(cpus) for name in _THREAD_VARIABLES}
    env |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return env
