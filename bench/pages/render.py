"""The template engine: it always escapes, and fails on what is missing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from bench.base.errors import UserError
from bench.formats.failures import paper_names
from bench.formats.seeds import seeds_mark
from bench.formats.verdict import reached_text
from bench.pages.addresses import absolute, agent_page, case_page, root_of, stem
from bench.pages.cell_trace import arguments, check_links, given, headline
from bench.pages.compiled import CompiledTemplates
from bench.pages.costs import cost_of
from bench.pages.weights import read_open_weights
from bench.pages.words import (
    breakable,
    change,
    clip,
    count,
    cut,
    duration,
    known_cost,
    moment,
    number,
    percent,
    points,
    quoted,
    score,
    short,
    signed,
    size,
    spread,
    usd,
    visible,
    web_link,
)
from bench.stats import Entrant, agent_seconds, entrant_of, input_tokens, model_label, output_tokens

_FILTERS = (
    absolute,
    paper_names,
    change,
    points,
    signed,
    short,
    breakable,
    quoted,
    known_cost,
    cost_of,
    stem,
    percent,
    spread,
    score,
    usd,
    duration,
    count,
    number,
    size,
    moment,
    clip,
    cut,
    headline,
    arguments,
    given,
    check_links,
    web_link,
    case_page,
    agent_page,
    entrant_of,
    model_label,
    agent_seconds,
    input_tokens,
    output_tokens,
    seeds_mark,
    reached_text,
)


_ALONE = ("alone.css", "trace.css")


class Renderer:
    """The templates in the site's sources."""

    def __init__(self, site: Path, sources: str = "") -> None:
        """`sources`: the digest of all that pages are made by; without it nothing that was compiled is kept."""
        folder = site / "templates"
        if not (folder / "base.html").is_file():
            raise UserError("has no templates/base.html", where=site, remedy="name the folder with the site's sources")
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(folder),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=visible,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            bytecode_cache=CompiledTemplates(sources) if sources else None,
        )
        self._environment.filters.update({function.__name__: function for function in _FILTERS})
        self._environment.filters["weights"] = cache(read_open_weights(site).of)
        # A page that is handed on alone carries its style; its policy allows this one by digest, and no other.
        style = "".join((site / "static" / name).read_text(encoding="utf-8") for name in _ALONE)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        own = {"own_style": Markup(style), "own_style_digest": f"sha256-{digest}"}  # noqa: S704  a source of the site
        self._environment.globals.update(own, places_from=self._places_from, entrant_link=cache(self._entrant_link))
        # Sources are not read anew for every page.
        self._template = cache(self._environment.get_template)
        self._places = cache(self._rendered_places)

    def page(self, template: str, address: str, facts: Mapping[str, object], root: str = "") -> bytes:
        """A page; `address` is its own. root: where its links start, for one that is shown at any address."""
        root = root or Markup(root_of(address))  # noqa: S704  dots and slashes
        text = self._template(template).render(facts, root=root, address=address)
        # A lone surrogate in a record must not stop the site from being built.
        return text.encode("utf-8", "replace")

    def _entrant_link(self, root: str, who: Entrant, linked: bool = True) -> Markup:
        """The name of an agent, which a page of a case shows many times."""
        parts: Any = self._template("parts.html").module
        link: Markup = parts.entrant(root, who, linked)
        return link

    def _places_from(self, root: str, address: str) -> Markup:
        """The way to the main pages; `root` leads there from the page at `address`."""
        return self._places(root, address if not root else "")

    def _rendered_places(self, root: str, current: str) -> Markup:
        return Markup(self._template("places.html").render(root=root, current=current))  # noqa: S704  of our own sources
