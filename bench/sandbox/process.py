"""No isolation: a plain process tree of this machine, under the same limits. Must be asked for by name."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.guest.trees import remove_tree
from bench.sandbox.cgroup_location import new_group
from bench.sandbox.control import StatusPipe, TreeControl, send_signal
from bench.sandbox.gpu import GPU_LIMIT
from bench.sandbox.job import GUEST, Job, Launch, Mount
from bench.sandbox.orders import host_environment, orders_for

MARKER = "BENCH_JOB"
"""Environment variable by which processes that left a job's tree are found again."""


class ProcessSandbox:
    """Runs a job as it is: it sees this machine's files, network and processes."""

    name = "process"
    isolated = False
    private: Sequence[str] = ()
    image = ""
    other_user = False
    library = str(GUEST.parents[1])

    def interpreter(self, python: Path) -> str:
        return str(python)

    def guest_path(self, mount: Mount) -> str:
        return str(mount.source)

    def launch(self, job: Job) -> Launch:
        status = StatusPipe()
        tmp = Path(tempfile.mkdtemp(prefix="mldb-job-", dir=job.scratch))
        (tmp / "home").mkdir()
        mark = {MARKER: tmp.name}
        orders = orders_for(job, job.python or Path(sys.executable), tmp)
        orders["environment"] |= mark
        orders |= {"status": status.write, "adopt": True, "parent": os.getpid()}
        group = new_group(job.limits)

        def release() -> None:
            status.close()
            if group is not None:
                group.remove()
            _end_marked(tmp.name)
            with contextlib.suppress(OSError):
                remove_tree(tmp)

        argv = [sys.executable, "-I", "-S", "-B", str(GUEST / "first_process.py")]
        if group is not None:
            argv = group.joined(argv)
        limits = "memory and processes watched" if group is None else group.about
        limits += GPU_LIMIT if job.cell_environment.gpu is not None else ""
        control = partial(TreeControl, status, isolated=False, group=group)
        return Launch(argv, host_environment(orders) | mark, control, release, [status.write], limits)


def _end_marked(name: str) -> None:
    """End processes that escaped by killing the job's first process."""
    wanted = f"{MARKER}={name}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    send_signal(int(entry), signal.SIGKILL)
