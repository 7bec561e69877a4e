"""Who is told what happens in a run and in its cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bench.cell import CellWatch
from bench.formats.plan import Cell, RunPlan
from bench.formats.record import Record


@dataclass
class RunObserver(CellWatch):
    """Is told what happens in a run and in its cells; this base class ignores it."""

    total: int = 0
    done: int = 0
    running: dict[str, float] = field(default_factory=dict)

    def start(self, plan: RunPlan, folder: Path) -> None:
        """A run in `folder` begins or goes on; its cells follow."""

    def expect(self, total: int) -> None:
        """So many cells follow."""
        self.total = total

    def begin(self, cell: Cell) -> None:
        """A cell starts."""

    def end(self, record: Record, kept: bool) -> None:
        """A cell is finished; `kept`: it was so before this start."""

    def note(self, line: str) -> None:
        """Something a user should know, such as a damaged file."""

    def fetching(self, name: str, done: int, total: int) -> None:
        """Of the data of this name so many bytes are there."""

    def tick(self) -> None:
        """Nothing new for a moment."""
