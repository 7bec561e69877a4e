"""A started container as the runner sees it: through its control group, its attendant's notes, and the engine."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.guest.trees import remove_tree
from bench.sandbox.cgroup import CONTROLLERS, CPU_TIME, Group
from bench.sandbox.docker.engine import Engine, EngineError
from bench.sandbox.job import EndReason, NetworkAttempts
from bench.sandbox.starvation import groups_like

_END_S = 20.0
_STATISTICS_S = 5.0
_PART = 4096
_ROOT = Path("/sys/fs/cgroup")


@dataclass
class Belongings:
    """What was made on this machine for one container."""

    folder: Path
    listener: int
    orders: int
    lent: Sequence[Path] = ()
    """Owned by the container's user while it lives."""
    hold: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Keeps the folder from being removed as a dead runner's."""
    notes: tuple[int, int] = field(default_factory=os.pipe)
    lifeline: tuple[int, int] = field(default_factory=os.pipe)

    @property
    def handed_over(self) -> list[int]:
        """Descriptors for the attendant, in the order in which it expects them."""
        return [self.orders, self.notes[1], self.lifeline[0], self.listener]

    def let_go(self) -> None:
        """End the lifeline, upon which the attendant ends the container."""
        if self.lifeline[1] >= 0:
            os.close(self.lifeline[1])
            self.lifeline = (-1, -1)

    def give_back(self) -> None:
        """Own again what the container's user made, and remove the folder."""
        self.let_go()
        os.close(self.notes[0])
        # The number may soon be that of another file, and the control still asks for notes.
        self.notes = (-1, -1)
        change_owner(self.lent, os.getuid(), os.getgid())
        with contextlib.suppress(OSError):
            remove_tree(self.folder)
        self.hold.close()


class DockerControl:
    """One container and the process that attends it."""

    def __init__(self, engine: Engine, name: str, own: Belongings, cap_mb: int, popen: subprocess.Popen[bytes]) -> None:
        os.set_blocking(own.notes[0], False)
        self._popen = popen
        self._engine = engine
        self._name = name
        self._own = own
        self._cap_mb = cap_mb
        self._alive = True
        self._group: Group | None = None
        self._unread = b""
        self._noted: dict[str, Any] = {}
        self._hit: EndReason | None = None
        self._cpu_s: float | None = None
        """Last known: the engine removes a group with its container."""

    def came_up(self) -> bool:
        return bool(self._notes().get("up"))

    def seen_status(self) -> int | None:
        status = self._notes().get("report", {}).get("status")
        return None if status is None else int(status)

    def processes(self) -> Sequence[int]:
        self._notes()
        return self._group.processes() if self._group else []

    def memory_mb(self, limit_mb: float) -> float:
        if self.limit_hit() == "memory_limit":
            # The processes that were killed for it hold nothing any more.
            return self._cap_mb
        return self._group.memory_mb() if self._group else 0.0

    def cpu_s(self) -> float | None:
        noted = self._notes()
        if self._group is not None:
            used = self._group.cpu_s()
        else:
            used = self._engines_count() if "groups" in noted and self._alive else None
        if used is not None:
            self._cpu_s = max(self._cpu_s or 0.0, used)
        return self._cpu_s

    def _engines_count(self) -> float | None:
        """Of an engine whose groups this process cannot see."""
        query = {"stream": "0", "one-shot": "1"}
        try:
            said = self._engine.call("GET", f"/containers/{self._name}/stats", query=query, timeout_s=_STATISTICS_S)
            # Of a container that has ended there are numbers, too: zeros.
            return int(said["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9
        except (EngineError, KeyError, TypeError, ValueError):
            return None

    def counts_cpu(self) -> bool:
        return self.cpu_s() is not None

    def groups_beside(self) -> Sequence[Path]:
        """Of all containers of the engine."""
        self._notes()
        folder = self._group.folders.get(CPU_TIME) if self._group is not None else None
        return [] if folder is None else groups_like(folder)

    def limit_hit(self) -> EndReason | None:
        self._notes()
        if self._hit is None and self._group is not None:
            self._hit = self._group.limit_hit()
        return self._hit

    def network_attempts(self) -> NetworkAttempts:
        said = [self._notes().get(name, {}) for name in ("seen", "report")]
        addresses, names = (max(int(it.get(key, 0)) for it in said) for key in ("addresses", "names"))
        return NetworkAttempts(addresses, names)

    def end(self) -> None:
        if self._popen.poll() is None:
            self._own.let_go()
            try:
                self._popen.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait()
        if self._alive and not self._notes().get("removed"):
            # Its attendant was killed, or the engine was away.
            with contextlib.suppress(EngineError):
                self._engine.remove(self._name)
        self._alive = False

    def _notes(self) -> dict[str, Any]:
        with contextlib.suppress(OSError):
            while part := os.read(self._own.notes[0], _PART):
                self._unread += part
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            note = json.loads(line)
            self._noted |= note
            self._hit = self._hit or note.get("hit")
            if "groups" in note:
                self._group = group_of(note["groups"], self._cap_mb)
        return self._noted


def change_owner(paths: Sequence[Path], user: int, group: int) -> None:
    """Own these and everything below them, links themselves included, however deep it is nested."""
    if paths:
        command = ["chown", "--recursive", "--no-dereference", "--", f"{user}:{group}", *map(str, paths)]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


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
        folders = {name: _ROOT / name / theirs[name].lstrip("/") for name in (*CONTROLLERS, CPU_TIME) if name in theirs}
    elif theirs.get("", "/") not in ("/", ours.get("")):
        folders, version = dict.fromkeys((*CONTROLLERS, CPU_TIME), _ROOT / theirs[""].lstrip("/")), 2
    in_force = tuple(name for name in CONTROLLERS if name in folders)
    group = Group(folders, dict.fromkeys(folders, version), cap_mb, in_force)
    return group if folders and all((place / "cgroup.procs").is_file() for place in group.paths) else None


def _by_controller(text: str) -> dict[str, str]:
    """Path in each hierarchy, by controller; version 2 has no name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found
