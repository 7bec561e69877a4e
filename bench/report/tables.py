"""Tables: wrapped to its width on a terminal, plain aligned text everywhere else."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Mapping, Sequence

import click

from bench.base.text import printable

_GAP = 2
_LONGEST_CELL = 2000


def table(
    rows: Sequence[Sequence[str]],
    *,
    header: Sequence[str] = (),
    right: Collection[int] = (),
    colours: Mapping[str, str] | None = None,
) -> str:
    """`rows` in columns; what a cell holds cannot act on a terminal or a workflow runner.

    right: columns to align there. colours: of cells that hold just this text, on a terminal.
    """
    cells = [[printable(text, _LONGEST_CELL) for text in row] for row in ([header] if header else []) + list(rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    terminal = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    colours = (colours or {}) if terminal else {}
    if terminal and sum(widths) + _GAP * (len(widths) - 1) > terminal:
        return _wrapped(cells, bool(header), right, colours, terminal)
    lines = []
    for row in cells:
        padded = [text.rjust(widths[at]) if at in right else text.ljust(widths[at]) for at, text in enumerate(row)]
        coloured = [
            click.style(cell, fg=colours[text]) if text in colours else cell
            for text, cell in zip(row, padded, strict=True)
        ]
        lines.append((" " * _GAP).join(coloured).rstrip())
    if header and terminal:
        lines[0] = click.style(lines[0], bold=True)
    return "\n".join(lines)


def _wrapped(
    cells: Sequence[Sequence[str]], headed: bool, right: Collection[int], colours: Mapping[str, str], width: int
) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [max((len(word) for text in column for word in text.split()), default=0) for column in columns]
    gap = _GAP if sum(words) + _GAP * (len(words) - 1) <= width else 1
    while sum(widths) + gap * (len(widths) - 1) > width and max(widths) > 1:
        # The widest gives way first, and no word is split while another column can still be narrower.
        widest = max(range(len(widths)), key=lambda at: (widths[at] > words[at], widths[at]))
        widths[widest] -= 1
    grid = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=headed)
    for at, name in enumerate(cells[0]):
        grid.add_column(Text(name), justify="right" if at in right else "left", overflow="fold", width=widths[at])
    for row in cells[1:] if headed else cells:
        grid.add_row(*(Text(text, style=colours.get(text, "")) for text in row))
    file = StringIO()
    Console(file=file, width=width, force_terminal=True, color_system="standard").print(grid)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())
