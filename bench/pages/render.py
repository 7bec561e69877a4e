"""Rendering pages: where each one is, how a reader sees figures, times and untrusted text, and the template engine.

Addresses are relative to the root of the site; no two things ever share one. The engine always escapes, and fails on
what is missing.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import shlex
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urljoin

import jinja2
from markupsafe import Markup

from bench.base.errors import UserError
from bench.formats.failures import paper_names
from bench.formats.record import Record
from bench.formats.seeds import seeds_mark
from bench.formats.verdict import reached_text
from bench.pages.cell_trace import arguments, check_links, given, headline
from bench.pages.compiled import CompiledTemplates
from bench.pages.costs import cost_of
from bench.pages.weights import read_open_weights
from bench.stats import Cost, Entrant, Interval, agent_seconds, entrant_of, input_tokens, model_label, output_tokens

UNKNOWN = "–"  # noqa: RUF001
_LONGEST_TEXT = 6000
_MINUTE, _HOUR = 60, 3600
_WORD = r"[a-z0-9.]+(?:[-_][a-z0-9.]+)*"
_PLAIN_MODEL = re.compile(rf"{_WORD}(?:/{_WORD})*")
_PLAIN_AGENT = re.compile(_WORD)
_LONGEST_NAME = 80
_LONGEST_SHOWN = 64


def case_page(case: str) -> str:
    return f"cases/{case}.html"


def agent_page(entrant: Entrant) -> str:
    """One page for all profiles.

    Plain names are kept readable: only a `/` becomes `--`, which no plain name holds. Any other name is shortened to
    safe characters and gets a digest after `---`, which no plain name holds either.
    """
    agent, model = entrant.agent, entrant.model
    plain = _PLAIN_AGENT.fullmatch(agent) and (not model or _PLAIN_MODEL.fullmatch(model))
    name = f"{agent}--{model.replace('/', '--')}" if model else agent
    if plain and len(name) <= 2 * _LONGEST_NAME:
        return f"agents/{name}.html"
    digest = hashlib.sha256(f"{agent}\0{model}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"agents/{_safe(name)}---{digest}.html"


def cell_page(record: Record, line: str = "") -> str:
    """Named by content: another attempt at the same cell is another page. `line`: the record's, where it is known."""
    digest = hashlib.sha256((line or record.to_line()).encode()).hexdigest()[:16]
    return f"runs/{record.provenance.run}/{record.case.id}-{record.agent.id}-{record.trial}-{digest}.html"


def root_of(address: str) -> str:
    """The way back from a page to the root of the site."""
    return "../" * address.count("/")


def social_page(entrant: Entrant) -> str:
    """The address of the picture that other sites show beside a link to an agent."""
    return f"social/{agent_page(entrant).rpartition('/')[2].removesuffix('.html')}.png"


def absolute(address: str, base: str) -> str:
    """`base`: where the site is served."""
    return urljoin(base, address)


def _safe(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_NAME] or "agent"


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f}%"


def spread(interval: Interval | None) -> str:
    """An interval in per cent."""
    return "no interval" if interval is None else f"{100 * interval.low:.0f}–{100 * interval.high:.0f}%"  # noqa: RUF001


def points(value: float | None) -> str:
    """A difference of shares, in points of per cent."""
    return UNKNOWN if value is None else f"{100 * value:+.0f}".replace("-", "−")  # noqa: RUF001


def signed(interval: Interval) -> str:
    """The interval of a difference."""
    return f"{points(interval.low)} to {points(interval.high)}"


def change(value: float | None) -> str:
    """A share of a baseline, signed; short even where a small baseline blows it up."""
    if value is None:
        return UNKNOWN
    text = f"{100 * value:+.1f}%" if abs(value) < 1000 else f"{100 * value:+.2g}%"
    return text.replace("-", "−", 1)  # noqa: RUF001


def score(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def usd(value: float | None) -> str:
    """Three digits that matter for small sums, cents for large ones; never a zero that is none."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "$0"
    if value < 0.0005:
        return "<$0.001"
    return f"${value:.3f}" if value < 1 else f"${value:,.2f}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.1f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"


def count(value: float | None) -> str:
    """A count, or a mean of counts."""
    if value is None:
        return UNKNOWN
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"


def number(value: float | None) -> str:
    """A measurement of any size."""
    if value is None:
        return UNKNOWN
    return f"{value:.4g}" if math.isfinite(value) else "not a number" if math.isnan(value) else "infinite"


def size(value: int) -> str:
    return f"{value:,} B" if value < 10_000 else f"{value / 1000:,.0f} kB"


def moment(instant: str) -> str:
    """`2026-11-21T02:35:11Z` as `2026-11-21 02:35`."""
    return instant[:16].replace("T", " ")


def clip(text: str) -> str:
    """A text that does not drown the page; the record has all of it."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT]}\n… ({len(text):,} characters in all; the data file has them)"


def cut(text: str, most: int) -> str:
    """A text of a trace, whose rest is in the archive."""
    return text if len(text) <= most else f"{text[:most]}\n… ({len(text):,} characters in all)"


def short(text: str) -> str:
    """A name that fits a table; its own page has all of it."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def quoted(text: str) -> str:
    """For a shell."""
    return shlex.quote(text)


def known_cost(cost: Cost) -> float | str:
    """To sort by: empty where it is not known."""
    usd = cost.replayed_usd if cost.mean_usd is None else cost.mean_usd
    return "" if usd is None else usd


def stem(entrant: Entrant) -> str:
    """The name of an agent's page and files."""
    return agent_page(entrant).removeprefix("agents/").removesuffix(".html")


def web_link(url: str) -> str:
    """The address when it is one of the web, else nothing: no other scheme becomes a link."""
    return url if url.startswith("https://") and not any(character.isspace() for character in url) else ""


def visible(value: object) -> object:
    """Text whose control and direction characters can be seen, so that it cannot pretend to be other text.

    The filter through which every expression of every template passes, before it is escaped.
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value  # what has `__html__` is markup of our own
    value = without_host_paths(value)
    if value.isprintable():
        return value
    return "".join(_visible(character) for character in value)


_HOST_PATHS = (
    (re.compile(r"(?:/[^\s/:'\"<>]+)+/scratch/[^\s/:'\"<>]+(?=/|\b)"), "…"),
    (re.compile(r"(?:/[^\s/:'\"<>]+)+/(?=(?:site|dist)-packages/|lib/python3)"), "…/"),
    (re.compile(r"/(?:home|Users)/[^\s/:'\"<>]+"), "~"),
    (re.compile(r"(?i)\b[a-z]:\\users\\[^\s\\:'\"<>]+"), "~"),
    (re.compile(r"/root(?=/)"), "~"),
    (re.compile(r"/(?:tmp|var/folders|run/user/\d+)(?:/[^\s/:'\"<>]+)*?/mldb-[^\s/:'\"<>]+"), "…"),
)
"""Where a machine of ours keeps what an agent meets under other names: who runs it is not a reader's business."""


def without_host_paths(text: str) -> str:
    """The paths of a run folder's scratch, of installed packages and of a person's folder, cut down to their ends."""
    for pattern, instead in _HOST_PATHS if "/" in text or "\\" in text else ():
        text = pattern.sub(instead, text)
    return text


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}:
        return character
    return "" if character == "\r" else f"\\u{ord(character):04x}"


_FILTERS = (
    absolute,
    paper_names,
    change,
    points,
    signed,
    short,
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
        self._environment.filters["weights"] = read_open_weights(site).of
        # A page that is handed on alone carries its style; its policy allows this one by digest, and no other.
        style = "".join((site / "static" / name).read_text(encoding="utf-8") for name in _ALONE)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        own = {"own_style": Markup(style), "own_style_digest": f"sha256-{digest}"}  # noqa: S704  a source of the site
        self._environment.globals.update(own)

    def page(self, template: str, address: str, facts: Mapping[str, object]) -> bytes:
        """A page; `address` is its own, from which its links start."""
        text = self._environment.get_template(template).render(facts, root=root_of(address), address=address)
        # A lone surrogate in a record must not stop the site from being built.
        return text.encode("utf-8", "replace")
