"""Lines with labels, colours and a margin, wrapped to a terminal; what they say is made inert here."""

from __future__ import annotations

import textwrap

import click

from bench.base.text import printable, printable_lines

_LABEL = 9
_NARROWEST = 20
_LONGEST = 1000
"""Characters of a line of a block."""


class Sheet:
    """A text that grows line by line. width: of the terminal; None: lines are not broken."""

    def __init__(self, width: int | None = None, *, full: bool = False) -> None:
        self.width = width
        self.full = full
        """Nothing is left out of long texts."""
        self._lines: list[str] = []

    def __str__(self) -> str:
        return "\n".join(self._lines).strip("\n")

    def gap(self) -> None:
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def title(self, text: str, after: str = "", *, fg: str | None = None, dim: bool = False) -> None:
        """A line in bold, and a remark behind it."""
        self.gap()
        head, remark = printable(text), printable(after)
        lines = self._wrapped(f"{head}  {remark}" if remark else head, 4, 0)
        if lines[0].startswith(head):
            lines[0] = click.style(head, bold=True) + click.style(lines[0][len(head) :], fg=fg, dim=dim or None)
            lines[1:] = ["    " + click.style(it, fg=fg, dim=dim or None) for it in lines[1:]]
        self._lines += lines

    def reason(self, name: str, text: str, fg: str) -> None:
        """A paragraph that begins with a coloured word."""
        plain = printable(f"{name}: {text}")
        first, *rest = self._wrapped(plain, 4, 2)
        shown = printable(name)
        if first.startswith(shown):
            first = click.style(shown, fg=fg, bold=True) + first[len(shown) :]
        self._lines += [f"  {first}", *(f"    {it}" for it in rest)]

    def line(self, text: str, *, indent: int = 2, fg: str | None = None, dim: bool = False) -> None:
        """One paragraph."""
        first, *rest = self._wrapped(printable(text), indent + 2, indent)
        blank = " " * (indent + 2)
        self._lines += [
            " " * indent + click.style(first, fg=fg, dim=dim or None),
            *(blank + click.style(it, fg=fg, dim=dim or None) for it in rest),
        ]

    def block(
        self, label: str, text: str, most: int, *, fg: str | None = None, dim: bool = False, indent: int = 2
    ) -> None:
        """A text of many lines behind a label and a margin; at most `most` lines unless the sheet is full."""
        width = _LABEL if label else 0
        prefix, margin = " " * indent + click.style(f"{label:<{width}}", bold=True), click.style("│ ", dim=True)
        blank = " " * (indent + width)
        for shown in printable_lines(text.rstrip(), None if self.full else most, None if self.full else _LONGEST):
            for piece in self._wrapped(shown, indent + width + 2):
                self._lines.append((prefix + margin + click.style(piece, fg=fg, dim=dim or None)).rstrip())
                prefix = blank

    def _wrapped(self, line: str, later: int, first: int | None = None) -> list[str]:
        """`line` in pieces that leave `later` columns free, the first one `first`."""
        if self.width is None:
            return [line]
        room = max(self.width - (later if first is None else max(first, later)), _NARROWEST)
        if len(line) <= room:
            return [line]
        return textwrap.wrap(line, room, drop_whitespace=True, break_on_hyphens=False) or [""]
