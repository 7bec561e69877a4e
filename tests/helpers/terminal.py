"""What a Python program shows on a terminal of a width, and what everywhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

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
    written = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(leader)
    assert process.wait(timeout=60) == 0, written.decode()
    return written.decode()


def elsewhere(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={**os.environ, **env}, check=True
    )
