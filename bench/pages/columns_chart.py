"""Dots with intervals in a column for each agent: the small multiples of the plots, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from bench.pages.drawing import altair, ink, themed, to_svg

_STEP = 1.25
"""From one column to the next, in widths of a column: exact in binary, so that the rest of a division is."""
_COLUMNS = {"wide": (6, 720), "narrow": (2, 200)}
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
    columns: Sequence[Column], rows: Sequence[str], axis: Axis, name: str, title: str, words: str
) -> dict[str, Markup]:
    """The drawing by screen. `columns`: the first ones are drawn, as many as fit; the table beside it has all."""
    return {
        size: to_svg(_drawn(columns[:most], rows, axis, width), f"{name}-{size}", title, words)
        for size, (most, width) in _COLUMNS.items()
    }


def _drawn(columns: Sequence[Column], rows: Sequence[str], axis: Axis, width: int) -> Any:
    alt = altair()
    reach = axis.high - axis.low
    y = alt.Y("row:N", sort=["", *rows]).title(None).axis(domain=False, ticks=False, labelLimit=150)
    y = y.scale(domain=["", *rows])
    last = _STEP * (len(columns) - 1) + 1
    places = [at * _STEP + (value - axis.low) / reach for at in range(len(columns)) for value in _named(axis)]
    shown = f"format(round(((datum.value % {_STEP}) * {reach} + {axis.low}) * 100), '~g') + '%'"
    x = alt.X("x:Q", title=axis.title).scale(domain=[-0.05, last + 0.05], nice=False)
    x = x.axis(grid=False, values=places, labelExpr=shown, labelOverlap=False, labelFontSize=10, domain=False)
    dots = [_dot(it, at, axis) for at, column in enumerate(columns) for it in column.dots if it.row in rows]
    heads = [{"x": at * _STEP, "row": "", "label": _short(it.label)} for at, it in enumerate(columns)]
    data = alt.Chart(alt.Data(values=dots))
    shape = alt.Shape("kind:N", legend=None).scale(domain=["in", "beyond"], range=["circle", "triangle-right"])
    layers = [
        alt.Chart(alt.Data(values=[{"x": place} for place in places]))
        .mark_rule(color=ink("line"), aria=False).encode(x=x),
        data.mark_rule(color=ink("accent"), strokeWidth=2, strokeOpacity=0.5, aria=False)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y),
        data.mark_point(size=45, filled=True, opacity=1, color=ink("accent"))
        .encode(x=x, y=y, shape=shape, description=alt.Description("says:N")),
        alt.Chart(alt.Data(values=heads))
        .mark_text(align="left", color=ink("ink"), fontSize=11, limit=int(width / len(columns)) - 4, aria=False)
        .encode(x=x, y=y, text=alt.Text("label:N")),
    ]  # fmt: skip
    return themed(alt.layer(*layers), width, _ROW * (len(rows) + 1))


def _named(axis: Axis) -> tuple[float, float, float]:
    return axis.low, axis.middle, axis.high


def _dot(it: Dot, at: int, axis: Axis) -> dict[str, Any]:
    def place(value: float) -> float:
        return at * _STEP + (min(axis.high, max(axis.low, value)) - axis.low) / (axis.high - axis.low)

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
