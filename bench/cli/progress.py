"""What a run says as it goes: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import time

import click

from bench.cell import Cell
from bench.pool import Progress
from bench.record import Record

_LIVE_S = 0.5


class Reporter(Progress):
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


def outcome_line(record: Record) -> str:
    """One line about a record: never more than a terminal can take, never a control character of the agent's."""
    seconds = sum(phase.seconds for phase in record.phases)
    head = f"{record.agent.id} on {record.case.id}, trial {record.trial}"
    if record.outcome != "graded":
        first = printable(record.error.splitlines()[0] if record.error else "")
        return f"{head}: {click.style(record.outcome, fg='yellow')} ({record.cause}): {first[:200]}"
    assert record.score is not None
    verdict = click.style("success", fg="green") if record.success else click.style("no success", fg="red")
    modes = ", ".join(note.name for note in record.failure_modes)
    flags = ", ".join(note.name for note in record.flags)
    return (
        f"{head}: {verdict}, score {record.score:.2f}, {seconds:.1f} s"
        f"{', ' + modes if modes else ''}{'; flags: ' + flags if flags else ''}"
    )


def printable(text: str) -> str:
    """`text` without anything a terminal or a workflow log would act on."""
    line = "".join(char if char.isprintable() else "?" for char in text)
    return line.replace("::", ": :").replace("##", "# #")


def printable_json(document: str) -> str:
    """The same JSON document in ASCII; where a workflow runner would act on a piece of it, that is spelt otherwise."""
    plain = re.sub(r"[^\n\x20-\x7e]", lambda match: json.dumps(match.group())[1:-1], document)
    return plain.replace("##", r"\u0023#")
