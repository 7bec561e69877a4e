"""How a reader sees figures, times and untrusted text."""

from __future__ import annotations

import math
import re
import shlex
import unicodedata

from markupsafe import Markup

from bench.stats import Cost, Interval

_MINUTE, _HOUR = 60, 3600


UNKNOWN = "–"  # noqa: RUF001


_LONGEST_TEXT = 6000


_LONGEST_SHOWN = 64


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


def breakable(text: str) -> Markup:
    """A name of parts between slashes: where it does not fit, a line ends behind one of them, and not within a word."""
    return Markup("/<wbr>").join(str(visible(text)).split("/"))


def quoted(text: str) -> str:
    """For a shell."""
    return shlex.quote(text)


def known_cost(cost: Cost) -> float | str:
    """To sort by: empty where it is not known."""
    usd = cost.replayed_usd if cost.mean_usd is None else cost.mean_usd
    return "" if usd is None else usd


def web_link(url: str) -> str:
    """The address when it is one of the web, else nothing: no other scheme becomes a link."""
    return url if url.startswith("https://") and not any(character.isspace() for character in url) else ""


def visible(value: object) -> object:
    """Text whose control and direction characters can be seen, so that it cannot pretend to be other text.

    The filter through which every expression of every template passes, before it is escaped.
    """
    if type(value) is not str and (not isinstance(value, str) or hasattr(value, "__html__")):
        return value  # what has `__html__` is markup of our own
    if "/" in value or "\\" in value:
        value = without_host_paths(value)
    if value.isprintable():
        return value
    return "".join(_visible(character) for character in value)


_HOST_PATHS = (
    ("/scratch/", re.compile(r"(?:/[^\s/:'\"<>]+){1,64}/scratch/[^\s/:'\"<>]+(?=/|\b)"), "…"),
    ("/", re.compile(r"(?:/[^\s/:'\"<>]+){1,64}/(?=(?:site|dist)-packages/|lib/python3)"), "…/"),
    ("/", re.compile(r"/(?:home|Users)/[^\s/:'\"<>]+"), "~"),
    ("\\", re.compile(r"(?i)\b[a-z]:\\users\\[^\s\\:'\"<>]+"), "~"),
    ("/root/", re.compile(r"/root(?=/)"), "~"),
    ("/mldb-", re.compile(r"/(?:tmp|var/folders|run/user/\d+)(?:/[^\s/:'\"<>]+){0,64}?/mldb-[^\s/:'\"<>]+"), "…"),
)
"""Where a machine of ours keeps what an agent meets under other names: who runs it is not a reader's business.

What every such path holds stands before its pattern, and is found in a tenth of the time. No path has more parts than
are counted here: an agent's text of slashes alone would be looked through once for each.
"""


def without_host_paths(text: str) -> str:
    """The paths of a run folder's scratch, of installed packages and of a person's folder, cut down to their ends."""
    for held, pattern, instead in _HOST_PATHS:
        if held in text:
            text = pattern.sub(instead, text)
    return text


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}:
        return character
    return "" if character == "\r" else f"\\u{ord(character):04x}"
