"""Trends as text: lines for people, and the GitHub issues about drops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.base.text import counted

if TYPE_CHECKING:
    from bench.github import Notice
    from bench.stats import Drop, Level, Moved, Series, Shared

_MOST_NAMES = 10
_SURE = 0.05


@dataclass(frozen=True)
class CategoryDrop:
    """A category that fell by itself: a finding, not an alarm."""

    name: str
    drop: Drop


@dataclass(frozen=True)
class Trend:
    """One series with its levels and the drop that stands, if any, with what explains it."""

    series: Series
    levels: Sequence[Level]
    drop: Drop | None
    moved_categories: Sequence[Moved] = ()
    """Of the drop."""
    moved_cases: Sequence[Moved] = ()
    """Of the drop."""
    control: Shared | None = None
    """Of the drop; None without --control, and for the control itself."""
    category_drops: Sequence[CategoryDrop] = field(default=())


def as_text(found: Sequence[Trend], measure: str) -> str:
    """One line a series, one a step, and what explains a drop."""
    from bench.base.text import printable

    lines = []
    for it in found:
        series, who = it.series, it.series.entrant
        thin = f"; {counted(len(series.thin), 'run')} graded too few cases" if series.thin else ""
        model = f" with {who.model}" if who.model else ""
        lines.append(
            f"{who.agent}{model}, {who.profile}, suite {series.suite} {series.version}: "
            f"{counted(len(series.nights), 'night')}{thin}"
        )
        for level in it.levels:
            night = series.nights[level.first]
            step = f", p = {level.p:.4f}" if level.first else ""
            lines.append(
                f"  {measure} {level.mean:.3f} from {night.run} ({night.started}), "
                f"{counted(level.end - level.first, 'night')}{step}"
            )
        if it.drop:
            since = series.nights[it.drop.since].run
            lines.append(f"  FELL from {it.drop.before:.3f} to {it.drop.now:.3f} at {since}; it still stands")
            lines += [f"    {line}" for line in explanation(it)]
        for category in it.category_drops:
            since = series.nights[category.drop.since].run
            lines.append(
                f"  category {category.name} fell from {category.drop.before:.3f} to {category.drop.now:.3f} at "
                f"{since}; a finding, not an alarm"
            )
    return "\n".join(map(printable, lines)) or "no series: no graded record of a ranked agent"


def explanation(it: Trend) -> list[str]:
    """Which cases and categories make up the drop, and what the control did."""
    found = []
    for kind, moved in (("cases", it.moved_cases), ("categories", it.moved_categories)):
        sure = [part for part in moved if part.now < part.before and part.p <= _SURE]
        if sure:
            found.append(f"{kind} that fell: {_listed(sure)}")
        else:
            fell = [part for part in moved if part.now < part.before]
            most = f"; most: {_listed(fell[:3])}" if fell else ""
            found.append(f"{kind} that fell: none for certain (Holm){most}")
    if it.control:
        found.append(control_line(it.control, it.series.entrant.model))
    return found


def _listed(moved: Sequence[Moved]) -> str:
    named = [f"{part.name} {part.before:.2f} to {part.now:.2f} (p = {part.p:.4f})" for part in moved[:_MOST_NAMES]]
    rest = len(moved) - len(named)
    return ", ".join([*named, f"{rest} more"] if rest else named)


def control_line(control: Shared, model: str) -> str:
    """What the control says about the cause of a drop of an agent with `model`."""
    name = f"control {control.agent}" + (f" with {control.model}" if control.model else "")
    missing = f" It has no point in {', '.join(control.missing)}." if control.missing else ""
    if control.model not in ("", model):
        missing += " It runs with another model, so it cannot tell that a model has changed."
    if control.change is None or control.error is None:
        lacks = (
            "no data for this step" if control.missing else "no series, or too few nights in common before this step"
        )
        return f"{name}: {lacks}, so the cause of the step is not known.{missing}"
    points = f"changed by {100 * control.change:+.1f} points (standard error {100 * control.error:.1f})"
    said = {
        "shared": "it shares the step, so the cause is likely the model, the provider or the machine, not the agent",
        "own": "it does not share the step, so the cause is likely the agent",
        "unclear": "this is too uncertain to tell whether it shares the step",
    }[control.attribution]
    return f"{name} {points}: {said}.{missing}"


def notices(found: Sequence[Trend], measure: str, margin: float) -> list[Notice]:
    """One for each agent and suite with a drop that stands, whatever its models and profiles."""
    from bench.base.text import escape
    from bench.github import Notice

    by_key: dict[tuple[str, str], list[Trend]] = defaultdict(list)
    for it in found:
        if it.drop:
            by_key[it.series.entrant.agent, it.series.suite].append(it)
    made = []
    for (agent, suite), trends_of in sorted(by_key.items()):
        drops = [(it, it.drop) for it in trends_of if it.drop]
        first = min(it.series.nights[drop.since].started for it, drop in drops)
        lines = [f"The mean {measure} of `{agent}` fell on suite {escape(suite)}, and a second night confirms it.", ""]
        lines += [
            "| model | profile | before | now | since | nights since | p of the step |",
            "|---|---|--:|--:|---|--:|--:|",
            *(_row(it, drop) for it, drop in drops),
        ]
        for it, _ in drops:
            who = it.series.entrant
            lines += ["", f"What moved, with {escape(who.model or 'no model')}, {who.profile}:", ""]
            lines += [f"- {escape(line, 2000)}" for line in explanation(it)]
        lines += ["", f"This closes itself when the level is back within {100 * margin:g} points of where it was."]
        lines += ["Close it by hand to accept the new level."]
        title = f"{agent}: {measure} fell on {suite or 'its suite'}"
        back = {series_name(it.series): drop.before - margin for it, drop in drops}
        made.append(Notice(agent, suite, first, title, "\n".join(lines), back))
    return made


def _row(it: Trend, drop: Drop) -> str:
    from bench.base.text import escape

    night, who = it.series.nights[drop.since], it.series.entrant
    cells = (
        who.model or "none",
        who.profile,
        f"{drop.before:.3f}",
        f"{drop.now:.3f}",
        f"{night.run} ({night.started})",
        str(len(it.series.nights) - drop.since),
        f"{drop.p:.4f}",
    )
    return f"| {' | '.join(map(escape, cells))} |"


def series_name(series: Series) -> str:
    """Of a series, within its agent and suite."""
    return f"{series.entrant.model} {series.entrant.profile}"
