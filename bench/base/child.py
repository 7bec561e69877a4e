"""Python processes of the runner: how one is started with its orders, answers, and ends when the runner does.

Orders go in as one line of standard input, which stays open: its end tells the child that the runner is gone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any, BinaryIO

_ERROR_BYTES = 1500
"""Of a log, in an error message."""


@dataclass(frozen=True)
class Child:
    """A started process as its parent sees it."""

    popen: subprocess.Popen[bytes]
    log: IO[bytes]
    """What the child prints."""

    def answer(self, seconds: float) -> bytes | None:
        """What the child says until it closes its answers; None after `seconds`, when it has been killed."""
        assert self.popen.stdout is not None
        timer = threading.Timer(seconds, self.popen.kill)
        timer.start()
        try:
            said = self.popen.stdout.read()
            return said if timer.is_alive() else None
        finally:
            timer.cancel()


@contextlib.contextmanager
def python_child(
    module: str,
    orders: dict[str, Any] | bytes,
    *,
    env: Mapping[str, str] | None = None,
    python: Path = Path(sys.executable),
    cwd: str | None = None,
    isolated: bool = True,
) -> Iterator[Child]:
    """Run `main()` of `module` in an interpreter and a session of its own, killed at the end of the block.

    isolated: without PYTHONPATH and the working folder, which may hold modules of a stranger.
    """
    flags = ["-I", "-B"] if isolated else []
    # A log without a name: nothing of it is left, however this process ends.
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [str(python), *flags, "-c", f"from {module} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=env,
            cwd=cwd,
            start_new_session=True,
        ) as popen,
    ):
        try:
            _send(popen, orders if isinstance(orders, bytes) else json.dumps(orders).encode())
            yield Child(popen, log)
        finally:
            popen.kill()
            assert popen.stdin is not None
            # What a child that had ended did not read is nobody's any more.
            with contextlib.suppress(BrokenPipeError):
                popen.stdin.close()


def _send(popen: subprocess.Popen[bytes], orders: bytes) -> None:
    """Write one line of orders. That a child was killed before it read them is seen by how it ended."""
    assert popen.stdin is not None
    data = orders + b"\n"
    # Past the buffer: what it still held when the child had gone would be an error again at its closing.
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(popen.stdin.fileno(), data) :]


def receive_orders() -> tuple[Any, BinaryIO]:
    """In the child: its orders and the stream for its answers. From now on the end of the runner is its own."""
    answers = private_answers()
    orders = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_runner, daemon=True).start()
    return orders, answers


def private_answers(buffering: int = -1) -> BinaryIO:
    """In the child: standard output under another number; what any library prints goes to the log instead."""
    answers = os.fdopen(os.dup(1), "wb", buffering)
    os.dup2(2, 1)
    return answers


def _end_with_runner() -> None:
    while os.read(0, 1):
        continue
    # The whole group: case code may have started processes, and the runner that would end them is not there any more.
    os.killpg(0, signal.SIGKILL)


def log_tail(log: IO[bytes], most: int = _ERROR_BYTES) -> str:
    """The end of a log that another process may still write to."""
    start = max(os.fstat(log.fileno()).st_size - most, 0)
    return os.pread(log.fileno(), most, start).decode("utf-8", "replace").strip()


def load_module(name: str, path: Path) -> ModuleType:
    """The module in the file `path`, which is also what `import name` finds from now on."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Before it runs: dataclasses look their module up by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
