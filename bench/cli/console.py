"""What a command says while it works: a live line on a terminal, now and then a plain one elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from types import TracebackType

import click

from bench.base.text import printable
from bench.formats.plan import Cell
from bench.formats.record import Record
from bench.report import outcome_line
from bench.runs import RunObserver

_SILENT_S = 2.0
_REDRAW_S = 0.2
_PLAIN_S = 15.0
_LIVE_S = 0.5


class Ticker:
    """Call it with the state of things as often as you like; it speaks when two seconds have passed."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not os.environ.get("CI")
        self._next = time.monotonic() + _SILENT_S
        self._drawn = False

    def __enter__(self) -> Ticker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            click.echo("\r\x1b[2K", nl=False, err=True)

    def __call__(self, line: str) -> None:
        now = time.monotonic()
        if self._quiet or now < self._next:
            return
        self._next = now + (_REDRAW_S if self._live else _PLAIN_S)
        if self._live:
            width = shutil.get_terminal_size().columns
            click.echo(f"\r\x1b[2K{line[: width - 1]}", nl=False, err=True)
            self._drawn = True
        else:
            click.echo(line, err=True)


class Reporter(RunObserver):
    """Prints one line a finished cell; below them, on a terminal, what is under way."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__()
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet and not os.environ.get("CI")
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def begin(self, cell: Cell) -> None:
        with self._lock:
            self.running[cell.id] = time.monotonic()

    def end(self, record: Record, kept: bool) -> None:
        with self._lock:
            self.running.pop(record.cell, None)
            self.done += 1
            if not self._quiet:
                self._erase()
                click.echo(f"[{self.done}/{self.total}] {outcome_line(record)}{' (kept)' if kept else ''}", err=True)
                self._draw()

    def note(self, line: str) -> None:
        with self._lock:
            self._erase()
            click.echo(f"note: {printable(line)}", err=True)
            self._draw()

    def tick(self) -> None:
        with self._lock:
            self._draw()

    def _draw(self) -> None:
        if not self._live or not self.running:
            return
        width = shutil.get_terminal_size().columns
        now = time.monotonic()
        cells = ", ".join(
            f"{name.split('/')[0]} on {name.split('/')[-3]} {now - began:.0f} s"
            for name, began in list(self.running.items())
        )
        text = f"{self.done}/{self.total} done, {now - self._began:.0f} s; running: {cells}"
        self._erase()
        click.echo(text[: width - 1], nl=False, err=True)

    def _erase(self) -> None:
        if self._live:
            click.echo("\r\x1b[2K", nl=False, err=True)
