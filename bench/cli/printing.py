"""What commands print, in words or as JSON, as wide as the terminal."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from typing import TextIO

import click

from bench.base.text import counted


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(document, indent=1))


def print_text(text: str) -> None:
    """Lines for people; a terminal too narrow for a line gets it broken between words, not inside of one."""
    for line in text.splitlines():
        click.echo(fitted(line, sys.stdout))


def fitted(line: str, stream: TextIO) -> str:
    """The line in as many as it takes on the terminal that `stream` is; elsewhere as it is."""
    if not stream.isatty():
        return line
    width = terminal_width(stream)
    if len(click.unstyle(line)) <= width:
        return line
    return "\n".join(textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False))


def terminal_width(stream: TextIO) -> int:
    """Columns of the terminal that `stream` is: that of this stream, since the other one may be a pipe."""
    return os.get_terminal_size(stream.fileno()).columns or 80


def tell_ready(cells: int) -> None:
    """What `--check` says where nothing is missing."""
    click.echo(f"ready: nothing is missing for {counted(cells, 'cell')}")
