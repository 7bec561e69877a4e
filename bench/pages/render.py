"""The template engine: always escaping, and strict about what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jinja2

from bench.base.errors import UserError
from bench.pages import address, figures
from bench.stats import agent_seconds, entrant_of, input_tokens, model_label, output_tokens

_FILTERS = (
    figures.percent,
    figures.spread,
    figures.score,
    figures.usd,
    figures.duration,
    figures.count,
    figures.number,
    figures.size,
    figures.moment,
    figures.clip,
    figures.web_link,
    address.case_page,
    address.agent_page,
    entrant_of,
    model_label,
    agent_seconds,
    input_tokens,
    output_tokens,
)


@dataclass(frozen=True)
class Renderer:
    environment: jinja2.Environment

    @classmethod
    def of(cls, site: Path) -> Renderer:
        """With the templates in the site's sources."""
        folder = site / "templates"
        if not (folder / "base.html").is_file():
            raise UserError("has no templates/base.html", where=site, remedy="name the folder with the site's sources")
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(folder),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=figures.visible,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        environment.filters.update({function.__name__: function for function in _FILTERS})
        return cls(environment)

    def page(self, template: str, place: str, facts: Mapping[str, object]) -> bytes:
        """A page; `place` is its address, from which its links start."""
        root = address.root_of(place)
        return self.environment.get_template(template).render(facts, root=root, place=place).encode("utf-8", "replace")
