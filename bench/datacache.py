"""The state a trial starts from: starter files plus generated data, built once per case, profile and seed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.case import Case
from bench.errors import InfraError
from bench.files import lay_over, remove_tree
from bench.sandbox.orders import base_environment

_BUILD_S = 600


@dataclass(frozen=True)
class Start:
    """What a trial begins with; shared and never written to."""

    workspace: Path
    """Starter files with the public data laid over them."""
    hidden: Path
    """What only the judge and the services see."""


def public_seed(suite_version: str, case: str, trial: int) -> int:
    """Seed of the public data: two agents meet the same data at the same trial."""
    digest = hashlib.sha256(f"{suite_version}\0{case}\0{trial}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def start_of(case: Case, profile: str, seed: int, cache: Path) -> Start:
    """The start of a trial from the cache, built first if it is not there; raises `InfraError`."""
    has_data = case.part("data.py").is_file()
    name = f"{case.id}-{case.digest[7:23]}-{profile}-{seed if has_data else 0}"
    place = cache / "starts" / name
    if not (place / "complete").is_file():
        _build(case, profile, seed, place)
    return Start(place / "workspace", place / "hidden")


def _build(case: Case, profile: str, seed: int, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
    try:
        workspace, hidden, public = (folder / name for name in ("workspace", "hidden", "public"))
        for made in (workspace, hidden, public):
            made.mkdir()
        lay_over(case.part("workspace"), workspace)
        if case.part("data.py").is_file():
            build_data(case, profile, seed, public, hidden)
        lay_over(public, workspace)
        remove_tree(public)
        (folder / "complete").touch()
        try:
            os.rename(folder, place)
        except OSError:
            # Somebody else was faster, or a half-built one of a killed runner lies there.
            if not (place / "complete").is_file():
                remove_tree(place)
                os.rename(folder, place)
    finally:
        remove_tree(folder)


def build_data(case: Case, profile: str, seed: int, public: Path, hidden: Path) -> None:
    """Run the case's data.py in a process of its own; raises `InfraError` with what it printed."""
    orders = {
        "script": str(case.part("data.py")),
        "public": str(public),
        "hidden": str(hidden),
        "profile": profile,
        "seed": seed,
    }
    python = Path(sys.executable)
    try:
        done = subprocess.run(
            [str(python), "-I", "-B", "-c", "from bench.dataset import build_main; build_main()"],
            input=json.dumps(orders).encode() + b"\n",
            env=base_environment(home="/nonexistent", tmp=tempfile.gettempdir(), python=python, cpus=1),
            capture_output=True,
            timeout=_BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InfraError("data_error", f"data.py of {case.id} took over {_BUILD_S} s") from None
    if done.returncode != 0:
        text = done.stderr.decode("utf-8", "replace").strip()[-1500:]
        raise InfraError("data_error", f"data.py of {case.id} failed: {text}")
