"""What this machine can do, each finding with its remedy, as `doctor` prints it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.base.errors import UserError
from bench.cell import this_machine
from bench.sandbox import (
    EngineError,
    find_address,
    find_engine,
    leftovers,
    open_client,
    open_sandbox,
    probe_bubblewrap,
    probe_cgroups,
    probe_docker,
    probe_forks,
)

_MIN_FREE_GIB = 5
_ML_STACK = ("numpy", "pandas", "torch", "sklearn", "safetensors", "wandb")
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}


@dataclass(frozen=True)
class HealthCheck:
    """One thing looked at."""

    name: str
    state: Literal["ok", "missing", "note"]
    detail: str
    remedy: str = ""


def check_health(cache: Path, cases: Path | None = None) -> Iterator[HealthCheck]:
    """Check everything that a run may need; starts a sandbox and does not use the network.

    cases: folder of the cases whose libraries are looked for.
    """
    machine = this_machine()
    yield HealthCheck(
        "machine", "ok", f"{machine.system}, {machine.cores} cores, {machine.memory_mb / 1024:.0f} GiB, {machine.cpu}"
    )
    # An older Python cannot import this module, so there is nothing to check.
    yield HealthCheck("python", "ok", f"{platform.python_version()} at {sys.executable}")
    bubblewrap, cgroups = probe_bubblewrap(), probe_cgroups()
    yield HealthCheck("bubblewrap", "ok" if bubblewrap.works else "missing", bubblewrap.detail, bubblewrap.remedy)
    yield HealthCheck("limits", "ok" if cgroups.works else "note", cgroups.detail, cgroups.remedy)
    if bubblewrap.works:
        forks = probe_forks(open_sandbox("bubblewrap"))
        yield HealthCheck("calls", "ok" if forks.works else "note", forks.detail, forks.remedy)
    yield from _docker()
    yield HealthCheck("process sandbox", "note", "always works, isolates nothing", "choose it with --sandbox process")
    yield _disk(cache)
    yield _gpu(machine.gpu)
    for name in _ML_STACK:
        yield _package(name, "ml")
    if cases is not None:
        yield _cases(cases)
    yield _package("jinja2", "site")
    yield _package("litellm", "gateway")
    yield _git()


def _docker() -> Iterator[HealthCheck]:
    probe = probe_docker()
    yield HealthCheck("docker", "ok" if probe.works else "note", probe.detail, probe.remedy)
    try:
        yield _engine()
    except UserError as error:
        # Usually the probe has already reported the same fault.
        if error.fault != probe.detail:
            yield HealthCheck("engine", "note", str(error))
    left = []
    with contextlib.suppress(UserError, EngineError):
        left = leftovers(find_engine())
    if left:
        yield HealthCheck("containers", "note", f"{len(left)} of runners that were killed", "the next run removes them")


def _engine() -> HealthCheck:
    """Any engine, also one on another machine: it cannot run cells, but its images can be listed."""
    address = find_address()
    with open_client() as client:
        said = client.version()
    system = f"{said['Os']}/{said['Arch']}"
    detail = f"{said['Version']}, API {said['ApiVersion']}, {system}; {address.named_by}: {address.url}"
    return HealthCheck("engine", "ok", detail)


def _disk(cache: Path) -> HealthCheck:
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(existing).free / (1 << 30)
    detail = f"{free:.0f} GiB free for the cache at {cache}"
    if free >= _MIN_FREE_GIB:
        return HealthCheck("disk", "ok", detail)
    return HealthCheck("disk", "missing", detail, "free disk space, or set ML_DEV_BENCH_CACHE to a larger disk")


def _gpu(name: str) -> HealthCheck:
    if name:
        return HealthCheck("gpu", "ok", f"{name}; --gpu tries it in each sandbox")
    # A container may get the device without the driver's programs.
    if os.path.exists("/dev/nvidia0"):
        return HealthCheck("gpu", "missing", "a device, but nvidia-smi does not answer", "install the driver's tools")
    return HealthCheck("gpu", "note", "none", "profile mini needs none; some cases of profile full do")


def _package(name: str, extra: str) -> HealthCheck:
    if importlib.util.find_spec(name) is None:
        return HealthCheck(name, "missing", "not installed", f"pip install 'ml-dev-bench[{extra}]'")
    return HealthCheck(name, "ok", importlib.metadata.version(_DISTRIBUTIONS.get(name, name)))


def _cases(root: Path) -> HealthCheck:
    """Which cases, in which profile, cannot run here for want of a library."""
    from bench.cli.case_lines import case_facts
    from bench.formats.case import load_cases

    lacking: dict[str, list[str]] = {}
    cases = load_cases(root)
    for case in cases:
        for profile, modules in case_facts(case)["missing"].items():
            for module in modules:
                lacking.setdefault(module, []).append(f"{case.id} ({profile})")
    if not lacking:
        return HealthCheck("cases", "ok", f"the libraries of all {len(cases)} cases are here")
    said = "; ".join(f"{module}: {', '.join(names)}" for module, names in sorted(lacking.items()))
    remedy = "pip install 'ml-dev-bench[ml]', or the requirements.txt in the case's folder environment/"
    return HealthCheck("cases", "note", f"skipped for want of a library: {said}", remedy)


def _git() -> HealthCheck:
    program = shutil.which("git")
    if program is None:
        return HealthCheck("git", "missing", "not installed", "install git: results are stored in a branch")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    return HealthCheck("git", "ok", done.stdout.strip().removeprefix("git version "))
