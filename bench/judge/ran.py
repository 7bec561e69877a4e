"""A finished command and the folder it left."""

from __future__ import annotations

from pathlib import Path

from bench.judge.files import Folder
from bench.judge.subject import SubjectError


class Ran(Folder):
    """A finished command and the folder it left."""

    def __init__(self, root: Path, code: int, stdout: str, stderr: str, command: str, stopped: str) -> None:
        super().__init__(root)
        self.code = code
        self.stdout = stdout
        self.stderr = stderr
        self._command = command
        self._stopped = stopped

    def ok(self) -> Ran:
        """Itself when the command ended with status 0; a failed check otherwise."""
        if self._stopped:
            raise SubjectError(f"`{self._command}` {self._stopped}")
        last = self.stderr.strip()[-300:] or self.stdout.strip()[-300:]
        assert self.code == 0, f"`{self._command}` ended with status {self.code}: {last}"
        return self
