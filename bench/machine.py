"""The machine class: times are compared only within one fingerprint."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess

from bench.files import sha256_bytes
from bench.record import Machine


@functools.lru_cache(maxsize=1)
def this_machine() -> Machine:
    """What this machine is made of."""
    cpu, gpu = _cpu(), _gpu()
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.machine()}"
    # Memory rounded to GiB: kernels differ by some pages on equal machines.
    fingerprint = sha256_bytes(f"{system}|{cpu}|{cores}|{round(memory_mb / 1024)}|{gpu}".encode())[7:19]
    return Machine(
        fingerprint=fingerprint,
        system=system,
        cpu=cpu,
        cores=cores,
        memory_mb=memory_mb,
        gpu=gpu,
        python=platform.python_version(),
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpu() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ", ".join(sorted(done.stdout.split("\n")[:-1])) if done.returncode == 0 else ""
