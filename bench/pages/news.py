"""What changed: the series of each agent, its newest night, and the cases that moved."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bench.stats import Entrant, Level, Moved, Results, Series, moved_cases, nightly, series_levels

MARGIN = 0.05
"""The smallest change of a level, as `trends` has it."""
CONTROL = "control"
"""The agent whose series is drawn beside the others, where it runs: it is pinned, so that only the model moves it."""
_LAST = 7
_MOST_CASES = 8
_SAME_NIGHT = timedelta(hours=36)


@dataclass(frozen=True)
class Trend:
    """A nightly series with the levels between its confirmed steps."""

    series: Series
    levels: Sequence[Level]
    control: Series | None = None


@dataclass(frozen=True)
class CaseMove:
    """A case in the newest night, beside the nights before it."""

    case: str
    before: float
    now: float


@dataclass(frozen=True)
class News:
    """The newest night of one agent."""

    who: Entrant
    night: str
    """Its start."""
    run: str
    now: float
    before: float | None
    """Mean of up to seven nights before; None for a first night."""
    nights: int
    """How many of them."""
    graded: int
    cases: int
    """Those that the series knows."""
    moved: Sequence[CaseMove]
    """Up or down by half of the trials or more, the largest first."""
    step: Level | None
    """The last confirmed change of level."""
    step_night: str
    step_cases: Sequence[Moved]

    @property
    def change(self) -> float | None:
        return None if self.before is None else self.now - self.before


def trends_of(results: Results, cases: Collection[str]) -> dict[Entrant, Trend]:
    """Of each agent its newest series, over the cases of the suite alone."""
    newest: dict[Entrant, Series] = {}
    for series in nightly(results.nights("success").of_cases(cases)):
        held = newest.get(series.entrant)
        if series.nights and (held is None or series.nights[-1].started > held.nights[-1].started):
            newest[series.entrant] = series
    return {
        who: Trend(series, series_levels(series, MARGIN), _control(series, newest)) for who, series in newest.items()
    }


def _control(series: Series, every: Mapping[Entrant, Series]) -> Series | None:
    who = series.entrant
    same = Entrant(who.profile, CONTROL, who.model)
    return None if who.agent == CONTROL else every.get(same)


def news_of(trend: Trend) -> News:
    series = trend.series
    last = series.nights[-1]
    earlier = [night.value for night in series.nights[-1 - _LAST : -1]]
    step = trend.levels[-1] if len(trend.levels) > 1 else None
    return News(
        who=series.entrant,
        night=last.started,
        run=last.run,
        now=last.value,
        before=math.fsum(earlier) / len(earlier) if earlier else None,
        nights=len(earlier),
        graded=last.cases,
        cases=len(series.cases),
        moved=_moved(series)[:_MOST_CASES],
        step=step,
        step_night=series.nights[step.first].started if step else "",
        step_cases=_step_cases(trend, step) if step else (),
    )


def tonight(trends: Mapping[Entrant, Trend]) -> list[News]:
    """Who ran in the newest night, those that moved most first."""
    found = [news_of(trend) for trend in trends.values()]
    if not found:
        return []
    newest = max(_moment(it.night) for it in found)
    here = [it for it in found if newest - _moment(it.night) <= _SAME_NIGHT]
    return sorted(here, key=lambda it: (-abs(it.change or 0.0), it.who))


def _moved(series: Series) -> list[CaseMove]:
    found = []
    for column, case in enumerate(series.cases):
        values = [float(it) for it in series.table[-1 - _LAST :, column]]
        now, known = values[-1], [it for it in values[:-1] if not math.isnan(it)]
        if known and not math.isnan(now) and abs(now - (before := math.fsum(known) / len(known))) >= 0.5:
            found.append(CaseMove(case, before, now))
    return sorted(found, key=lambda it: (-abs(it.now - it.before), it.case))


def _step_cases(trend: Trend, step: Level) -> list[Moved]:
    before = trend.levels[-2].first
    return [it for it in moved_cases(trend.series, step.first, before) if it.p <= 0.1][:_MOST_CASES]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
