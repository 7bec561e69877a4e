"""What a command says while it works: a live line on a terminal, now and then a plain one elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType

import click

_SILENT_S = 2.0
_LIVE_S = 0.2
_PLAIN_S = 15.0


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
        self._next = now + (_LIVE_S if self._live else _PLAIN_S)
        if self._live:
            width = shutil.get_terminal_size().columns
            click.echo(f"\r\x1b[2K{line[: width - 1]}", nl=False, err=True)
            self._drawn = True
        else:
            click.echo(line, err=True)
