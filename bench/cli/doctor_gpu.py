"""`ml-dev-bench doctor --gpu`: whether a job in each sandbox has a GPU that works, and what is missing otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.base.errors import InfraError
from bench.cli.health import HealthCheck
from bench.sandbox import (
    CellEnvironment,
    Gpu,
    GpuRoots,
    Job,
    JobLimits,
    Mount,
    Sandbox,
    find_gpus,
    missing_parts,
    open_sandbox,
    probe_bubblewrap,
    probe_docker,
    run_job,
)

_WALL_S = 120.0
# As CUDA programs do: the library by its name, the driver's first call, then what torch makes of both.
_PROBE = """
import ctypes, glob, importlib.util, json, os
nodes = [path for path in glob.glob("/dev/nvidia*") + glob.glob("/dev/nvidia*/*") if not os.path.isdir(path)]
facts = {"devices": sorted(nodes), "library": "", "status": None, "count": 0, "torch": None}
try:
    library = ctypes.CDLL("libcuda.so.1")
    facts["status"] = library.cuInit(0)
    count = ctypes.c_int()
    if facts["status"] == 0 and library.cuDeviceGetCount(ctypes.byref(count)) == 0:
        facts["count"] = count.value
except (OSError, AttributeError) as error:
    facts["library"] = str(error)
if importlib.util.find_spec("torch"):
    import torch
    facts["torch"] = [torch.__version__, torch.version.cuda, torch.cuda.is_available()]
print(json.dumps(facts))
"""


def check_gpus(roots: GpuRoots | None = None) -> Iterator[HealthCheck]:
    """The GPUs of this machine, what their driver lacks, and a probe of each in every sandbox that isolates."""
    gpus = find_gpus(roots)
    if not gpus:
        remedy = "install NVIDIA's driver: nvidia-smi must list the GPU; in a container, pass its device nodes on"
        yield HealthCheck("gpu", "missing", "no device /dev/nvidia0 or further", remedy)
        return
    for gpu in gpus:
        yield HealthCheck(f"gpu {gpu.minor}", "ok", f"{gpu.uuid or 'its UUID is not known'}; {_told(gpu)}")
    for name, remedy in missing_parts(gpus[0]):
        yield HealthCheck("gpu driver", "missing", name, remedy)
    for name, probe in (("bubblewrap", probe_bubblewrap()), ("docker", probe_docker())):
        if not probe.works:
            yield HealthCheck(f"gpu in {name}", "note", probe.detail, probe.remedy)
            continue
        for gpu in gpus:
            yield _probed(f"gpu {gpu.minor} in {name}", open_sandbox(name), gpu)


def _told(gpu: Gpu) -> str:
    return f"{', '.join(place for _, place in gpu.devices)}; {len(gpu.libraries)} names of driver libraries"


def _probed(name: str, sandbox: Sandbox, gpu: Gpu) -> HealthCheck:
    """Run the probe as an agent's job would run."""
    place = Mount(Path("/usr/share"), "/workspace")
    job = Job(["python", "-c", _PROBE], [place], place, JobLimits(_WALL_S), cell_environment=CellEnvironment(gpu=gpu))
    try:
        ended = run_job(sandbox, job)
    except (InfraError, OSError) as error:
        last = str(error).strip().splitlines()[-1][:300]
        return HealthCheck(name, "missing", f"the sandbox does not start with it: {last}", "see what `doctor` says")
    try:
        facts = json.loads(ended.stdout)
    except ValueError:
        last = (ended.stderr.decode(errors="replace").strip().splitlines() or [ended.reason])[-1][:300]
        return HealthCheck(name, "missing", f"the probe ended with status {ended.code}: {last}")
    return _finding(name, facts, sandbox, gpu)


def _finding(name: str, facts: Mapping[str, Any], sandbox: Sandbox, gpu: Gpu) -> HealthCheck:
    devices = sorted(place for _, place in gpu.devices)
    seen = f"{len(facts['devices'])} device nodes"
    if facts["devices"] != devices:
        fault = f"the job sees {facts['devices']}, not {devices}"
        return HealthCheck(name, "missing", fault, "look at the sandbox's own messages; `doctor` checks it")
    if facts["library"]:
        remedy = "install the driver's libraries (libnvidia-compute, or libcuda1), then ldconfig"
        return HealthCheck(name, "missing", f"{seen}; libcuda.so.1 does not load: {facts['library'][:200]}", remedy)
    if facts["status"] != 0 or facts["count"] != 1:
        fault = f"{seen}; the driver starts with status {facts['status']} and shows {facts['count']} GPUs"
        return HealthCheck(name, "missing", fault, "compare with nvidia-smi outside; driver and libraries must match")
    if facts["torch"] is None:
        return HealthCheck(name, "ok", f"{seen}; the driver shows 1 GPU; torch is not installed there")
    version, cuda, works = facts["torch"]
    if works:
        return HealthCheck(name, "ok", f"{seen}; the driver shows 1 GPU; torch {version} computes on it")
    where = "in the image: build it without the CPU index of torch" if sandbox.image else "install torch with CUDA"
    fault = f"torch {version} is a build without CUDA" if cuda is None else f"torch {version} (CUDA {cuda}) finds none"
    return HealthCheck(name, "missing", f"{seen}; the driver shows 1 GPU; {fault}", f"{where}, see docs/gpu.md")
