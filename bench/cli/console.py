"""Progress of a command: a live line on a terminal, a plain line from time to time elsewhere."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from bench.base.text import printable
from bench.cli.printing import fitted

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
        self.works = sys.stderr.isatty() and not quiet and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
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
        # A terminal breaks lines within words.
        click.echo(fitted(line, sys.stderr) if self.works else line, err=True)

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


def fetched_share(done: int, total: int) -> str:
    """How much of a download is there."""
    return f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB ({done / total:.0%})"
