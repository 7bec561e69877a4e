"""What other sites read: feeds of confirmed steps, badges, and the map of the pages."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urljoin

from bench.pages.addresses import agent_page, stem
from bench.pages.board import Board, Row
from bench.pages.news import News
from bench.pages.words import percent, spread, visible

ATOM, JSON_FEED, SITEMAP = "feed.atom", "feed.json", "sitemap.xml"
_ATOM = "http://www.w3.org/2005/Atom"
_SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
_MOST = 100
_EPOCH = "1970-01-01T00:00:00Z"


def feed_files(title: str, news: Sequence[News], base: str) -> Iterator[tuple[str, bytes]]:
    """The newest confirmed steps; `base`: the address of the site, empty where it is not known."""
    steps = sorted((it for it in news if it.step), key=lambda it: (it.step_night, it.who), reverse=True)[:_MOST]
    updated = steps[0].step_night if steps else _EPOCH
    yield ATOM, _atom(title, steps, base, updated)
    items = [
        {
            "id": _id(it),
            "title": _headline(it),
            "content_text": _story(it),
            "url": urljoin(base, agent_page(it.who)),
            "date_published": it.step_night,
        }
        for it in steps
    ]
    document: dict[str, object] = {"version": "https://jsonfeed.org/version/1.1", "title": title, "items": items}
    if base:
        document |= {"home_page_url": base, "feed_url": urljoin(base, JSON_FEED)}
    yield JSON_FEED, f"{json.dumps(document, indent=1)}\n".encode()


def _atom(title: str, steps: Sequence[News], base: str, updated: str) -> bytes:
    feed = ET.Element("feed", {"xmlns": _ATOM})
    _add(feed, "title", title)
    _add(feed, "id", base or "urn:ml-dev-bench:feed")
    _add(feed, "updated", updated)
    _add(ET.SubElement(feed, "author"), "name", "ml-dev-bench")
    ET.SubElement(feed, "link", {"rel": "self", "href": urljoin(base, ATOM)})
    for it in steps:
        entry = ET.SubElement(feed, "entry")
        _add(entry, "title", _headline(it))
        _add(entry, "id", _id(it))
        _add(entry, "updated", it.step_night)
        ET.SubElement(entry, "link", {"href": urljoin(base, agent_page(it.who))})
        _add(entry, "summary", _story(it))
    return _xml(feed)


def _add(parent: ET.Element, tag: str, text: str) -> None:
    ET.SubElement(parent, tag).text = _plain(text)


def _plain(text: str) -> str:
    return str(visible(text)).encode("utf-8", "replace").decode()


def _id(it: News) -> str:
    return f"urn:ml-dev-bench:step:{stem(it.who)}:{it.who.profile}:{it.step_night}"


def _headline(it: News) -> str:
    assert it.step is not None
    return _plain(f"{it.who.agent} {it.who.model}: success now {percent(it.step.mean)} since {it.step_night[:10]}")


def _story(it: News) -> str:
    cases = ", ".join(f"{move.name} {percent(move.before)} to {percent(move.now)}" for move in it.step_cases)
    return _plain(f"A confirmed change of level in profile {it.who.profile}." + (f" Cases: {cases}." if cases else ""))


def badge_files(board: Board, suite: str) -> Iterator[tuple[str, bytes]]:
    """Of each agent and profile an image, and what shields.io asks for."""
    label = _plain(f"{suite or 'ml-dev-bench'}")
    for section in board.sections:
        for row in section.competitors:
            place = f"badges/{section.profile}/{stem(row.standing.entrant)}"
            message = _message(row)
            document = {
                "schemaVersion": 1,
                "label": label,
                "message": message,
                "color": "grey" if row.stale else "blue",
            }
            yield f"{place}.json", json.dumps(document | ({"isError": True} if row.stale else {})).encode()
            yield f"{place}.svg", _badge(label, message, stale=row.stale)


def _message(row: Row) -> str:
    it = row.standing
    if it.success is None:
        return "no result"
    rank = f"#{row.place.rank}, " if row.place.rank is not None else f"{it.covered} of {it.suite_size} cases, "
    old = f", stale since {row.last[:10]}" if row.stale else ""
    return f"{rank}{percent(it.success.mean)} ({spread(it.success.interval)}){old}"


def _badge(label: str, message: str, *, stale: bool) -> bytes:
    """Widths are guessed generously: a badge is an image, and its fonts are those of the reader."""
    one, two = 12 + 7 * len(label), 12 + 7 * len(message)
    svg = ET.Element(
        "svg",
        {"xmlns": "http://www.w3.org/2000/svg", "width": str(one + two), "height": "20", "role": "img"},
    )
    ET.SubElement(svg, "title").text = f"{label}: {message}"
    ET.SubElement(svg, "rect", {"width": str(one + two), "height": "20", "rx": "3", "fill": "#3d4754"})
    colour = "#6b7280" if stale else "#0b5cad"
    ET.SubElement(svg, "rect", {"x": str(one), "width": str(two), "height": "20", "rx": "3", "fill": colour})
    for text, middle, width in ((label, one / 2, one), (message, one + two / 2, two)):
        style = {"fill": "#fff", "font-family": "Verdana,DejaVu Sans,sans-serif", "font-size": "11"}
        place = {"x": f"{middle:g}", "y": "14", "text-anchor": "middle", "textLength": str(width - 12)}
        ET.SubElement(svg, "text", style | place).text = text
    return _xml(svg)


def sitemap(pages: Mapping[str, str], base: str) -> bytes:
    """`pages`: addresses with the day of their last change, empty where it is not known."""
    root = ET.Element("urlset", {"xmlns": _SITEMAP})
    for address, day in sorted(pages.items()):
        url = ET.SubElement(root, "url")
        ET.SubElement(url, "loc").text = urljoin(base, address)
        if day:
            ET.SubElement(url, "lastmod").text = day
    return _xml(root)


def _xml(root: ET.Element) -> bytes:
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'.encode()
