"""What every back end tells the first process of a sandbox."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.sandbox.job import Job, JobLimits

INSIDE = Path(__file__).resolve().parents[1] / "inside"
_MIB = 1 << 20
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Chosen per machine: without it some builds of OpenBLAS compute wrong results or crash on some processors.
_PASSED_ON = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "TZ")


def resource_limits(limits: JobLimits) -> dict[str, int]:
    """rlimits by name. Memory and processes are not among them: rlimits count neither per sandbox."""
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.disk_mb * _MIB,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CPU": int(limits.wall_s * max(limits.cpus, 1) * 4) + 60,
    }


def host_environment(orders: Mapping[str, object]) -> dict[str, str]:
    """The environment in which programs of this machine start a sandbox, with the orders to its first process.

    Nothing in it is the job's: a variable such as LD_PRELOAD would run the agent's code before the sandbox exists.
    """
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "BENCH_INIT": json.dumps(orders)}


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
    }
    env |= {name: str(cpus) for name in _THREAD_VARIABLES}
    env |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return env


def command_line(job: Job, python: Path) -> list[str]:
    """The job's argument list, with `python` as the job's own interpreter whatever else PATH offers."""
    return [str(python), *job.argv[1:]] if job.argv[0] == "python" else list(job.argv)
