"""From a chart to SVG that a strict page may hold: colours by class, unique ids, no style, nothing active.

vl-convert runs Vega in its own engine, without a browser and without the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from markupsafe import Markup

from bench.base.errors import UserError
from bench.base.files import write_atomic
from bench.pages.program import version_of
from bench.pages.vega import INKS, Spec, ink

_SVG = "http://www.w3.org/2000/svg"
_KEPT = {"svg", "g", "path", "line", "rect", "circle", "text", "tspan", "defs", "clipPath"}
_ATTRIBUTES = {
    "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "transform", "opacity", "fill-opacity",
    "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap", "text-anchor", "font-size", "font-weight",
    "clip-path", "viewBox",
}  # fmt: skip
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_MOST_CHARTS = 4000
_DRAWING = threading.Lock()
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


Draw: TypeAlias = Callable[[Spec, str, str, str], Markup]
"""`to_svg`, or what remembers what it drew."""


class ChartCache:
    """Drawings by the digest of their specification: one that has not changed is not drawn again."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: None keeps nothing."""
        self._folder = folder

    def svg(self, chart: Spec, name: str, title: str, description: str) -> Markup:
        """As `to_svg`."""
        return _worded_svg(self._drawing(chart, name), name, title, description)

    def _drawing(self, chart: Spec, name: str) -> str:
        if self._folder is None:
            return _drawn(chart, name)
        key = hashlib.sha256(f"{_drawn_by()} {name} {json.dumps(chart, sort_keys=True)}".encode()).hexdigest()
        path = self._folder / key[:2] / f"{key[2:40]}.svg"
        try:
            # What is read here was made by `_strict`, which let nothing through but its own elements and attributes.
            found = path.read_bytes().decode()
            os.utime(path)
        except (OSError, ValueError):
            found = ""
        if not (found.startswith("<svg ") and found.endswith("</svg>")):
            found = _drawn(chart, name)
            write_atomic(path, found.encode())
        return found

    def forget_old(self) -> None:
        """Remove what no build has used for long, once there is much of it."""
        files = [path for path in self._folder.rglob("*.*") if path.is_file()] if self._folder is not None else []
        if len(files) > _MOST_CHARTS:
            files.sort(key=lambda it: it.stat().st_mtime, reverse=True)
            for path in files[_MOST_CHARTS:]:
                path.unlink(missing_ok=True)


@cache
def _drawn_by() -> str:
    """This module and Vega's version: other ones draw other pictures of the same specification."""
    return f"{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()} {version_of('vl-convert-python')}"


def require(*libraries: str) -> None:
    """Raises `UserError` where a library of the drawings is missing."""
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        raise UserError(f"needs {', '.join(missing)}", where="the site", remedy="pip install 'ml-dev-bench[site]'")


def to_svg(chart: Spec, name: str, title: str, description: str) -> Markup:
    """The drawing of `chart`, as `layered` made it; the same chart gives the same bytes. `name` begins its ids."""
    return _worded_svg(_drawn(chart, name), name, title, description)


@contextmanager
def engine() -> Iterator[Any]:
    """The module that draws, for one thread at a time: it has one of its own, and draws without Python's lock."""
    require("vl_convert")
    import vl_convert

    with _DRAWING:
        yield vl_convert


@cache
def start_engine() -> None:
    """Begin to load Vega beside what this process does: its first drawing takes half a second longer than others."""
    if find_spec("vl_convert") is not None:
        threading.Thread(target=_draw_nothing, name="vega").start()


def _draw_nothing() -> None:
    with engine() as vega:
        vega.vegalite_to_svg({"data": {"values": []}, "mark": "point"}, allowed_base_urls=[])


def _drawn(chart: Spec, name: str) -> str:
    with engine() as vega:
        text = vega.vegalite_to_svg(chart, allowed_base_urls=[])
    return _strict(text, name)


def _strict(text: str, name: str) -> str:
    root = ET.fromstring(text)  # noqa: S314  made by Vega from our own specification
    made = _copied(root, name)
    box = root.get("viewBox", "0 0 100 100")
    made.attrib = {
        "class": "chart",
        "viewBox": box,
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-text",
    }
    return ET.tostring(made, encoding="unicode")


def _worded_svg(svg: str, name: str, title: str, description: str) -> Markup:
    """With the words that stand for it, which come first."""
    opened, end, rest = svg.partition(">")
    words = (_worded("title", title, id=f"{name}-title"), _worded("desc", description, id=f"{name}-text"))
    said = "".join(ET.tostring(it, encoding="unicode") for it in words)
    return Markup(f"{opened}{end}{said}{rest}")  # noqa: S704  every text and attribute went through ElementTree


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
