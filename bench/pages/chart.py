"""The scatter of score against cost: all geometry, no markup."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.pages.render import percent, usd

_LOG_FROM = 12.0
"""The ratio of the largest to the smallest cost from which the axis is logarithmic."""
_NOTHING = 1e-7
"""A cost below this is drawn as zero."""
_GLYPH = 6.3
"""Width of a character of a label."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 14.0, 14.0, 44.0


@dataclass(frozen=True)
class Point:
    """What is drawn."""

    label: str
    cost: float
    score: float
    replayed: bool


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Mark:
    point: Point
    x: float
    y: float
    label_x: float
    label_y: float
    anchor: str


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def lies_in(self, other: Box) -> bool:
        across = other.left <= self.left and self.right <= other.right
        return across and other.top <= self.top and self.bottom <= other.bottom


@dataclass(frozen=True)
class Chart:
    """A drawing, ready for a template."""

    name: str
    width: int
    height: int
    area: Box
    """Where points are drawn: without the labels of the axes."""
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    marks: Sequence[Mark]
    frontier: str
    """The step line, as `points` of a polyline."""
    compared: str
    """Whose costs the frontier compares."""
    best: Sequence[Point]
    """The points on the frontier, the cheapest first."""
    description: str
    """The same in words."""


def scatter(points: Sequence[Point], name: str, width: int, height: int) -> Chart | None:
    """The chart, or None when there is nothing to draw."""
    if not points:
        return None
    area = Box(_LEFT, _TOP, width - _RIGHT, height - _BOTTOM)
    scale, ticks = _cost_axis([point.cost for point in points], most=max(3, width // 90))

    def x_of(cost: float) -> float:
        return round(area.left + scale(cost) * (area.right - area.left), 1)

    def y_of(score: float) -> float:
        return round(area.bottom - score * (area.bottom - area.top), 1)

    best = frontier(points)
    line = _steps([(x_of(point.cost), y_of(point.score)) for point in best], area.right)
    kinds = {point.replayed for point in points}
    return Chart(
        name=name,
        width=width,
        height=height,
        area=area,
        x_ticks=[Tick(x_of(cost), f"${cost:g}") for cost in ticks],
        y_ticks=[Tick(y_of(value / 4), percent(value / 4)) for value in range(5)],
        marks=_place_labels(points, x_of, y_of, Box(area.left, 0, width, area.bottom), line),
        frontier=" ".join(f"{x:g},{y:g}" for x, y in line),
        compared="paid costs alone" if len(kinds) > 1 else "replayed costs" if True in kinds else "paid costs",
        best=best,
        description=_describe(points, best),
    )


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats at the same or a lower cost. Replayed costs count only where none is paid."""
    paid = [point for point in points if not point.replayed]
    best: list[Point] = []
    for point in sorted(paid or points, key=lambda point: (point.cost, -point.score, point.label)):
        if not best or point.score > best[-1].score:
            best.append(point)
    return best


def _cost_axis(costs: Sequence[float], most: int) -> tuple[Callable[[float], float], list[float]]:
    """From cost to [0, 1], and where the ticks are."""
    low, high = min(costs), max(costs)
    if low > _NOTHING and high / low >= _LOG_FROM:
        # More room on the right, where labels stand beside their points.
        start, end = math.log10(low / 1.5), math.log10(high * 1.8)
        steps = [base * 10.0**power for power in range(math.floor(start), math.ceil(end) + 1) for base in (1, 2, 5)]
        inside = [step for step in steps if start <= math.log10(step) <= end]
        ticks = inside if len(inside) <= most else [step for step in inside if f"{step:e}".startswith("1")]
        return lambda cost: (math.log10(cost) - start) / (end - start), ticks
    end = high * 1.2 if high > _NOTHING else 1.0
    rough = end / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    return lambda cost: cost / end, [round(step * n, 10) for n in range(int(end / step) + 1)]


def _place_labels(
    points: Sequence[Point],
    x_of: Callable[[float], float],
    y_of: Callable[[float], float],
    area: Box,
    line: Sequence[tuple[float, float]],
) -> list[Mark]:
    """Each label at the first side of its point where it meets nothing placed before."""
    # No label may cover a point or the line.
    taken = [Box(x_of(p.cost) - 6, y_of(p.score) - 6, x_of(p.cost) + 6, y_of(p.score) + 6) for p in points]
    taken += [
        Box(min(x, next_x) - 1, min(y, next_y) - 1, max(x, next_x) + 1, max(y, next_y) + 1)
        for (x, y), (next_x, next_y) in pairwise(line)
    ]
    marks = []
    for point in points:
        x, y = x_of(point.cost), y_of(point.score)
        half = len(point.label) * _GLYPH / 2
        sides = [
            ("start", x + 9, y + 4, half),
            ("end", x - 9, y + 4, -half),
            ("middle", x, y - 10, 0.0),
            ("middle", x, y + 19, 0.0),
            ("start", x + 7, y - 9, half),
            ("start", x + 7, y + 17, half),
            ("end", x - 7, y - 9, -half),
            ("end", x - 7, y + 17, -half),
        ]
        boxes = [Box(at + shift - half, base - 10, at + shift + half, base + 3) for _, at, base, shift in sides]
        fits = [n for n, box in enumerate(boxes) if box.lies_in(area)]
        free = [n for n in fits if not any(boxes[n].meets(other) for other in taken)]
        side = (free or fits or [0])[0]
        taken.append(boxes[side])
        anchor, label_x, label_y, _ = sides[side]
        marks.append(Mark(point, x, y, round(label_x, 1), round(label_y, 1), anchor))
    return marks


def _steps(best: Sequence[tuple[float, float]], right: float) -> list[tuple[float, float]]:
    """The corners of the line below which everything is beaten."""
    corners: list[tuple[float, float]] = []
    for x, y in best:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return [*corners, (right, corners[-1][1])]


def _describe(points: Sequence[Point], best: Sequence[Point]) -> str:
    each = "; ".join(
        f"{point.label}: score {percent(point.score)} at {usd(point.cost)}{' replayed' if point.replayed else ''}"
        for point in points
    )
    return f"{each}. No agent scores higher at a lower cost than: {', '.join(point.label for point in best)}."
