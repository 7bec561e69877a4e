"""What this machine can do: each finding with its remedy."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from bench.base.errors import UserError
from bench.cell import this_machine
from bench.cli.options import as_json
from bench.sandbox import (
    EngineError,
    find_address,
    find_engine,
    leftovers,
    open_client,
    probe_bubblewrap,
    probe_cgroups,
    probe_docker,
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


def check_health(cache: Path) -> Iterator[HealthCheck]:
    """Look at everything that a run may need; starts a sandbox, reaches no network."""
    machine = this_machine()
    yield HealthCheck(
        "machine", "ok", f"{machine.system}, {machine.cores} cores, {machine.memory_mb / 1024:.0f} GiB, {machine.cpu}"
    )
    yield _python()
    bubblewrap = probe_bubblewrap()
    yield HealthCheck("bubblewrap", "ok" if bubblewrap.works else "missing", bubblewrap.detail, bubblewrap.remedy)
    yield _limits()
    yield from _docker()
    yield HealthCheck(
        "process sandbox", "note", "always there, isolates nothing", "ask for it by name: --sandbox process"
    )
    yield _disk(cache)
    yield _gpu(machine.gpu)
    for name in _ML_STACK:
        yield _package(name, "ml")
    yield _package("jinja2", "site")
    yield _package("litellm", "gateway")
    yield _git()


def _python() -> HealthCheck:
    version = platform.python_version()
    good = sys.version_info >= (3, 11)
    return HealthCheck(
        "python", "ok" if good else "missing", f"{version} at {sys.executable}", "" if good else "use 3.11 or newer"
    )


def _limits() -> HealthCheck:
    probe = probe_cgroups()
    return HealthCheck("limits", "ok" if probe.works else "note", probe.detail, probe.remedy)


def _docker() -> Iterator[HealthCheck]:
    probe = probe_docker()
    yield HealthCheck("docker", "ok" if probe.works else "note", probe.detail, probe.remedy)
    try:
        yield _engine()
    except UserError as error:
        if str(error) != probe.detail:
            yield HealthCheck("engine", "note", str(error))
    left = []
    with contextlib.suppress(UserError, EngineError):
        left = leftovers(find_engine())
    if left:
        yield HealthCheck("containers", "note", f"{len(left)} of runners that were killed", "the next run removes them")


def _engine() -> HealthCheck:
    """Of any engine, one of another machine too: that runs no cells, but its images can be looked at."""
    address = find_address()
    with open_client() as client:
        said = client.version()
    system = f"{said['Os']}/{said['Arch']}"
    detail = f"{said['Version']}, API {said['ApiVersion']}, {system}; {address.named_by}: {address.url}"
    return HealthCheck("engine", "ok", detail)


def _disk(cache: Path) -> HealthCheck:
    place = cache
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / (1 << 30)
    state: Literal["ok", "missing"] = "ok" if free >= _MIN_FREE_GIB else "missing"
    return HealthCheck(
        "disk",
        state,
        f"{free:.0f} GiB free for the cache at {cache}",
        "" if state == "ok" else "make room or set ML_DEV_BENCH_CACHE to a larger disk",
    )


def _gpu(name: str) -> HealthCheck:
    if name:
        return HealthCheck("gpu", "ok", name)
    if os.path.exists("/dev/nvidia0"):
        return HealthCheck("gpu", "missing", "a device, but nvidia-smi does not answer", "install the driver's tools")
    return HealthCheck("gpu", "note", "none", "profile mini needs none; profile full does")


def _package(name: str, extra: str) -> HealthCheck:
    if importlib.util.find_spec(name) is None:
        return HealthCheck(name, "missing", "not installed", f"pip install 'ml-dev-bench[{extra}]'")
    return HealthCheck(name, "ok", importlib.metadata.version(_DISTRIBUTIONS.get(name, name)))


def _git() -> HealthCheck:
    program = shutil.which("git")
    if program is None:
        return HealthCheck("git", "missing", "not installed", "install git: results are stored in a branch")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    return HealthCheck("git", "ok", done.stdout.strip().removeprefix("git version "))


@click.command()
@as_json()
def doctor(as_json: bool) -> None:
    """Tell what this machine can do: sandboxes, GPU, disk, Python, ML stack; each line with its remedy."""
    from bench.base.install import find_data_folders
    from bench.report import table

    findings = list(check_health(find_data_folders().cache))
    if as_json:
        click.echo(json.dumps([vars(finding) for finding in findings], indent=1))
        return
    rows = [(it.state, it.name, f"{it.detail}{f'  -> {it.remedy}' if it.remedy else ''}") for it in findings]
    click.echo(table(rows, colours={"ok": "green", "missing": "red", "note": "yellow"}))
