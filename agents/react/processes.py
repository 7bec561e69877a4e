"""Commands in the foreground and in the background. Every command has a process group of its own, ended as a whole."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from prompts import LONGEST_OBSERVATION
from shared.execution import read_output
from shared.texts import HeadAndTail

LONGEST_FOREGROUND_S = 1800.0
_GRACE_S = 2.0
_CLOSING_S = 1.0
_NOT_FOR_COMMANDS = ("OPENAI_", "ANTHROPIC_")
"""The model's key is for this loop alone."""


@dataclass(frozen=True)
class Background:
    """A command started by `spawn`."""

    number: int
    command: str
    log: str
    process: subprocess.Popen[bytes]
    start: float

    def describe(self) -> str:
        status = self.process.poll()
        state = "running" if status is None else f"ended with status {status}"
        first = self.command.strip().partition("\n")[0][:100]
        return f"{self.number}: {state}, started {time.time() - self.start:.0f} s ago, log {self.log}: {first}"


class Processes:
    """Everything that the agent starts."""

    def __init__(self, out: Path, deadline: float) -> None:
        self._out = out
        self._deadline = deadline
        self._background: dict[int, Background] = {}

    def left(self) -> float:
        """Seconds until the end of the run."""
        return max(self._deadline - time.time(), 0.0)

    def run(self, command: str, folder: Path, timeout: float) -> str:
        """Output and status of `command`, which ends, with all it started, before this returns."""
        limit = min(timeout, LONGEST_FOREGROUND_S, self.left())
        start = time.monotonic()
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=_environment(),
        )
        output = HeadAndTail(LONGEST_OBSERVATION, LONGEST_OBSERVATION)
        reader = threading.Thread(target=read_output, args=(process, output), daemon=True)
        reader.start()
        try:
            ended = f"status {process.wait(limit)}"
        except subprocess.TimeoutExpired:
            ended = f"ended by the time limit of {limit:.0f} s"
        _end_group(process)
        reader.join(_CLOSING_S)
        took = time.monotonic() - start
        return f"{output.text().rstrip()}\n[{ended}, {took:.1f} s{self._time_left()}]".lstrip("\n")

    def spawn(self, command: str, folder: Path) -> str:
        """Start `command` in the background, its output in a log of its own."""
        number = len(self._background) + 1
        name = f"spawn-{number}.log"
        with (self._out / name).open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(),
            )
        self._background[number] = Background(number, command, f"$BENCH_OUT_DIR/{name}", process, time.time())
        return f"started; {self._background[number].describe()}"

    def sleep(self, seconds: float) -> str:
        waited = min(max(seconds, 0.0), self.left())
        time.sleep(waited)
        return f"[waited {waited:.0f} s{self._time_left()}]"

    def describe(self) -> str:
        return "\n".join(item.describe() for item in self._background.values()) or "nothing was spawned"

    def kill(self, number: int) -> str:
        item = self._background.get(number)
        if item is None:
            return f"error: there is no process {number}; {self.describe()}"
        _end_group(item.process)
        return item.describe()

    def end_all(self) -> None:
        for item in self._background.values():
            _end_group(item.process)

    def _time_left(self) -> str:
        return f", {self.left():.0f} s of the run left" if self._deadline != float("inf") else ""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_COMMANDS)}


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ask the whole group to end, then make it; harmless when it is gone already."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        if process.poll() is None and number == signal.SIGTERM:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
    process.wait()
