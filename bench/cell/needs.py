"""What a case needs and this machine, or the sandbox that was chosen, does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.formats.case import missing_modules
from bench.formats.case_parts import Needs
from bench.sandbox import Gpu, GpuRoots, JobLimits, Sandbox, find_gpus, missing_parts, new_group

_ROUTES = Path("/proc/net/route")
_EVERYWHERE = "00000000"


def unmet_needs(needs: Needs, roots: GpuRoots | None = None, sandbox: Sandbox | None = None) -> str:
    """Why a case with these needs cannot run here, with the remedy; empty where it can. Looks without importing."""
    reasons = []
    if missing := missing_modules(needs.python):
        reasons.append(f"modules are missing: {', '.join(missing)}; pip install 'ml-dev-bench[ml]'")
    if needs.gpu:
        reasons += _unmet_gpu(find_gpus(roots))
    # Of the machine, not of the sandbox: data.py, services and the provider's own tools work outside of it.
    if needs.network and not _has_network():
        reasons.append("a network is missing; use a machine that has one")
    if needs.cpu_time and sandbox is not None and not _counts_cpu(sandbox):
        # A process that nobody waits for is in no sum that an ordinary user can make.
        reasons.append(
            "CPU time cannot be counted; give the runner a control group, run it as root, or use --sandbox docker"
        )
    return "; ".join(reasons)


def _counts_cpu(sandbox: Sandbox) -> bool:
    """What does not isolate ranks nothing, and a container's time is counted by its engine."""
    if not sandbox.isolated or sandbox.name == "docker":
        return True
    group = new_group(JobLimits(wall_s=1))
    if group is None:
        return False
    try:
        return group.counts_cpu
    finally:
        group.remove()


def _unmet_gpu(gpus: Sequence[Gpu]) -> Iterator[str]:
    if not gpus:
        yield "a GPU is missing; use a machine that has one"
    elif missing := [name for name, _ in missing_parts(gpus[0])]:
        yield f"a GPU is there, but not {', '.join(missing)}; `ml-dev-bench doctor --gpu` tells the remedy"


def _has_network() -> bool:
    """Whether a route leads out of this machine; asks no other machine."""
    try:
        lines = _ROUTES.read_text().splitlines()[1:]
    except OSError:
        return False
    return any(line.split()[1:2] == [_EVERYWHERE] for line in lines)
