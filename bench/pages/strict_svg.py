"""From Vega's SVG to one that a strict page may hold: colours by class, unique ids, no style, nothing active."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from markupsafe import Markup

from bench.pages.vega import INKS, ink

_SVG = "http://www.w3.org/2000/svg"
_KEPT = {"svg", "g", "path", "line", "rect", "circle", "text", "tspan", "defs", "clipPath"}
_ATTRIBUTES = {
    "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "transform", "opacity", "fill-opacity",
    "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap", "text-anchor", "font-size", "font-weight",
    "clip-path", "viewBox",
}  # fmt: skip
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_NAME_OF = {ink(name): name for name in INKS}


def strict_svg(text: str, name: str) -> str:
    """`text` as Vega wrote it; `name` begins its ids. Raises `ValueError` for a colour that is none of a chart."""
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


def worded_svg(svg: str, name: str, title: str, description: str) -> Markup:
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
