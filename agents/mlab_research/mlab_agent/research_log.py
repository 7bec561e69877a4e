"""The research log: what was done and found, outside the workspace, and short enough to be read whole by a model."""

from __future__ import annotations

from pathlib import Path

from .shared.texts import cut

LONGEST_READ = 30_000
_LONGEST_ENTRY = 4_000


class ResearchLog:
    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(cut(text.strip(), _LONGEST_ENTRY) + "\n\n")

    def read(self) -> str:
        """The log, its middle left out when it has grown too long."""
        if not self._path.exists():
            return "The log is empty."
        return cut(self._path.read_text(encoding="utf-8"), LONGEST_READ)
