"""What a Python program shows on a terminal of a width, and what everywhere else."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.terminal_screen import written_to
from tests.helpers.cells import ROOT


def on_terminal(code: str, width: int = 80, **env: str) -> str:
    """What a Python program writes to a terminal of this width."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name not in ("CI", "COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=follower, stderr=follower, cwd=ROOT, env={**plain, "TERM": "xterm", **env}
    )
    os.close(follower)
    written = b"".join(written_to(leader))
    os.close(leader)
    assert process.wait(timeout=60) == 0, written.decode()
    return written.decode()


def elsewhere(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={**os.environ, **env}, check=True
    )


FLOOR = [sys.executable, "-c", "print('x', flush=True)"]
"""An interpreter that only prints."""
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class First:
    """The first byte of a command: when it came, and what it cost until then, in seconds."""

    wall: float
    cpu: float
    said: str


def first_output(command: Sequence[str], folder: Path) -> First:
    """Start a command on a terminal, wait for its first byte, and end it."""
    leader, follower = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, cwd=folder, env=environment | {"TERM": "xterm"},
        start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    try:
        said = os.read(leader, 200)
    except OSError:  # it ended without a word
        said = b""
    wall, used = time.monotonic() - began, _cpu_of(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(_PATIENCE_S)
    os.close(leader)
    return First(wall, used, said.decode(errors="replace"))


def _cpu_of(process: int) -> float:
    """Seconds of CPU of a process and its threads; without those of its children, which work beside it."""
    nanoseconds = 0
    for task in Path(f"/proc/{process}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            nanoseconds += int(task.read_text().split()[0])
    return nanoseconds / 1e9
