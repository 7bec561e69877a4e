"""What went on over time: how hard each case was, what the nights cost, and what people decided about results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bench.formats.record import Profile
from bench.pages.drawing import Chart, Draw, Figures, to_svg
from bench.pages.vega import PERCENT, Spec, amount, ink, layer, layered, number, share, when, word
from bench.pages.words import percent, usd
from bench.stats import MICRO, CasePeriod, Spent
from bench.store import Decision

_SIZES = {"wide": (880, 170), "narrow": (290, 170)}
_AROUND = 3
"""Points on either side that the line is the mean of."""
MOST_ROWS = 120
"""Of a table of periods; the chart has all of them."""


@dataclass(frozen=True)
class Spending:
    """What one day or week cost, in dollars."""

    since: str
    cells: int
    paid: float
    replayed: float
    unknown: int


@dataclass(frozen=True)
class Verdict:
    """A decision about results, for its page."""

    decision: Decision
    held: bool
    """False: a later one about the same results holds."""

    @property
    def about(self) -> str:
        """What it concerns, in words."""
        it = self.decision
        parts = [f"run {it.run}"]
        parts += [f"attempt {it.attempt}"] if it.attempt is not None else []
        found = (("agent", it.agent), ("case", it.case), ("cell", it.cell))
        return ", ".join([*parts, *(f"{name} {value}" for name, value in found if value)])


def verdicts_of(decisions: Sequence[Decision]) -> list[Verdict]:
    """The newest first."""
    found: list[Verdict] = []
    later: set[tuple[object, ...]] = set()
    for it in reversed(decisions):
        same = it.run, it.attempt, it.agent, it.case, it.cell
        found.append(Verdict(it, same not in later))
        later.add(same)
    return found


def spending_of(rows: Sequence[Spent], profile: Profile) -> list[Spending]:
    """The oldest first."""
    return [
        Spending(it.since, it.cells, it.paid / MICRO, it.replayed / MICRO, it.unknown)
        for it in rows
        if it.profile == profile
    ]


def by_case(periods: Sequence[CasePeriod]) -> dict[tuple[Profile, str], list[CasePeriod]]:
    found: dict[tuple[Profile, str], list[CasePeriod]] = {}
    for it in periods:
        found.setdefault((it.profile, it.case), []).append(it)
    return found


def difficulty_chart(periods: Sequence[CasePeriod], name: str, profile: Profile, draw: Draw = to_svg) -> Chart | None:
    """Success of all ranked agents on a case; None for fewer than two periods."""
    if len(periods) < 2:
        return None
    title = f"Success of all agents over time, profile {profile}"
    words = (
        f"{len(periods)} days or weeks, {periods[0].since} to {periods[-1].since}: first {percent(periods[0].success)},"
        f" last {percent(periods[-1].success)}. A rise says that agents got better, or that better ones came."
    )
    rows = [
        {"at": it.since, "value": share(it.success), "says": f"{it.since}: {percent(it.success)} of {it.agents} agents"}
        for it in periods
    ]
    y = number("value", title="success, share", scale={"domain": [0, 1]})
    y |= {"axis": {"values": [0, 0.5, 1], "labelExpr": PERCENT}}
    drawings = {size: draw(_over_time(rows, y, box), f"{name}-{size}", title, words) for size, box in _SIZES.items()}
    shown = [(it.since, percent(it.success), str(it.agents), str(it.cells)) for it in reversed(periods)][:MOST_ROWS]
    return Chart(name, title, words, drawings, Figures(("Since", "Success", "Agents", "Cells"), shown))


def spending_chart(rows: Sequence[Spending], name: str, profile: Profile, draw: Draw = to_svg) -> Chart | None:
    """Dollars for a cell by day, further back by week: paid, or replayed where nothing was; None for fewer than two."""
    if len(rows) < 2:
        return None
    paid = any(it.paid for it in rows)
    values = [(it.since, (it.paid if paid else it.replayed) / max(1, it.cells)) for it in rows]
    kind = "paid" if paid else "price of the replayed conversations"
    title = f"Cost per cell over time, profile {profile}"
    words = (
        f"US dollars, {kind}. {values[0][0]} to {values[-1][0]}: first {usd(values[0][1])}, last {usd(values[-1][1])}."
    )
    drawn = [{"at": at, "value": amount(value), "says": f"{at}: {usd(value)}"} for at, value in values]
    top = amount(max(value for _, value in values) * 1.1) or 1
    y = number("value", title="US dollars a cell", scale={"domain": [0, top], "nice": True})
    y |= {"axis": {"tickCount": 3, "format": "~g"}}
    drawings = {size: draw(_over_time(drawn, y, box), f"{name}-{size}", title, words) for size, box in _SIZES.items()}
    shown = [
        (it.since, str(it.cells), usd(it.paid), usd(it.replayed), str(it.unknown)) for it in reversed(rows)
    ][:MOST_ROWS]  # fmt: skip
    columns = ("Since", "Cells", "Paid", "Replayed", "Cost unknown")
    return Chart(name, title, words, drawings, Figures(columns, shown))


def _over_time(rows: Sequence[Mapping[str, Any]], y: Spec, size: tuple[int, int]) -> Spec:
    """Dots, and the mean of the neighbours as a line: single days say little."""
    axis = {"grid": False, "format": "%d %b %y", "labelOverlap": True, "tickCount": 5, "labelFlush": True}
    x = when("at", title="day (UTC); further back weeks", scale={"type": "utc", "nice": False}, axis=axis)
    near = [rows[max(0, at - _AROUND) : at + _AROUND + 1] for at in range(len(rows))]
    level = [
        {"at": it["at"], "value": round(fmean(other["value"] for other in them), 6)}
        for it, them in zip(rows, near, strict=True)
    ]
    layers = [
        layer(
            rows, "circle", {"x": x, "y": y, "description": word("says")}, color=ink("faint"), size=18, opacity=1
        ),
        layer(level, "line", {"x": x, "y": y}, color=ink("accent"), strokeWidth=2, aria=False),
    ]  # fmt: skip
    return layered(layers, *size)
