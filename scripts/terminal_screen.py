"""What a terminal shows of a program: the program on a pseudo-terminal, and the screen that its output makes.

Only what click and rich write is understood: lines, carriage returns, the cursor's way up, erasing, and colours.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

_TOKEN = re.compile(r"\x1b\[(?P<codes>[0-9;?]*)(?P<verb>[A-Za-z])|(?P<text>[^\x1b])", re.DOTALL)
_ROWS = 50
_BASIC, _BRIGHT, _GROUND, _BRIGHT_GROUND = 30, 90, 40, 100


@dataclass(frozen=True)
class Style:
    """How one character looks; colours are numbers of the terminal's own 16, or `#rrggbb`; empty: the default."""

    colour: str = ""
    ground: str = ""
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underlined: bool = False
    swapped: bool = False

    def changed(self, codes: Sequence[int]) -> Style:
        """The style after the codes of one escape sequence `ESC [ ... m`."""
        found, rest = self, list(codes or [0])
        while rest:
            code = rest.pop(0)
            if code in (38, 48):
                name = "colour" if code == 38 else "ground"
                if rest[:1] == [5]:
                    found, rest = replace(found, **{name: _of_256(rest[1])}), rest[2:]  # type: ignore[arg-type]
                else:
                    found, rest = replace(found, **{name: "#{:02x}{:02x}{:02x}".format(*rest[1:4])}), rest[4:]  # type: ignore[arg-type]
            else:
                found = found._with(code)
        return found

    def _with(self, code: int) -> Style:
        if code == 0:
            return Style()
        for first, name, bright in (
            (_BASIC, "colour", 0), (_GROUND, "ground", 0), (_BRIGHT, "colour", 8), (_BRIGHT_GROUND, "ground", 8)
        ):  # fmt: skip
            if first <= code < first + 8:
                return replace(self, **{name: str(code - first + bright)})  # type: ignore[arg-type]
        switches = {
            1: {"bold": True}, 2: {"dim": True}, 3: {"italic": True}, 4: {"underlined": True}, 7: {"swapped": True},
            22: {"bold": False, "dim": False}, 23: {"italic": False}, 24: {"underlined": False},
            27: {"swapped": False}, 39: {"colour": ""}, 49: {"ground": ""},
        }  # fmt: skip
        return replace(self, **switches.get(code, {}))  # type: ignore[arg-type]


def _of_256(number: int) -> str:
    if number < 16:
        return str(number)
    if number >= 232:
        return "#{0:02x}{0:02x}{0:02x}".format(8 + 10 * (number - 232))
    steps = (0, 95, 135, 175, 215, 255)
    number -= 16
    return f"#{steps[number // 36]:02x}{steps[number // 6 % 6]:02x}{steps[number % 6]:02x}"


@dataclass
class Screen:
    """A terminal of `width` columns that forgets nothing above its upper edge."""

    width: int
    lines: list[list[tuple[str, Style]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: Style = field(default_factory=Style)

    def write(self, output: str) -> None:
        """What a program writes; other escape sequences than those named above are left out."""
        for token in _TOKEN.finditer(output):
            if (text := token["text"]) is not None:
                self._put(text)
            else:
                self._act(token["verb"], [int(it) for it in token["codes"].strip("?").split(";") if it])

    def _put(self, character: str) -> None:
        if character == "\n":
            self._go_down()
        elif character == "\r":
            self.column = 0
        elif character >= " ":
            if self.column == self.width:
                self.column = 0
                self._go_down()
            line = self.lines[self.row]
            line += [(" ", Style())] * (self.column + 1 - len(line))
            line[self.column] = (character, self.style)
            self.column += 1

    def _go_down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _act(self, verb: str, codes: list[int]) -> None:
        if verb == "m":
            self.style = self.style.changed(codes)
        elif verb == "A":
            self.row = max(0, self.row - (codes or [1])[0])
        elif verb == "K":
            self.lines[self.row] = [] if codes == [2] else self.lines[self.row][: self.column]
        elif verb == "J":
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]

    @property
    def text(self) -> str:
        return "\n".join("".join(it for it, _ in line).rstrip() for line in self.lines).rstrip("\n")

    def html(self, palette: Mapping[str, str]) -> str:
        """The screen as HTML; palette: colour of each number, of `text` and of `ground`."""
        return "\n".join("".join(_span(run, style, palette) for run, style in _runs(line)) for line in self.lines)


def _runs(line: Sequence[tuple[str, Style]]) -> Iterator[tuple[str, Style]]:
    """Pieces of one style."""
    text, current = "", Style()
    for character, style in line:
        if style != current and text:
            yield text, current
            text = ""
        current = style
        text += character
    if text:
        yield text, current


def _span(text: str, style: Style, palette: Mapping[str, str]) -> str:
    colour = palette.get(style.colour, style.colour) or palette["text"]
    ground = palette.get(style.ground, style.ground)
    if style.swapped:
        colour, ground = ground or palette["ground"], colour
    looks = [f"color:{colour}"]
    looks += [f"background:{ground}"] * bool(ground) + ["font-weight:bold"] * style.bold
    looks += ["opacity:.6"] * style.dim + ["font-style:italic"] * style.italic
    looks += ["text-decoration:underline"] * style.underlined
    return f'<span style="{";".join(looks)}">{escape(text)}</span>'


def written_to(leader: int) -> Iterator[bytes]:
    """What is written to the other end of a terminal, piece by piece, until that is closed."""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            return
        if not piece:
            return
        yield piece


def record(command: Sequence[str], width: int, folder: Path) -> list[tuple[float, str]]:
    """What the command writes to a terminal of this width, in pieces with the second in which each came."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, width, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "COLUMNS", "LINES")}
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, cwd=folder,
        env=kept | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}, start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    pieces = [(time.monotonic() - began, piece) for piece in written_to(leader)]
    os.close(leader)
    process.wait()
    return [(at, piece.decode(errors="replace")) for at, piece in pieces]
