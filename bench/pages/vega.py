"""A chart as Vega-Lite in plain dictionaries, and the house's style of it.

Altair writes the same ones, and is what they are checked against in a test; to import it takes longer than to draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Spec: TypeAlias = dict[str, Any]
"""A chart, or a part of one."""
PERCENT = "format(datum.value * 100, '~g') + '%'"
"""The labels of an axis of shares."""
INKS = ("ink", "soft", "line", "paper", "accent", "second", "faint", "pass", "fail", "one", "two", "three", "four")
"""What a colour means; the style sheet says which colour it is, in the light and in the dark."""
_PADDING = {"left": 14, "right": 8, "top": 6, "bottom": 4}
"""The fonts of a reader may be wider than those that Vega measures with."""


def ink(name: str) -> str:
    """A colour of a chart, which becomes the class `ink-NAME`, or `line-NAME` for strokes."""
    return f"#0000{INKS.index(name) + 1:02x}"


def share(value: float) -> float:
    """As exact as a share is drawn, within half a pixel: what moves less makes the same drawing."""
    return round(value, 3)


def amount(value: float) -> float:
    """As exact as dollars, tokens or seconds are drawn, on an axis that begins anywhere."""
    return float(f"{value:.4g}")


def number(field: str, **more: Any) -> Spec:
    """A channel that shows a number."""
    return {"field": field, "type": "quantitative", **more}


def word(field: str, **more: Any) -> Spec:
    """A channel that shows one of several names."""
    return {"field": field, "type": "nominal", **more}


def when(field: str, **more: Any) -> Spec:
    """A channel that shows an instant."""
    return {"field": field, "type": "temporal", **more}


def layer(values: Sequence[Mapping[str, Any]], mark: str, encoding: Spec, **style: Any) -> Spec:
    """Each of `values` as a mark."""
    return {"data": {"values": list(values)}, "mark": {"type": mark, **style}, "encoding": encoding}


def layered(layers: Sequence[Spec], width: int, height: int) -> Spec:
    """Layers one over another, the last one in front, in the house's style."""
    quiet = {"titleFontWeight": 400, "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 170, "titlePadding": 9}
    colours = {"labelColor": ink("soft"), "titleColor": ink("soft"), "gridColor": ink("line"), "tickColor": ink("line")}
    axis = {**quiet, **colours, "domainColor": ink("line"), "tickSize": 4}
    return {
        "config": {"font": "sans-serif", "aria": True, "axis": axis, "view": {"stroke": None}},
        "layer": list(layers),
        "width": width,
        "height": height,
        "padding": _PADDING,
        "background": "transparent",
    }
