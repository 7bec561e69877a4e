"""`--ask`: who answers the questions of agents at work."""

from __future__ import annotations

import select
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.base.text import printable_lines

if TYPE_CHECKING:
    from bench.cell import Helper
    from bench.formats.help import HelpOffer

_PERSON = "person"
_POLL_S = 0.2
_MOST_LINES = 60
_WIDEST = 400


def helper_of(asked: str) -> Helper | None:
    """Who `--ask` means: a person at this terminal, or a file of rules; None for the empty text. Raises `UserError`."""
    if not asked:
        return None
    if asked != _PERSON:
        from bench.cell import ScriptedHelper

        return ScriptedHelper.read(Path(asked))
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        remedy = "start the run in a terminal, or name a file of rules"
        raise UserError("this is not a terminal, so a person cannot answer", where="--ask person", remedy=remedy)
    return PersonAtTerminal()


@dataclass
class PersonAtTerminal:
    """Shows questions on standard error, and reads one line of standard input as the answer."""

    _one: threading.Lock = field(default_factory=threading.Lock)

    @property
    def offer(self) -> HelpOffer:
        from bench.formats.help import HelpOffer

        return HelpOffer(by="person")

    def answer(self, question: str, cell: str, until: float, over: threading.Event) -> str | None:
        """The line that a person typed; None for an empty one, and where the agent's time is over first."""
        with self._one:
            if over.is_set():
                return None
            _forget_typed()
            left = max(int(until - time.monotonic()), 0)
            click.echo(f"\nquestion of {cell}, {left} s left:", err=True)
            for line in printable_lines(question, _MOST_LINES, _WIDEST):
                click.echo(f"  | {line}", err=True)
            click.echo("answer in one line (empty: none): ", err=True, nl=False)
            while not over.is_set() and time.monotonic() < until:
                ready, _, _ = select.select([sys.stdin], [], [], _POLL_S)
                if ready:
                    return sys.stdin.readline().strip() or None
            click.echo("\nthe agent does not wait any more", err=True)
            return None


def _forget_typed() -> None:
    """What was typed before a question was shown is not its answer."""
    import termios

    termios.tcflush(sys.stdin, termios.TCIFLUSH)
