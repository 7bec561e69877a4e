"""From an Altair chart to SVG that a strict page may hold: colours by class, unique ids, no style, nothing active.

vl-convert runs Vega in its own engine, without a browser and without the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from markupsafe import Markup

from bench.base.errors import UserError
from bench.base.files import write_atomic

_SVG = "http://www.w3.org/2000/svg"
_KEPT = {"svg", "g", "path", "line", "rect", "circle", "text", "tspan", "defs", "clipPath"}
_ATTRIBUTES = {
    "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "transform", "opacity", "fill-opacity",
    "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap", "text-anchor", "font-size", "font-weight",
    "clip-path", "viewBox",
}  # fmt: skip
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_MOST_CHARTS = 4000
_PADDING = {"left": 14, "right": 8, "top": 6, "bottom": 4}
"""The fonts of a reader may be wider than those that Vega measures with."""
INKS = ("ink", "soft", "line", "paper", "accent", "second", "faint", "pass", "fail", "one", "two", "three", "four")
"""What a colour means; the style sheet says which colour it is, in the light and in the dark."""
Spec: TypeAlias = dict[str, Any]
"""A chart as Vega-Lite."""


def ink(name: str) -> str:
    """A colour of a chart, which becomes the class `ink-NAME`, or `line-NAME` for strokes."""
    return f"#0000{INKS.index(name) + 1:02x}"


_NAME_OF = {ink(name): name for name in INKS}


@dataclass(frozen=True)
class Figures:
    """The numbers of a chart as a table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Chart:
    """A drawing with everything that says the same in words."""

    name: str
    """Begins the ids of its parts: no two charts of a page share it."""
    title: str
    description: str
    sizes: Mapping[str, Markup]
    """SVG by the screen it is for: `wide` and `narrow`, or `any`."""
    figures: Figures


class ChartCache:
    """Charts by the digest of what they are drawn from: one that has not changed costs neither Vega nor its start."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: None keeps nothing."""
        self._folder = folder
        self._drawn_by = ""

    def chart(self, draw: Callable[..., Chart | None], *facts: object) -> Chart | None:
        """`draw(*facts)`; the facts must say all about themselves by `repr`."""
        if self._folder is None:
            return draw(*facts)
        key = hashlib.sha256(f"{self._tools()} {draw.__name__} {facts!r}".encode("utf-8", "surrogatepass")).hexdigest()
        path = self._folder / key[:2] / f"{key[2:40]}.json"
        try:
            found = json.loads(path.read_bytes())
            os.utime(path)
        except (OSError, ValueError):
            made = draw(*facts)
            write_atomic(path, json.dumps(None if made is None else asdict(made)).encode())
            return made
        if found is None:
            return None
        # What is read here was made by `to_svg`, which let nothing through but its own elements and attributes.
        sizes = {size: Markup(svg) for size, svg in found["sizes"].items()}  # noqa: S704
        return Chart(**{**found, "sizes": sizes, "figures": Figures(**found["figures"])})

    def forget_old(self) -> None:
        """Remove what no build has used for long, once there is much of it."""
        files = list(self._folder.rglob("*.json")) if self._folder is not None else []
        if len(files) > _MOST_CHARTS:
            files.sort(key=lambda it: it.stat().st_mtime, reverse=True)
            for path in files[_MOST_CHARTS:]:
                path.unlink(missing_ok=True)

    def _tools(self) -> str:
        """The sources of this room and the versions of the libraries: other ones draw other pictures."""
        if not self._drawn_by:
            found = hashlib.sha256()
            for path in sorted(Path(__file__).parent.glob("*.py")):
                found.update(path.read_bytes())
            self._drawn_by = " ".join([found.hexdigest(), *map(_version, ("altair", "vl-convert-python"))])
        return self._drawn_by


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def require(*libraries: str) -> None:
    """Raises `UserError` where a library of the drawings is missing."""
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        raise UserError(f"needs {', '.join(missing)}", where="the site", remedy="pip install 'ml-dev-bench[site]'")


def altair() -> Any:
    """Altair, whose types a strict checker cannot follow. Raises `UserError` where it is missing."""
    require("altair", "vl_convert")
    import altair as found
    from altair.utils.schemapi import disable_debug_mode

    # Else every part of a chart is checked against the schema when it is made, which takes longer than the drawing;
    # a test checks every kind of chart.
    disable_debug_mode()
    return found


def to_svg(chart: Spec, name: str, title: str, description: str) -> Markup:
    """The drawing of `chart`, as `themed` made it; the same chart gives the same bytes."""
    import vl_convert

    text = vl_convert.vegalite_to_svg(chart, allowed_base_urls=[])
    return _strict(text, name, title, description)


def _strict(text: str, name: str, title: str, description: str) -> Markup:
    root = ET.fromstring(text)  # noqa: S314  made by Vega from our own specification
    made = _copied(root, name)
    box = root.get("viewBox", "0 0 100 100")
    made.attrib = {
        "class": "chart",
        "viewBox": box,
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-text",
    }
    for position, (tag, words) in enumerate((("title", title), ("desc", description))):
        made.insert(position, _worded(tag, words, id=f"{name}-{'title' if tag == 'title' else 'text'}"))
    return Markup(ET.tostring(made, encoding="unicode"))  # noqa: S704  every text and attribute went through ElementTree


def _copied(node: ET.Element, name: str) -> ET.Element:
    made = ET.Element(_tag(node), _attributes(node, name))
    made.text = node.text
    if (label := node.get("aria-label")) and _tag(node) in {"path", "circle", "rect"} and node.get("d") != "":
        made.append(_worded("title", label))
    for child in node:
        if _tag(child) in _KEPT and not _empty(child):
            copy = _copied(child, name)
            if len(copy) or copy.text or _tag(child) not in {"g", "text"}:
                made.append(copy)
    return made


def _attributes(node: ET.Element, name: str) -> dict[str, str]:
    found = {key: _NUMBER.sub(_rounded, value) for key, value in node.attrib.items() if key in _ATTRIBUTES}
    classes = []
    for key, prefix in (("fill", "ink"), ("stroke", "line")):
        colour = node.get(key)
        if colour in _NAME_OF:
            classes.append(f"{prefix}-{_NAME_OF[colour]}")
        elif colour in ("none", "transparent"):
            found[key] = "none"
        elif colour is not None:
            raise ValueError(f"{colour} is not a colour of a chart: use `ink`")
    if classes:
        found["class"] = " ".join(classes)
    if node.get("id"):
        found["id"] = f"{name}-{node.get('id')}"
    if "clip-path" in found:
        found["clip-path"] = found["clip-path"].replace("url(#", f"url(#{name}-")
    return found


def _empty(node: ET.Element) -> bool:
    """A part that draws nothing: Vega makes many."""
    if node.get("display") == "none" or node.get("opacity") == "0":
        return True
    painted = node.get("fill", "none") not in ("none", "transparent") or node.get("stroke") is not None
    return _tag(node) in {"path", "rect"} and (node.get("d") in ("", "M0,0h0v0h0Z") or not painted) and not _clips(node)


def _clips(node: ET.Element) -> bool:
    return _tag(node) == "rect" and "fill" not in node.attrib and node.get("class") is None


def _tag(node: ET.Element) -> str:
    return node.tag.removeprefix(f"{{{_SVG}}}")


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found.group()):.1f}"


def _worded(tag: str, words: str, **attributes: str) -> ET.Element:
    made = ET.Element(tag, attributes)
    made.text = words
    return made


def themed(chart: Any, width: int, height: int) -> Spec:
    """The chart in the house's style, as Vega-Lite. Its style is added as text: Altair copies a chart to change it."""
    quiet = {"titleFontWeight": 400, "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 170, "titlePadding": 9}
    colours = {"labelColor": ink("soft"), "titleColor": ink("soft"), "gridColor": ink("line"), "tickColor": ink("line")}
    axis = {**quiet, **colours, "domainColor": ink("line"), "tickSize": 4}
    config = {"font": "sans-serif", "aria": True, "axis": axis, "view": {"stroke": None}}
    size = {"width": width, "height": height, "padding": _PADDING}
    made: Spec = chart.to_dict(validate=False)
    return {**made, **size, "background": "transparent", "config": config}
