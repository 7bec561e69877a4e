"""The charts of the board: cost against result, trends, categories."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bench.pages.costs import Point, frontier
from bench.pages.drawing import Chart, Draw, Figures, to_svg
from bench.pages.news import Trend
from bench.pages.vega import PERCENT, Spec, amount, ink, layer, layered, number, share, when, word
from bench.pages.words import moment, percent, spread, usd, visible
from bench.stats import Estimate

_SIZES = {"wide": (880, 340), "narrow": (290, 260)}
_SMALL = (330, 170)
_LOG_FROM = 12.0
"""The ratio of the largest to the smallest cost from which the axis is logarithmic."""
_NOTHING = 1e-7
"""A cost below this is drawn as zero."""
_GLYPH, _LINE = 6.6, 14.0
"""Size of a character of a label."""
_MOST_LABELS = 24


@dataclass(frozen=True)
class Axis:
    """What lies on the x axis of a scatter, read from `Point.cost`."""

    title: str
    label: str
    """A Vega expression of `datum.value`."""
    shown: Callable[[float | None], str]


DOLLARS = Axis("cost per cell, US dollars", "'$' + format(datum.value, '~g')", usd)


def cost_chart(points: Sequence[Point], measure: str, name: str, profile: str, draw: Draw = to_svg) -> Chart | None:
    """Cost against `score` or `success`; None where no cost is known."""
    if not points:
        return None
    best = frontier(points, measure)
    title = f"{measure.capitalize()} against cost, profile {profile}"
    leaders = ", ".join(f"{_short(it.label)} ({percent(it.value(measure).mean)} at {usd(it.cost)})" for it in best)
    words = (
        f"{len(points)} agents. Of those that met every case, no other reaches more for less than: {leaders}."
        if best
        else f"{len(points)} agents, none of which competes and has met every case, so that there is no frontier."
    )
    drawn = {
        size: draw(scatter(points, best, measure, *box), f"{name}-{size}", title, str(visible(words)))
        for size, box in _SIZES.items()
    }
    rows = [
        (
            it.label,
            f"{usd(it.cost)}{' replayed' if it.replayed else ''}",
            percent(it.value(measure).mean),
            spread(it.value(measure).interval),
            "on the frontier" if it in best else "" if it.complete else "not comparable",
        )
        for it in sorted(points, key=lambda it: it.cost)
    ]
    return Chart(name, title, words, drawn, Figures(("Agent", "Cost per cell", measure.capitalize(), "95%", ""), rows))


def scatter(
    points: Sequence[Point], best: Sequence[Point], measure: str, width: int, height: int, axis: Axis = DOLLARS
) -> Spec:
    """Points with their names, and the line through `best`, what no other point beats for less."""
    low, high, log = _domain([amount(it.cost) for it in points])
    place = _placer(low, high, log, width, height)
    rows = [_dot(it, it in best, measure, axis) for it in points]
    everyone = [*best, *(it for it in points if it not in best)]
    labels = _labels(everyone, measure, place, (width, height), _drawn_lines(points, best, measure, place, width))
    x = number("cost", title=axis.title + (" (logarithmic)" if log else ""))
    x |= {"scale": {"type": "log" if log else "linear", "domain": [low, high], "nice": False}}
    x |= {"axis": {"grid": False, "values": _ticks(low, high, log, width), "labelExpr": axis.label}}
    y = number("value", title=f"{measure}, share of 1", scale={"domain": [0, 1]})
    y |= {"axis": {"format": "%", "values": [0, 0.25, 0.5, 0.75, 1], "labelExpr": PERCENT}}
    kinds = ["best", "other", "incomplete"]
    fill = word("kind", legend=None, scale={"domain": kinds, "range": [ink("accent"), ink("paper"), ink("paper")]})
    stroke = word("kind", legend=None, scale={"domain": kinds, "range": [ink("accent"), ink("soft"), ink("faint")]})
    shape = word("paid", legend=None, scale={"domain": ["paid", "replayed"], "range": ["circle", "diamond"]})
    line = [{"cost": amount(it.cost), "value": share(it.value(measure).mean)} for it in best]
    line += [{"cost": high, "value": line[-1]["value"]}] if line else []
    span = layer(
        rows, "rule", {"x": x, "y": y, "y2": {"field": "high"}, "stroke": stroke},
        strokeWidth=1.5, strokeOpacity=0.55, aria=False,
    )  # fmt: skip
    layers = [
        layer(
            line, "line", {"x": x, "y": y},
            interpolate="step-after", color=ink("accent"), strokeDash=[5, 4], strokeWidth=1.5, aria=False,
        ),
        {**span, "transform": [{"calculate": "datum.low", "as": "value"}]},
        layer(
            rows, "point",
            {"x": x, "y": y, "fill": fill, "stroke": stroke, "shape": shape, "description": word("says")},
            size=95, strokeWidth=2, opacity=1,
        ),
        *(_texts(side, group, x, y) for side, group in labels.items()),
    ]  # fmt: skip
    return layered(layers, width, height)


def _dot(it: Point, best: bool, measure: str, axis: Axis) -> dict[str, Any]:
    value = it.value(measure)
    low, high = (value.interval.low, value.interval.high) if value.interval else (value.mean, value.mean)
    return {
        "cost": amount(max(it.cost, _NOTHING)),
        "value": share(value.mean),
        "low": share(low),
        "high": share(high),
        "kind": "best" if best else "other" if it.complete else "incomplete",
        "paid": "replayed" if it.replayed else "paid",
        "says": f"{visible(_short(it.label))}: {percent(value.mean)} ({spread(value.interval)}) "
        f"at {axis.shown(it.cost)}",
    }


_SIDES: Mapping[str, tuple[str, float, float]] = {
    "over": ("left", 6, -11),
    "under": ("left", 6, 12),
    "right": ("left", 10, 0),
    "left": ("right", -10, 0),
    "above": ("center", 0, -13),
    "below": ("center", 0, 14),
    "over left": ("right", -6, -11),
    "under left": ("right", -6, 12),
}


def _texts(side: str, group: Sequence[dict[str, Any]], x: Spec, y: Spec) -> Spec:
    align, dx, dy = _SIDES[side]
    style = {"align": align, "baseline": "middle", "dx": dx, "dy": dy, "fontSize": 12, "limit": 200, "aria": False}
    return layer(group, "text", {"x": x, "y": y, "text": word("label")}, color=ink("ink"), **style)


def _labels(
    points: Sequence[Point],
    measure: str,
    place: Callable[[float, float], tuple[float, float]],
    size: tuple[int, int],
    lines: Sequence[tuple[float, float, float, float]],
) -> dict[str, list[dict[str, Any]]]:
    """Names beside their points, the first ones first: none lies over another, nor over a point or one of `lines`."""
    centres = [place(it.cost, it.value(measure).mean) for it in points]
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in centres]
    found: dict[str, list[dict[str, Any]]] = {}
    for at, (it, (x, y)) in enumerate(zip(points[:_MOST_LABELS], centres, strict=False)):
        label = _short(str(visible(it.label)))
        long = len(label) * _GLYPH
        for side, (align, dx, dy) in _SIDES.items():
            left = x + dx - {"left": 0, "right": long, "center": long / 2}[align]
            box = (left, y + dy - _LINE / 2, left + long, y + dy + _LINE / 2)
            others = [*lines, *(other for number, other in enumerate(taken) if number != at)]
            if box[0] >= 0 and box[2] <= size[0] and box[1] >= -8 and box[3] <= size[1] and not _meets(box, others):
                found.setdefault(side, []).append(
                    {"cost": amount(max(it.cost, _NOTHING)), "value": share(it.value(measure).mean), "label": label}
                )
                taken.append(box)
                break
    return found


def _drawn_lines(
    points: Sequence[Point],
    best: Sequence[Point],
    measure: str,
    place: Callable[[float, float], tuple[float, float]],
    width: int,
) -> list[tuple[float, float, float, float]]:
    """What names keep clear of: the intervals and the steps of the frontier, as boxes."""
    found = []
    for it in points:
        value = it.value(measure)
        if value.interval:
            (x, top), (_, bottom) = place(it.cost, value.interval.high), place(it.cost, value.interval.low)
            found.append((x - 2, top, x + 2, bottom))
    corners = [place(it.cost, it.value(measure).mean) for it in best]
    for (x, y), (further, above) in pairwise([*corners, (float(width), corners[-1][1])] if corners else []):
        found += [(x, y - 2, further, y + 2), (further - 2, min(y, above), further + 2, max(y, above))]
    return found


def _meets(box: tuple[float, float, float, float], others: Sequence[tuple[float, float, float, float]]) -> bool:
    return any(box[0] < it[2] and it[0] < box[2] and box[1] < it[3] and it[1] < box[3] for it in others)


def _short(label: str) -> str:
    return label if len(label) <= 28 else f"{label[:27]}…"


def _domain(costs: Sequence[float]) -> tuple[float, float, bool]:
    low, high = min(costs), max(costs)
    if low > _NOTHING and high / low >= _LOG_FROM:
        return low / 1.6, high * 2.2, True
    return 0.0, max(high * 1.15, _NOTHING * 10), False


def _placer(
    low: float, high: float, log: bool, width: int, height: int
) -> Callable[[float, float], tuple[float, float]]:
    def place(cost: float, value: float) -> tuple[float, float]:
        along = math.log(max(cost, _NOTHING) / low) / math.log(high / low) if log else cost / high
        return along * width, (1 - value) * height

    return place


def _ticks(low: float, high: float, log: bool, width: int) -> list[float]:
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        bases: tuple[int, ...] = (1, 2, 5) if (math.log10(high / low) < width / 250) else (1,)
        return [tick for power in powers for base in bases if low <= (tick := base * 10.0**power) <= high]
    size = 10.0 ** math.floor(math.log10(high))
    step = next(step for step in (size / 5, size / 2, size, size * 2, size * 5) if high / step <= max(3, width / 90))
    return [number * step for number in range(int(high / step) + 1)]


def trend_chart(
    trend: Trend, name: str, who: str, measure: str = "success", draw: Draw = to_svg
) -> Chart | None:  # fmt: skip
    """None for fewer than two nights."""
    nights = trend.series.nights
    if len(nights) < 2:
        return None
    steps = [nights[level.first].started for level in trend.levels[1:]]
    title = f"{measure.capitalize()} by night: {who}"
    words = f"{len(nights)} nights, {moment(nights[0].started)} to {moment(nights[-1].started)} UTC. " + (
        f"The level changed on {', '.join(it[:10] for it in steps)}." if steps else "No step is confirmed."
    )
    svg = draw(_nights(trend, steps, measure), name, title, words)
    shown = [(it.started[:10], percent(it.value), str(it.cases), str(it.trials)) for it in nights]
    return Chart(name, title, words, {"any": svg}, Figures(("Night", measure.capitalize(), "Cases", "Cells"), shown))


def _nights(trend: Trend, steps: Sequence[str], measure: str) -> Spec:
    nights = trend.series.nights
    axis = {"grid": False, "format": "%d %b", "labelOverlap": True, "tickCount": 4, "labelFlush": True}
    x = when("at", scale={"type": "utc", "nice": False}, title="night (UTC)", axis=axis)
    y = number("value", title=f"{measure}, share", scale={"domain": [0, 1]})
    y |= {"axis": {"values": [0, 0.5, 1], "labelExpr": PERCENT}}
    rows = [
        {"at": it.started, "value": share(it.value), "says": f"{it.started[:10]}: {percent(it.value)}"} for it in nights
    ]
    flat = [
        {"at": nights[level.first].started, "end": nights[level.end - 1].started, "value": share(level.mean)}
        for level in trend.levels
    ]
    control = [{"at": it.started, "value": share(it.value)} for it in (trend.control.nights if trend.control else ())]
    both = {"x": x, "y": y}
    layers = [
        layer(control, "line", both, color=ink("second"), strokeWidth=1.2, aria=False),
        layer(rows, "circle", {**both, "description": word("says")}, color=ink("soft"), size=22, opacity=1),
        layer(flat, "rule", {**both, "x2": {"field": "end"}}, color=ink("accent"), strokeWidth=2.5, aria=False),
        layer(
            [{"at": it} for it in steps], "rule", {"x": x}, color=ink("accent"), strokeDash=[3, 3], aria=False
        ),
    ]  # fmt: skip
    return layered(layers, *_SMALL)


def category_chart(rows: Mapping[str, Estimate], name: str, who: str, draw: Draw = to_svg) -> Chart | None:
    """The success in each category, with its interval over the cases."""
    if len(rows) < 2:
        return None
    title = f"Success by category: {who}"
    worst, best = (pick(rows, key=lambda it: rows[it].mean) for pick in (min, max))
    words = f"Highest in {best} ({percent(rows[best].mean)}), lowest in {worst} ({percent(rows[worst].mean)})."
    svg = draw(_categories(rows), name, title, words)
    shown = [(category, percent(it.mean), spread(it.interval), str(it.n)) for category, it in rows.items()]
    return Chart(name, title, words, {"any": svg}, Figures(("Category", "Success", "95%", "Cases"), shown))


def _categories(rows: Mapping[str, Estimate]) -> Spec:
    dots = [
        {
            "category": category.replace("_", " "),
            "value": share(it.mean),
            "low": share(it.interval.low if it.interval else it.mean),
            "high": share(it.interval.high if it.interval else it.mean),
            "says": f"{category}: {percent(it.mean)} ({spread(it.interval)}), {it.n} cases",
        }
        for category, it in rows.items()
    ]
    x = number("value", title="success, share of trials", scale={"domain": [0, 1]})
    x |= {"axis": {"values": [0, 0.5, 1], "labelExpr": PERCENT}}
    y = word("category", title=None, axis={"domain": False, "ticks": False, "labelLimit": 130})
    span = {"y": y, "x": number("low", scale={"domain": [0, 1]}), "x2": {"field": "high"}}
    layers = [
        layer(dots, "rule", span, color=ink("accent"), strokeWidth=2, strokeOpacity=0.5, aria=False),
        layer(dots, "circle", {"y": y, "x": x, "description": word("says")}, color=ink("accent"), size=70, opacity=1),
    ]
    return layered(layers, 240, max(90, 24 * len(rows)))
