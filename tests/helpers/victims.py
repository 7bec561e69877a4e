"""The processes of a run by what they are, and how one of them is killed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from bench.guest.first_process import descendants

KINDS = ("runner", "judge", "gateway", "init", "sandbox", "agent", "services", "builder")
OURS = tuple(kind for kind in KINDS if kind != "agent")
"""Whose end is never the agent's fault; an agent that is killed has crashed."""
_MARKS = {
    "judge": "bench.judge.server",
    "gateway": "bench.gateway.process",
    "init": "guest/first_process.py",
    "services": "bench.cell.services",
    "builder": "bench.casekit.data",
    "agent": "/main.py",
}
_DYING_S = 5.0


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def described(pid: int) -> str:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        return f"process {pid}, state and parent {state}: {' '.join(_words(pid))[:200]}"
    return f"process {pid}, just gone"


def kind_of(pid: int) -> str:
    """What this process of a run is; empty: nothing that has a name."""
    words = _words(pid)
    text = " ".join(words)
    program = words[0].rpartition("/")[2] if words else ""
    if program == "bwrap":
        return "sandbox"
    if not program.startswith("python"):
        # Such as the shell that takes bubblewrap into its control group, and names all that comes after it.
        return ""
    for kind, mark in _MARKS.items():
        if mark in text:
            return kind
    return ""


def victims(runner: int, kind: str, folder: Path) -> list[int]:
    """The processes of one kind below a runner; of sandboxes those of its run, not of the probe before it."""
    found = [pid for pid in descendants(runner) if kind_of(pid) == kind]
    return [pid for pid in found if kind not in ("init", "sandbox") or _is_of_run(pid, folder)]


def _is_of_run(pid: int, folder: Path) -> bool:
    """Bubblewrap is told what to mount, and its child is the first process inside; without it there is no probe."""
    with contextlib.suppress(OSError):
        starter = pid if kind_of(pid) == "sandbox" else _parent(pid)
        if kind_of(starter) == "init":
            # Forked from the first process, and for a moment yet its likeness.
            return False
        return kind_of(starter) != "sandbox" or any(word.startswith(f"{folder}/out/") for word in _words(starter))
    return False


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def cell_of(agent: int) -> str:
    """Which cell an agent's process works on, as far as it can be seen."""
    with contextlib.suppress(OSError):
        return f"{_words(agent)[-2:]} {Path(f'/proc/{agent}/cwd/seed.txt').read_text()}"
    return ""


def kill(pid: int, kind: str) -> bool:
    """Kill this very process if it is still of that kind; a number may have found another owner meanwhile."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if kind != "runner" and kind_of(pid) != kind:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [], _DYING_S)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def strike(
    process: subprocess.Popen[bytes], kind: str, folder: Path, spared: set[str], patience_s: float = 3.0
) -> bool:
    """Kill a process of this kind as soon as there is one; `spared`: cells whose agent was killed before."""
    if kind == "runner":
        return process.poll() is None and kill(process.pid, kind)
    until = time.monotonic() + patience_s
    while process.poll() is None and time.monotonic() < until:
        for pid in victims(process.pid, kind, folder):
            cell = cell_of(pid) if kind == "agent" else ""
            if kind == "agent" and (not cell or cell in spared):
                continue
            if kill(pid, kind):
                spared |= {cell} - {""}
                return True
        time.sleep(0.005)
    return False
