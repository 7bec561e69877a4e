"""What a case needs and this machine, or the sandbox that was chosen, does not have."""

from __future__ import annotations

import os
from pathlib import Path

from bench.cell.machine import this_machine
from bench.formats.case import Needs, missing_modules
from bench.sandbox import Sandbox

_ROUTES = Path("/proc/net/route")
_EVERYWHERE = "00000000"


def unmet_needs(needs: Needs, sandbox: Sandbox) -> str:
    """Why a case with these needs cannot run here, with the remedy; empty where it can. Looks without importing."""
    reasons = []
    if missing := missing_modules(needs.python):
        reasons.append(f"modules are missing: {', '.join(missing)}; pip install 'ml-dev-bench[ml]'")
    if needs.gpu and not has_gpu():
        reasons.append("a GPU is missing; use a machine that has one")
    elif needs.gpu and sandbox.name == "bubblewrap":
        reasons.append("the sandbox bubblewrap does not pass on a GPU; use --sandbox docker")
    # Of the machine, not of the sandbox: data.py, services and the provider's own tools work outside of it.
    if needs.network and not _has_network():
        reasons.append("a network is missing; use a machine that has one")
    return "; ".join(reasons)


def has_gpu() -> bool:
    """Whether this machine offers a GPU to jobs."""
    # A container may get the device without the driver's programs.
    return bool(this_machine().gpu) or os.path.exists("/dev/nvidia0")


def _has_network() -> bool:
    """Whether a route leads out of this machine; asks no other machine."""
    try:
        lines = _ROUTES.read_text().splitlines()[1:]
    except OSError:
        return False
    return any(line.split()[1:2] == [_EVERYWHERE] for line in lines)
