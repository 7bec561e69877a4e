"""No isolation: a plain process tree of this machine, under the same limits. Must be asked for by name."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.sandbox.job import Job, Launch, Mount
from bench.sandbox.orders import INSIDE, base_environment, command_line, resource_limits

MARKER = "BENCH_JOB"
"""Environment variable by which stray processes of a job are found again."""


class ProcessSandbox:
    """Runs a job as it is: it sees this machine's files, network and processes."""

    name = "process"
    isolated = False
    private: Sequence[str] = ()

    def inside(self, mount: Mount) -> str:
        return str(mount.source)

    @property
    def library(self) -> str:
        return str(INSIDE.parents[1])

    def launch(self, job: Job, status: int) -> Launch:
        tmp = Path(tempfile.mkdtemp(prefix="mldb-job-", dir=job.scratch))
        home = tmp / "home"
        home.mkdir()
        python = job.python or Path(sys.executable)
        env = base_environment(home=str(home), tmp=str(tmp), python=python, cpus=job.limits.cpus, also=job.interpreters)
        env.update(job.env)
        env[MARKER] = tmp.name
        env["BENCH_INIT"] = json.dumps(
            {
                "argv": command_line(job, python),
                "status": status,
                "sockets": {name: str(path) for name, path in job.sockets.items()},
                "limits": resource_limits(job.limits),
                "adopt": True,
                "parent": os.getpid(),
            }
        )
        return Launch([sys.executable, "-I", "-S", "-B", str(INSIDE / "init.py")], env, tmp)
