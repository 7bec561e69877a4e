"""The two scores of an improvement as text: of one record in a line, of entrants as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.base.text import printable

if TYPE_CHECKING:
    from bench.formats.record import Record
    from bench.stats import Estimate, Improvement, OverCases

TOO_SMALL = "n too small"
_WORDS = 60
COLUMNS = ("agent", "model", "case", "metric", "baseline", "bar", "valid", "improvement", "over the bar", "bounded")


def improvement_text(record: Record) -> str:
    """Both scores of a record, as `+45.1 % on the baseline, bounded 0.92`; empty without a headline metric."""
    scale, value = record.headline, record.headline_value
    if scale is None or record.outcome != "graded":
        return ""
    name = printable(scale.name, _WORDS)
    if value is None:
        return f"{name} has no valid value"
    relative = scale.relative(value)
    share = "" if relative is None else f" ({signed_percent(relative)} on the baseline)"
    return f"{name} {value:.6g}{share}, bounded {scale.bounded(value):.2f}"


def headline_lines(record: Record) -> list[str]:
    """What the metric is held against, and both scores; empty without a headline metric."""
    scale, value = record.headline, record.headline_value
    if scale is None or record.outcome != "graded":
        return []
    unit = f" {printable(scale.unit, _WORDS)}" if scale.unit else ""
    held = f"baseline {scale.baseline:g}{unit}, best known {scale.target:g}{unit}, {scale.direction} is better"
    if scale.bar is not None:
        held += f"; the bar is more than {scale.bar:.0%}: {'above' if scale.direction == 'higher' else 'below'} "
        held += f"{scale.value_at_bar:g}"
    said = improvement_text(record)
    if value is not None and scale.bar is not None:
        said += f"; {'over' if scale.is_over(value, scale.bar) else 'not over'} the bar"
    return [said, held]


def headline_document(record: Record) -> dict[str, object] | None:
    """The same for programs; None without a headline metric."""
    scale, value = record.headline, record.headline_value
    if scale is None:
        return None
    return {
        **scale.model_dump(),
        "value": value,
        "relative": None if value is None else scale.relative(value),
        "bounded": None if value is None else scale.bounded(value),
        "over_bar": None if scale.bar is None else value is not None and scale.is_over(value, scale.bar),
    }


def improvement_rows(found: Sequence[Improvement]) -> list[list[str]]:
    """By `COLUMNS`, a row for each entrant and case."""
    return [
        [
            it.entrant.agent,
            it.entrant.model,
            it.case,
            it.scale.name,
            f"{it.scale.baseline:g}",
            "-" if it.scale.bar is None else f">{it.scale.bar:.0%}",
            f"{it.valid}/{it.graded}",
            estimate_text(it.relative, percent=True),
            "-" if it.over_own_bar is None else f"{it.over_own_bar:.0%}",
            estimate_text(it.bounded),
        ]
        for it in found
    ]


def bars_rows(found: Sequence[Improvement | OverCases]) -> list[list[str]]:
    """The share of trials over each bar, as in `BARS`; of entrants over all cases, the mean of the cases' shares."""
    return [[_share(it.over, bar) for bar in _bars()] for it in found]


def bars_header() -> list[str]:
    return [f">{bar:.0%}" for bar in _bars()]


def _bars() -> Sequence[float]:
    from bench.stats import BARS

    return BARS


def _share(over: Mapping[float, float] | Mapping[float, Estimate], bar: float) -> str:
    value = over.get(bar)
    if value is None:
        return "-"
    return f"{value:.0%}" if isinstance(value, float) else f"{value.mean:.0%}"


def estimate_text(it: Estimate | None, *, percent: bool = False) -> str:
    """A mean with its interval, or with why there is none."""
    if it is None:
        return "-"
    shown = signed_percent if percent else lambda value: f"{value:.2f}"
    if it.interval is not None:
        return f"{shown(it.mean)} [{shown(it.interval.low)}, {shown(it.interval.high)}]"
    from bench.stats import FEWEST_TRIALS

    return f"{shown(it.mean)} ({TOO_SMALL if it.n < FEWEST_TRIALS else 'all equal'})"


def signed_percent(value: float) -> str:
    """A share as a signed percentage; what a small baseline blows up stays short."""
    return f"{100 * value:+.1f} %" if abs(value) < 1000 else f"{100 * value:+.2g} %"
