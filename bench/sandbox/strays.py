"""Halves of bubblewrap that nobody waits for: one that loses its other half while it starts stands still for ever."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

_FIRST = 1


def end_strays(folders: Sequence[Path]) -> None:
    """End bubblewrap processes of this user that have lost their parent and were started with one of `folders`.

    To be called by who holds these folders: no living runner works there then.
    """
    marks = [os.fsencode(f"{folder}/") for folder in folders]
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if _is_stray(Path("/proc", entry), marks):
                    os.kill(int(entry), signal.SIGKILL)


def _is_stray(process: Path, marks: Sequence[bytes]) -> bool:
    words = (process / "cmdline").read_bytes().split(b"\0")
    if os.path.basename(words[0]) != b"bwrap" or process.stat().st_uid != os.getuid():
        return False
    parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    return parent == _FIRST and any(word.startswith(mark) for word in words for mark in marks)
