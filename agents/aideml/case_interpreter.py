"""Runs the scripts of the search in the case's own Python, and keeps what each of them wrote."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import humanize
from aide.interpreter import ExecutionResult

_LAST_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+)(?::.*)?$")
_LOCATION = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


class CaseInterpreter:
    """In place of `aide.interpreter.Interpreter`, which forks its own process: that one has no libraries of the case.

    `working` is empty at the start of each script, so that what lies there afterwards is this script's own.
    """

    def __init__(self, folder: Path, timeout: float, python: str, end: float) -> None:
        """`timeout`: seconds of one script; `end`: the time at which the last one must have ended."""
        self._folder = folder
        self._longest = self._timeout = timeout
        self._python = python
        self._end = end
        self._count = 0

    def made_by(self, number: int) -> Path:
        """The folder `working` as script `number` left it."""
        return self._folder.parent / "made" / str(number)

    def run(self, code: str, reset_session: bool = True) -> ExecutionResult:
        """Run `code` to its end or its time limit; every script starts from nothing."""
        del reset_session
        working = self._folder / "working"
        shutil.rmtree(working, ignore_errors=True)
        working.mkdir()
        script = self._folder / "runfile.py"
        script.write_text(code, encoding="utf-8")
        self._timeout = max(min(self._longest, self._end - time.time()), 1.0)
        began = time.monotonic()
        output, status = self._execute(script)
        seconds = time.monotonic() - began
        # It would show up in the next preview of the data otherwise.
        script.unlink(missing_ok=True)
        shutil.copytree(working, self.made_by(self._count), symlinks=True)
        self._count += 1
        return self._result(output, status, seconds)

    def _execute(self, script: Path) -> tuple[str, int | None]:
        """Output and status; None: the time was over."""
        hidden = ("BENCH_", "OPENAI_", "ANTHROPIC_", "AIDE_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        with subprocess.Popen(
            [self._python, "-W", "ignore", script.name],
            cwd=self._folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process:
            status: int | None
            try:
                output, _ = process.communicate(timeout=self._timeout)
                status = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, status = process.communicate()[0], None
        return output, status

    def _result(self, output: str, status: int | None, seconds: float) -> ExecutionResult:
        limit = humanize.naturaldelta(self._timeout)
        output = output.replace(f"{self._folder}/", "")
        if status is None:
            lines = [output, f"TimeoutError: Execution exceeded the time limit of {limit}"]
            return ExecutionResult(lines, self._timeout, "TimeoutError", {}, [])
        lines = [output, f"Execution time: {humanize.naturaldelta(seconds)} seconds (time limit is {limit})."]
        if status == 0:
            return ExecutionResult(lines, seconds, None)
        last = output.strip().splitlines()[-1:] or [""]
        found = _LAST_LINE.match(last[0]) if "Traceback (most recent call last)" in output else None
        stack = [(name, int(line), function, "") for name, line, function in _LOCATION.findall(output)]
        return ExecutionResult(lines, seconds, found[1] if found else f"Status{status}", {"args": last}, stack)
