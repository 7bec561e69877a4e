"""Numbers, times and untrusted text as a reader should see them."""

from __future__ import annotations

import unicodedata

from bench.stats import Interval

UNKNOWN = "–"  # noqa: RUF001
_LONGEST_TEXT = 6000
_MINUTE, _HOUR = 60, 3600


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f}%"


def spread(interval: Interval | None) -> str:
    """An interval in per cent."""
    return "no interval" if interval is None else f"{100 * interval.low:.0f}–{100 * interval.high:.0f}%"  # noqa: RUF001


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
    return UNKNOWN if value is None else f"{value:.4g}"


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


def web_link(url: str) -> str:
    """The address when it is one of the web, else nothing: no other scheme becomes a link."""
    return url if url.startswith("https://") and not any(character.isspace() for character in url) else ""


def visible(value: object) -> object:
    """Text whose control and direction characters can be seen, so that it cannot pretend to be other text.

    The filter through which every expression of every template passes, before it is escaped.
    """
    if not isinstance(value, str) or hasattr(value, "__html__") or value.isprintable():
        return value  # what has `__html__` is markup of our own
    return "".join(_visible(character) for character in value)


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}:
        return character
    return "" if character == "\r" else f"\\u{ord(character):04x}"
