"""The plots of MLAgentBench's paper from our records: success, improvement, bars, efficiency and ways to fail.

One group for each benchmark that cases of the board come from, in each profile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.formats.failures import FAILURE_MODES, paper_names
from bench.formats.record import Profile
from bench.pages.board import Board, Row
from bench.pages.charts import Axis as ScatterAxis
from bench.pages.charts import scatter
from bench.pages.columns_chart import Axis, Column, Dot, columns_svg
from bench.pages.costs import Point, frontier, labels_of
from bench.pages.drawing import Chart, Draw, Figures
from bench.pages.views import Details
from bench.pages.words import change, count, duration, percent, spread, visible
from bench.stats import BARS, Entrant, Estimate, Findings, Improvement, Tally, estimate, over_cases, total_of

Cell = str | int | float | None
BENCHMARKS: Mapping[str, str] = {"ml-dev-bench": "ML-Dev-Bench", "mlagentbench": "MLAgentBench", "own": "Own cases"}
_MOST_ROWS = 60
"""In a drawing."""
_SIZES = {"wide": (880, 320), "narrow": (290, 260)}


@dataclass(frozen=True)
class Agent:
    """A competitor on the cases of one group."""

    label: str
    who: Entrant
    cases: Mapping[str, Tally]
    improvements: Mapping[str, Improvement]
    failures: Mapping[str, int]
    """Of the cells that did not succeed, how many name each failure mode."""


@dataclass(frozen=True)
class Group:
    """The cases of one benchmark in one profile."""

    name: str
    title: str
    profile: Profile
    cases: Sequence[str]
    """Those that some agent met, in the order of the board."""
    agents: Sequence[Agent]
    """In the order of the board."""


@dataclass(frozen=True)
class Plot:
    """A chart with the numbers behind it, for programs."""

    name: str
    chart: Chart
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def groups_of(board: Board, details: Details) -> list[Group]:
    """What there are plots of."""
    found = []
    for section in board.sections:
        for benchmark, title in BENCHMARKS.items():
            own = [case.id for case in board.cases.values() if (case.source_benchmark or "own") == benchmark]
            labels = labels_of([row.place for row in section.charted])
            agents = [_agent(row, labels, own, details) for row in section.charted]
            agents = [agent for agent in agents if any(tally.graded for tally in agent.cases.values())]
            cases = [case for case in own if any(case in agent.cases for agent in agents)]
            if agents:
                found.append(Group(f"{section.profile}-{benchmark}", title, section.profile, cases, agents))
    return found


def _agent(row: Row, labels: Mapping[Entrant, str], cases: Sequence[str], details: Details) -> Agent:
    who = row.standing.entrant
    tallies = {case: tally for case in cases if (tally := row.standing.cases.get(case)) is not None}
    notes = [details.findings[who, case] for case in tallies if (who, case) in details.findings]
    improvements = {case: it for case in tallies if (it := details.improvements.get((who, case))) is not None}
    return Agent(labels[who], who, tallies, improvements, _failures(notes))


def _failures(notes: Sequence[Findings]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for it in notes:
        found.update(it.failure_modes)
    return dict(found.most_common())


def plots_of(group: Group, draw: Draw) -> list[Plot]:
    """Each plot that there is something to show in."""
    return [plot for make in _PLOTS for plot in make(group, draw)]


def _success(group: Group, draw: Draw) -> Iterator[Plot]:
    columns = [
        Column(agent.label, [_rate(case, tally) for case, tally in agent.cases.items() if tally.graded])
        for agent in group.agents
    ]
    title = f"Success by case: {group.title}, profile {group.profile}"
    about = "Share of the trials of each case that succeed, with Wilson's 95% interval"
    yield from _in_columns(group, draw, "success", title, about, columns, group.cases, Axis("success, share of trials"))


def _rate(case: str, tally: Tally) -> Dot:
    interval = tally.interval
    low, high = (interval.low, interval.high) if interval else (None, None)
    return Dot(case, tally.success or 0.0, low, high, tally.graded)


def _improvement(group: Group, draw: Draw) -> Iterator[Plot]:
    columns = [
        Column(agent.label, [_estimate(case, it.relative) for case, it in agent.improvements.items() if it.relative])
        for agent in group.agents
    ]
    title = f"Mean improvement: {group.title}, profile {group.profile}"
    about = "Relative change on the baseline over the valid trials, with Student's 95% interval from three trials on"
    axis = Axis("improvement on the baseline", -0.5, 1.0, 0.0)
    yield from _in_columns(group, draw, "improvement", title, about, columns, group.cases, axis)


def _bars(group: Group, draw: Draw) -> Iterator[Plot]:
    columns = []
    for agent in group.agents:
        for total in over_cases(agent.improvements.values()):
            columns.append(Column(agent.label, [_estimate(f"> {bar:.0%}", it) for bar, it in total.over.items()]))
    title = f"Success at several bars: {group.title}, profile {group.profile}"
    about = (
        "Share of the graded trials whose final result is better than the baseline by more than the bar; mean over "
        "the cases with a continuous metric, and 95% interval over them"
    )
    rows = [f"> {bar:.0%}" for bar in BARS]
    yield from _in_columns(group, draw, "bars", title, about, columns, rows, Axis("share of trials"))


def _ways_to_fail(group: Group, draw: Draw) -> Iterator[Plot]:
    columns = []
    for agent in group.agents:
        total = total_of(agent.cases.values())
        failed = total.graded - total.succeeded
        if failed:
            dots = [
                Dot(_mode(name), min(1.0, times / failed), None, None, failed) for name, times in agent.failures.items()
            ]
            columns.append(Column(agent.label, dots))
    named: Counter[str] = Counter()
    for agent in group.agents:
        named.update(agent.failures)
    title = f"Ways to fail: {group.title}, profile {group.profile}"
    about = "Share of the graded trials without success that name each failure mode; a trial may name several"
    rows = [_mode(name) for name, _ in named.most_common()]
    yield from _in_columns(group, draw, "failures", title, about, columns, rows, Axis("share of failed trials"))


def _mode(name: str) -> str:
    return name.replace("_", " ")


def _estimate(row: str, it: Estimate) -> Dot:
    low, high = (it.interval.low, it.interval.high) if it.interval else (None, None)
    return Dot(row, it.mean, low, high, it.n)


def _in_columns(
    group: Group, draw: Draw, kind: str, title: str, about: str, columns: Sequence[Column], rows: Sequence[str],
    axis: Axis,
) -> Iterator[Plot]:  # fmt: skip
    rows = [row for row in rows if any(dot.row == row for column in columns for dot in column.dots)]
    if rows:
        chart = columns_chart(columns, rows, axis, f"{kind}-{group.name}", title, about, draw)
        numbers = [
            (column.label, dot.row, dot.mean, dot.low, dot.high, dot.n) for column in columns for dot in column.dots
        ]
        yield Plot(kind, chart, ("agent", _FIRST[kind], "mean", "low", "high", "n"), numbers)


def columns_chart(
    columns: Sequence[Column], rows: Sequence[str], axis: Axis, name: str, title: str, about: str, draw: Draw
) -> Chart:
    """Small multiples: a column for each agent."""
    words = f"{about}. {len(columns)} agents, {len(rows)} rows; the drawing shows the first of both, the table all."
    said = str(visible(words))
    # What Vega draws must be text that a reader can see: with other text its engine ends the whole process.
    names = {row: str(visible(row)) for row in rows[:_MOST_ROWS]}
    seen = [
        Column(str(visible(it.label)), [replace(dot, row=names[dot.row]) for dot in it.dots if dot.row in names])
        for it in columns
    ]
    svg = columns_svg(seen, list(names.values()), axis, name, title, said, draw)
    shown = change if axis.low < 0 else percent
    table = [_shown(it.label, dot, shown) for it in columns for dot in it.dots]
    return Chart(name, title, words, svg, Figures(("Agent", "Row", "Mean", "95%", "n"), table))


def _shown(label: str, dot: Dot, shown: Callable[[float | None], str]) -> tuple[str, ...]:
    span = "no interval" if dot.low is None else f"{shown(dot.low)} to {shown(dot.high)}"
    return label, _told(dot.row), shown(dot.mean), span, str(dot.n)


def _told(row: str) -> str:
    """A failure mode with what papers call it."""
    key = row.replace(" ", "_")
    names = paper_names(key) if key in FAILURE_MODES else ""
    return f"{row} ({names})" if names else row


_TOKENS = ScatterAxis("tokens per trial, in and out", "format(datum.value, '~s')", count)
_SECONDS = ScatterAxis("the agent's seconds per trial", "format(datum.value, '~g') + ' s'", duration)


def _efficiency(group: Group, draw: Draw) -> Iterator[Plot]:
    for kind, axis in (("tokens", _TOKENS), ("time", _SECONDS)):
        points = [point for agent in group.agents if (point := _point(agent, kind, len(group.cases))) is not None]
        title = f"Success against {kind}: {group.title}, profile {group.profile}"
        if points:
            chart = _efficiency_chart(points, axis, f"{kind}-{group.name}", title, draw)
            rows = [(it.label, it.cost, it.success.mean, *(_ends(it.success)), it.success.n) for it in points]
            yield Plot(
                kind, chart, ("agent", "tokens" if kind == "tokens" else "seconds", "mean", "low", "high", "n"), rows
            )


def _ends(it: Estimate) -> tuple[float | None, float | None]:
    return (it.interval.low, it.interval.high) if it.interval else (None, None)


def _point(agent: Agent, kind: str, cases: int) -> Point | None:
    """`Point.cost` is what the axis shows, here no dollars."""
    graded = [tally for tally in agent.cases.values() if tally.graded]
    effort = total_of(graded).effort
    tokens = None
    if effort.input_tokens is not None and effort.output_tokens is not None:
        tokens = effort.input_tokens + effort.output_tokens
    used = tokens if kind == "tokens" else effort.seconds
    success = estimate([tally.success for tally in graded if tally.success is not None])
    score = estimate([tally.score for tally in graded if tally.score is not None])
    if used is None or success is None or score is None:
        return None
    return Point(agent.label, agent.who, used, score, success, False, len(graded) == cases)


def _efficiency_chart(points: Sequence[Point], axis: ScatterAxis, name: str, title: str, draw: Draw) -> Chart:
    best = frontier(points, "success")
    words = f"{len(points)} agents. Of those that met every case, no other succeeds more often with less: "
    words += ", ".join(f"{it.label} ({percent(it.success.mean)} at {axis.shown(it.cost)})" for it in best) or "none"
    said = str(visible(words))
    drawn = {
        size: draw(scatter(points, best, "success", *box, axis), f"{name}-{size}", title, said)
        for size, box in _SIZES.items()
    }
    rows = [
        (it.label, axis.shown(it.cost), percent(it.success.mean), spread(it.success.interval), str(it.success.n))
        for it in sorted(points, key=lambda it: it.cost)
    ]
    return Chart(name, title, words, drawn, Figures(("Agent", axis.title.capitalize(), "Success", "95%", "n"), rows))


_FIRST: Mapping[str, str] = {"success": "case", "improvement": "case", "bars": "bar", "failures": "failure_mode"}
_PLOTS = (_success, _improvement, _bars, _efficiency, _ways_to_fail)
