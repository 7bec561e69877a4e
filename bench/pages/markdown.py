"""Statements of cases, from Markdown to HTML that can do nothing: no raw HTML, no images, links of the web alone."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from bench.pages.words import clip, visible, web_link

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_DEEPER = 2
"""Headings begin below those of the page."""
_PARSING = threading.Lock()
"""The parser hands out a table of characters before it has filled it: of two threads one would meet half of it."""


def rendered(text: str) -> Markup:
    """Safe HTML; what is too long is cut."""
    with _PARSING:
        return _rendered(_parser(), str(visible(clip(text))))


def _rendered(parser: MarkdownIt, text: str) -> Markup:
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + _DEEPER)}"
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noreferrer noopener external")
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704  the parser escapes all text


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Tables of a statement have neither a caption nor scopes: they stay text.
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).disable(["image", "html_inline", "html_block"])
    parser.validateLink = lambda url: bool(web_link(url))  # type: ignore[method-assign]
    return parser
