"""No isolation: a plain process tree of this machine, under the same limits. Must be asked for by name."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.guest.trees import remove_tree
from bench.sandbox.cgroup import Group
from bench.sandbox.cgroup_location import new_group
from bench.sandbox.control import StatusPipe, TreeControl, send_signal
from bench.sandbox.job import (
    GUEST,
    Control,
    Job,
    Launch,
    Mount,
    base_environment,
    command_line,
    host_environment,
    resource_limits,
)

MARKER = "BENCH_JOB"
"""Environment variable by which stray processes of a job are found again."""


class ProcessSandbox:
    """Runs a job as it is: it sees this machine's files, network and processes."""

    name = "process"
    isolated = False
    private: Sequence[str] = ()
    image = ""

    def interpreter(self, python: Path) -> str:
        return str(python)

    def guest_path(self, mount: Mount) -> str:
        return str(mount.source)

    @property
    def library(self) -> str:
        return str(GUEST.parents[1])

    def launch(self, job: Job) -> Launch:
        status = StatusPipe()
        tmp = Path(tempfile.mkdtemp(prefix="mldb-job-", dir=job.scratch))
        home = tmp / "home"
        home.mkdir()
        python = job.python or Path(sys.executable)
        env = base_environment(home=str(home), tmp=str(tmp), python=python, cpus=job.limits.cpus, also=job.interpreters)
        mark = {MARKER: tmp.name}
        orders = {
            "argv": command_line(job, python),
            "environment": {**env, **job.env, **mark},
            "status": status.write,
            "sockets": {name: str(path) for name, path in job.sockets.items()},
            "limits": resource_limits(job.limits),
            "adopt": True,
            "parent": os.getpid(),
        }
        group = new_group(job.limits)

        def control(popen: subprocess.Popen[bytes]) -> Control:
            status.started()
            return ProcessControl(status, popen, tmp, group)

        def abandon() -> None:
            status.abandon()
            remove_tree(tmp)
            if group is not None:
                group.remove()

        argv = [sys.executable, "-I", "-S", "-B", str(GUEST / "first_process.py")]
        if group is not None:
            argv = group.joined(argv)
        limits = "memory and processes watched" if group is None else group.about
        return Launch(argv, host_environment(orders) | mark, control, abandon, [status.write], limits)


class ProcessControl(TreeControl):
    """A tree that a process could have left: strays are found by their environment."""

    def __init__(self, status: StatusPipe, popen: subprocess.Popen[bytes], folder: Path, group: Group | None) -> None:
        super().__init__(status, popen, isolated=False, group=group)
        self._folder = folder

    def release(self) -> None:
        super().release()
        _end_marked(self._folder.name)
        with contextlib.suppress(OSError):
            remove_tree(self._folder)


def _end_marked(name: str) -> None:
    """End processes that escaped by killing the job's first process."""
    wanted = f"{MARKER}={name}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    send_signal(int(entry), signal.SIGKILL)
