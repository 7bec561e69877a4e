"""Where the kernel keeps count of a container: its control group, made by the engine, seen from this machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

from bench.sandbox.group import CONTROLLERS, Group

_ROOT = Path("/sys/fs/cgroup")


def memberships(process: int) -> str:
    """The groups of a process that lives; of one that is ending the kernel says that it is in none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cgroup").read_text(encoding="utf-8", errors="replace")
    return ""


def group_of(container: str, cap_mb: int) -> Group | None:
    """The group of a container's process, from its `memberships`; None where this process cannot see it, or shares it.

    cap_mb: the limit that the engine was told to set on its memory.
    """
    theirs, ours = _by_controller(container), _by_controller(memberships(os.getpid()))
    folders: dict[str, Path] = {}
    version: Literal[1, 2] = 1
    if theirs.get("memory", "/") not in ("/", ours.get("memory")):
        folders = {name: _ROOT / name / theirs[name].lstrip("/") for name in CONTROLLERS if name in theirs}
    elif theirs.get("", "/") not in ("/", ours.get("")):
        folders, version = dict.fromkeys(CONTROLLERS, _ROOT / theirs[""].lstrip("/")), 2
    group = Group(folders, dict.fromkeys(folders, version), cap_mb, tuple(folders))
    return group if folders and all((place / "cgroup.procs").is_file() for place in group.places) else None


def _by_controller(text: str) -> dict[str, str]:
    """Path in each hierarchy, by controller; version 2 has no name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found
