"""The pictures that other sites show beside a link: 1200 x 630 pixels, drawn when their figures change."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.base.text import counted
from bench.pages.addresses import social_page
from bench.pages.board import Board, Row, Section
from bench.pages.engine import Engine
from bench.pages.sheet import Sheet
from bench.pages.words import UNKNOWN, percent, short, spread, visible

FRONT = "social/board.png"
WIDTH, HEIGHT = 1200, 630
_MOST = 6
_LEFT, _RIGHT = 72, 1128
_INK, _SOFT, _LINE, _PAPER, _ACCENT = "#1b2430", "#5b6675", "#d9dee5", "#ffffff", "#0b5cad"


@dataclass(frozen=True)
class _Line:
    name: str
    below: str
    mean: float | None
    low: float
    high: float
    said: str


def social_images(board: Board, title: str, suite: str, engine: Engine, *, made_up: bool = False) -> Iterator[Sheet]:
    """One of the board, by its first profile, and one of each agent on it. made_up: the pictures say so."""
    about = f"suite {suite}" if suite else "ml-dev-bench"
    about += " (made-up results)" if made_up else ""
    first = board.sections[0] if board.sections else None
    yield _image(FRONT, title, f"{about}{_where(first)}", [_line(row) for row in _best(first)], engine)
    found: dict[str, list[tuple[Section, Row]]] = {}
    for section in board.sections:
        for row in section.everyone:
            found.setdefault(social_page(row.standing.entrant), []).append((section, row))
    for address, rows in found.items():
        who = rows[0][1].standing.entrant
        lines = [_line(row, f"profile {section.profile}") for section, row in rows]
        lines += _categories(board, rows[0][1])
        words = " ".join(filter(None, (short(who.model), f"on {about}")))
        yield _image(address, short(who.agent), words, lines[:_MOST], engine)


def _where(section: Section | None) -> str:
    return f", profile {section.profile}: success with 95% intervals" if section else ": no results yet"


def _best(section: Section | None) -> Sequence[Row]:
    return () if section is None else section.everyone[:_MOST]


def _line(row: Row, name: str = "") -> _Line:
    it = row.standing
    success = it.success
    interval = success.interval if success else None
    mean = success.mean if success else None
    low, high = (interval.low, interval.high) if interval else (mean or 0.0, mean or 0.0)
    said = f"{percent(mean)} ({spread(interval)})" if success else UNKNOWN
    below = f"{it.covered} of {it.suite_size} cases" if name else it.entrant.model
    return _Line(name or short(it.entrant.agent), short(below), mean, low, high, said)


def _categories(board: Board, row: Row) -> Iterator[_Line]:
    """Mean success of an agent in each category of the suite."""
    found: dict[str, list[float]] = {}
    for case, result in sorted(row.standing.cases.items()):
        if case in board.cases and result.success is not None:
            found.setdefault(board.cases[case].category, []).append(result.success)
    for category, values in sorted(found.items(), key=lambda it: (-len(it[1]), it[0])):
        mean = sum(values) / len(values)
        name = category.replace("_", " ")
        yield _Line(name, f"mean of {counted(len(values), 'case')}", mean, mean, mean, percent(mean))


def _image(address: str, title: str, about: str, lines: Sequence[_Line], engine: Engine) -> Sheet:
    return Sheet(address, repr((title, about, lines)), lambda: engine.picture(_drawn(title, about, lines)))


def _drawn(title: str, about: str, lines: Sequence[_Line]) -> str:
    svg = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "width": str(WIDTH), "height": str(HEIGHT)})
    ET.SubElement(svg, "rect", {"width": str(WIDTH), "height": str(HEIGHT), "fill": _PAPER})
    for at, tall in enumerate((14, 24, 38)):
        box = {"x": str(_LEFT + 16 * at), "y": str(96 - tall), "width": "11", "height": str(tall), "fill": _ACCENT}
        ET.SubElement(svg, "rect", box)
    _text(svg, title, _LEFT + 64, 96, 44, _INK, "700")
    _text(svg, about, _LEFT, 150, 26, _SOFT)
    for at, line in enumerate(lines):
        _bar(svg, line, 205 + 68 * at)
    return ET.tostring(svg, encoding="unicode")


def _bar(svg: ET.Element, line: _Line, top: int) -> None:
    _text(svg, line.name, _LEFT, top + 22, 25, _INK, "600", wide=330)
    _text(svg, line.below, _LEFT, top + 47, 18, _SOFT, wide=330)
    left = _LEFT + 350
    wide = _RIGHT - 190 - left
    ET.SubElement(svg, "rect", {"x": str(left), "y": str(top + 14), "width": str(wide), "height": "18", "fill": _LINE})
    if line.mean is not None:
        bar = {"x": str(left), "y": str(top + 14), "width": f"{wide * line.mean:.1f}", "height": "18", "fill": _ACCENT}
        ET.SubElement(svg, "rect", bar)
        path = f"M{left + wide * line.low:.1f} {top + 23}H{left + wide * line.high:.1f}"
        for colour, stroke in ((_PAPER, "7"), (_INK, "3")) if line.low < line.high else ():
            ET.SubElement(svg, "path", {"d": path, "stroke": colour, "stroke-width": stroke})
    _text(svg, line.said, _RIGHT, top + 30, 22, _INK, anchor="end")


def _text(
    svg: ET.Element, words: str, x: int, y: int, size: int, colour: str, weight: str = "400", *,
    anchor: str = "start", wide: int = 0,
) -> None:  # fmt: skip
    """`wide`: what is longer than so many pixels, by a generous guess, is cut."""
    most = int(wide / size * 1.8) if wide else 70
    plain = str(visible(words)).encode("utf-8", "replace").decode()
    style = {"font-family": "sans-serif", "font-size": str(size), "font-weight": weight, "fill": colour}
    made = ET.SubElement(svg, "text", {"x": str(x), "y": str(y), "text-anchor": anchor, **style})
    made.text = plain if len(plain) <= most else f"{plain[: most - 1]}…"
