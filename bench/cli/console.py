"""Progress of a command: a live line on a terminal, a plain line from time to time elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from bench.base.text import printable
from bench.formats.plan import Cell, RunPlan
from bench.formats.record import Record
from bench.report import outcome_line
from bench.runs import RunObserver

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live


_SILENT_S = 2.0
_REDRAW_S = 0.2
_PLAIN_S = 15.0


class LiveLine:
    """The last line of a terminal, redrawn in place below what is said; a context that clears it at its end."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.works = sys.stderr.isatty() and not quiet and not os.environ.get("CI")
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, line: RenderableType) -> None:
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            console = Console(stderr=True, highlight=False, markup=False, emoji=False)
            # Without auto_refresh rich starts no thread: the line is redrawn only when there is news.
            self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self._live.start()
        self._live.update(line, refresh=True)

    def say(self, line: str) -> None:
        self.clear()
        click.echo(line, err=True)

    def clear(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class Ticker(LiveLine):
    """Progress of one long step: call it with the state as often as you like; it prints after two seconds."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__(quiet)
        self._next = time.monotonic() + _SILENT_S

    def __call__(self, line: str) -> None:
        now = time.monotonic()
        if self.quiet or now < self._next:
            return
        self._next = now + (_REDRAW_S if self.works else _PLAIN_S)
        if not self.works:
            click.echo(printable(line), err=True)
            return
        from rich.text import Text

        self.show(Text(printable(line), no_wrap=True, overflow="ellipsis"))


class Reporter(RunObserver, LiveLine):
    """Prints one line for each finished cell and, on a terminal, below them the progress and what is running."""

    def __init__(self, quiet: bool = False) -> None:
        RunObserver.__init__(self)
        LiveLine.__init__(self, quiet)
        # Cells begin and end in threads of their own.
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._kept = 0

    def start(self, plan: RunPlan, folder: Path) -> None:
        if not self.quiet:
            click.echo(f"run {plan.run}: {len(plan.cells)} cells in {folder}, sandbox {plan.sandbox}", err=True)

    def begin(self, cell: Cell) -> None:
        with self._lock:
            now = time.monotonic()
            if self.done == self._kept and not self.running:
                self._began = now
            self.running[cell.id] = now

    def end(self, record: Record, kept: bool) -> None:
        with self._lock:
            self.running.pop(record.cell, None)
            self.done += 1
            self._kept += kept
            if not self.quiet:
                self.say(f"[{self.done}/{self.total}] {outcome_line(record)}{' (kept)' if kept else ''}")

    def note(self, line: str) -> None:
        with self._lock:
            self.say(f"note: {printable(line)}")

    def tick(self) -> None:
        with self._lock:
            if self.works and self.running:
                self.show(self._state(time.monotonic()))

    def _state(self, now: float) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        elapsed, fresh = now - self._began, self.done - self._kept
        left = f", about {_spoken(elapsed / fresh * (self.total - self.done))} left" if fresh else ""
        cells = ", ".join(
            f"{name.split('/')[0]} on {name.split('/')[-3]} {_spoken(now - began)}"
            for name, began in self.running.items()
        )
        said = f"{self.done}/{self.total} done, {_spoken(elapsed)}{left}; running: {cells}"
        line = Table.grid(padding=(0, 1))
        line.add_row(ProgressBar(self.total, self.done, width=10), Text(said, no_wrap=True, overflow="ellipsis"))
        return line


def _spoken(seconds: float) -> str:
    """A duration, rounded for people."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    return f"{round(seconds / 60)} min" if whole < 6000 else f"{whole // 3600} h {whole % 3600 // 60:02} min"
