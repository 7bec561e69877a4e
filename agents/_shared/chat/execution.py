"""Scripts as processes of their own: no key, no input, a time limit, bounded output, and nothing left behind."""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .texts import HeadAndTail

_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 5.0
_CLOSING_S = 1.0
_ROUNDS = 200
_NOT_FOR_SCRIPTS = ("OPENAI_", "ANTHROPIC_", "BENCH_MODEL", "BENCH_OUT_DIR")
"""The model's key is for the agent alone, and so is its journal."""


@dataclass(frozen=True)
class Ran:
    """How a script ended."""

    output: str
    """Both streams in the order in which they came, shortened in the middle."""
    status: int | None
    """None: ended by the time limit."""
    seconds: float


@dataclass(frozen=True)
class OutputLimit:
    """Output of more than `longest` characters is shortened to `kept`."""

    longest: int
    kept: int


def adopt_orphans() -> None:
    """Become the parent of every orphan below this process, so that nothing a script leaves is out of sight."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_python(
    arguments: Sequence[str], folder: Path, limit_s: float, output: OutputLimit, extra: Mapping[str, str] | None = None
) -> Ran:
    """Run Python with `arguments` in `folder`; all it started has ended when this returns."""
    start = time.monotonic()
    process = subprocess.Popen(
        [os.environ.get("BENCH_PYTHON") or sys.executable, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=_environment(extra or {}),
    )
    said = HeadAndTail(output.longest, output.kept)
    reader = threading.Thread(target=read_output, args=(process, said), daemon=True)
    reader.start()
    status: int | None = None
    try:
        status = process.wait(max(limit_s, 0.0))
    except subprocess.TimeoutExpired:
        # An interrupt makes Python say where it was; what does not listen is killed.
        _signal_group(process, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    _signal_group(process, signal.SIGKILL)
    process.wait()
    end_descendants()
    reader.join(_CLOSING_S)
    return Ran(said.text().rstrip(), status, time.monotonic() - start)


def end_descendants() -> None:
    """Kill and reap until no child is left; new ones made meanwhile are met in the next round."""
    for _ in range(_ROUNDS):
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    pending = [pid]
    while pending:
        children = _children(pending.pop())
        found += children
        pending += children
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_SCRIPTS)}
    return {**kept, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", **extra}


def read_output(process: subprocess.Popen[bytes], said: HeadAndTail) -> None:
    """Keep what `process` writes, until its end of the pipe is closed; for a thread of its own."""
    assert process.stdout is not None  # it is a pipe
    with process.stdout as stream, contextlib.suppress(OSError, ValueError):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := os.read(stream.fileno(), 1 << 16):
            said.add(decoder.decode(data))


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
