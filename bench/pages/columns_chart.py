"""Dots with intervals in a column for each agent: the small multiples of the plots, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from bench.pages.drawing import Draw
from bench.pages.vega import Spec, ink, layer, layered, number, share, word

_STEP = 1.25
"""From one column to the next, in widths of a column: exact in binary, so that the rest of a division is."""
_NARROW = 200
_COLUMNS = {"wide": (6, 720), "narrow": (2, _NARROW)}
"""Columns that fit, and pixels for them."""
_ROW = 21
_LONGEST = 22


@dataclass(frozen=True)
class Dot:
    """A mean in the row `row`, with its interval where there is one."""

    row: str
    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Column:
    label: str
    dots: Sequence[Dot]


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, in shares; what lies beyond is drawn as a triangle at the end."""

    title: str
    low: float = 0.0
    high: float = 1.0
    middle: float = 0.5
    """The third value that is named."""


def columns_svg(
    columns: Sequence[Column], rows: Sequence[str], axis: Axis, name: str, title: str, words: str, draw: Draw
) -> dict[str, Markup]:
    """The drawing by screen. `columns`: the first ones are drawn, as many as fit; the table beside it has all."""
    return {
        size: draw(_drawn(columns[:most], rows, axis, width), f"{name}-{size}", title, words)
        for size, (most, width) in _COLUMNS.items()
    }


def _drawn(columns: Sequence[Column], rows: Sequence[str], axis: Axis, width: int) -> Spec:
    reach = axis.high - axis.low
    quiet = {"domain": False, "ticks": False, "labelLimit": 150}
    y = word("row", sort=["", *rows], title=None, axis=quiet, scale={"domain": ["", *rows]})
    last = _STEP * (len(columns) - 1) + 1
    places = [at * _STEP + (value - axis.low) / reach for at in range(len(columns)) for value in _named(axis)]
    shown = f"format(round(((datum.value % {_STEP}) * {reach} + {axis.low}) * 100), '~g') + '%'"
    if axis.low < 0:  # its name is longer, and would lie on that of the end of the column before
        shown = f"datum.value % {_STEP} > 0.99 && datum.value < {last - 0.01} ? '' : {shown}"
    told = [place for place in places if width > _NARROW or place % _STEP not in _left_out(axis)]
    below = {"grid": False, "labelOverlap": False, "labelFontSize": 10, "domain": False}
    x = number("x", title=axis.title, scale={"domain": [-0.05, last + 0.05], "nice": False})
    x |= {"axis": {**below, "values": told, "labelExpr": shown}}
    dots = [_dot(it, at, axis) for at, column in enumerate(columns) for it in column.dots if it.row in rows]
    heads = [{"x": at * _STEP, "row": "", "label": _short(it.label)} for at, it in enumerate(columns)]
    shape = word("kind", legend=None, scale={"domain": ["in", "beyond"], "range": ["circle", "triangle-right"]})
    span = {"x": number("low"), "x2": {"field": "high"}, "y": y}
    named = {"align": "left", "fontSize": 11, "limit": int(width / len(columns)) - 4}
    layers = [
        layer([{"x": place} for place in places], "rule", {"x": x}, color=ink("line"), aria=False),
        layer(dots, "rule", span, color=ink("accent"), strokeWidth=2, strokeOpacity=0.5, aria=False),
        layer(
            dots, "point", {"x": x, "y": y, "shape": shape, "description": word("says")},
            size=45, filled=True, opacity=1, color=ink("accent"),
        ),
        layer(heads, "text", {"x": x, "y": y, "text": word("label")}, color=ink("ink"), aria=False, **named),
    ]  # fmt: skip
    return layered(layers, width, _ROW * (len(rows) + 1))


def _left_out(axis: Axis) -> tuple[float, ...]:
    """The place in a column that is not named where there is no room: Vega would drop every second name."""
    return (0.0,) if axis.low < 0 else (1.0,)


def _named(axis: Axis) -> tuple[float, float, float]:
    return axis.low, axis.middle, axis.high


def _dot(it: Dot, at: int, axis: Axis) -> dict[str, Any]:
    def place(value: float) -> float:
        return at * _STEP + share((min(axis.high, max(axis.low, value)) - axis.low) / (axis.high - axis.low))

    low, high = (it.mean if end is None else end for end in (it.low, it.high))
    span = "" if it.low is None or it.high is None else f" ({100 * it.low:.0f} to {100 * it.high:.0f}%)"
    return {
        "row": it.row,
        "x": place(it.mean),
        "low": place(low),
        "high": place(high),
        "kind": "in" if axis.low <= it.mean <= axis.high else "beyond",
        "says": f"{it.row}: {100 * it.mean:.1f}%{span}, n = {it.n}",
    }


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"
