"""What a step consists of: the cases and categories that moved, and whether the control moved with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from typing import Literal

import numpy as np

from bench.stats.intervals import SEED, Floats
from bench.stats.night_sums import LEAST_BEFORE, NightSums
from bench.stats.steps import MOST_AFTER, MOST_BEFORE, watch
from bench.stats.tests import holm
from bench.stats.trends import LEAST_COVERAGE, Drop, Level, Series, adjusted, find_levels, standing_drop

LEVEL = 0.05
LEAST_CASES = 5
"""Of a category that is watched by itself: the means of fewer are too far from Student's distribution."""
_DRAWS = 9_999
_SAME_NIGHT = timedelta(hours=12)

Attribution = Literal["shared", "own", "unclear", "no data"]


@dataclass(frozen=True)
class Moved:
    """A case or a category on both sides of a step."""

    name: str
    before: float
    """Mean over its nights, up to 60 before the step."""
    now: float
    p: float
    """Two-sided, adjusted for having looked at all cases, or all categories (Holm)."""


@dataclass(frozen=True)
class Shared:
    """What the control did at an agent's step."""

    agent: str
    model: str
    """Empty, with `no data`, where it has no series on the suite."""
    attribution: Attribution
    """shared: it fell too, so model, provider or machine are the likely cause; own: it did not, so the agent is."""
    change: float | None = None
    """Of the control, negative where it fell."""
    error: float | None = None
    """Standard error of `change`."""
    p_still: float | None = None
    """One-sided: the control did not fall."""
    p_alike: float | None = None
    """One-sided: the control fell as far as the agent."""
    missing: tuple[str, ...] = ()
    """The agent's runs since the step, at most ten, in which the control has no point."""


def series_levels(series: Series, margin: float) -> list[Level]:
    """The levels of a series, as its last night knows them."""
    return _levels(series, series.table, series.cells, series.values, margin, 1.0)


def _levels(series: Series, table: Floats, cells: Floats, values: Floats, margin: float, share: float) -> list[Level]:
    history = 0 if series.from_start else min(MOST_BEFORE, len(values) // 2)
    steps = [*watch(table, values, cells, margin, share, history)]
    return find_levels(values, steps[-1] if steps else ())


def category_drops(series: Series, margin: float) -> dict[str, Drop]:
    """The categories that fell by themselves and still stand; nights are those of `series`.

    Each is looked at as a series is, with an equal share of its false alarms (Bonferroni).
    """
    names = sorted({name for name in series.categories if series.categories.count(name) >= LEAST_CASES})
    found = {}
    for name in names:
        columns = [category == name for category in series.categories]
        table, trials = series.table[:, columns], series.trials[:, columns]
        full = np.isfinite(table).mean(axis=1) >= LEAST_COVERAGE if len(table) else np.zeros(0, bool)
        kept = np.flatnonzero(full)
        table, cells = table[full], trials[full].sum(axis=1)
        drop = standing_drop(_levels(series, table, cells, adjusted(table), margin, 1 / len(names)), margin)
        if drop is not None:
            found[name] = replace(drop, since=int(kept[drop.since]))
    return found


def moved_cases(series: Series, since: int, first: int = 0) -> list[Moved]:
    """The cases at the step before night `since`, the one that fell most first; `first` began the level before."""
    return _moved(series.cases, series.table, since, first)


def moved_categories(series: Series, since: int, first: int = 0) -> list[Moved]:
    """The same of the categories."""
    names = sorted(set(series.categories))
    columns = np.array([[category == name for name in names] for category in series.categories], dtype=np.float64)
    here = np.isfinite(series.table)
    usual = np.nanmean(series.table, axis=0)
    away = np.where(here, series.table - usual, 0.0) @ columns
    counts = here @ columns
    # Adjusted for missing cases as the series is (`adjusted`).
    means = np.divide(away, counts, out=np.full_like(away, np.nan), where=counts > 0)
    return _moved(names, means + usual @ columns / columns.sum(axis=0), since, first)


def _moved(names: Sequence[str], table: Floats, since: int, first: int) -> list[Moved]:
    """A permutation test of the nights (Fisher 1935; Phipson and Smyth, SAGMB 9, 2010) in each column of `table`.

    All columns share the permutations. It takes nights for exchangeable: what moved together with all other cases
    moved for all of them, and the series' own test is the one that knows the spread of nights.
    """
    rows = table[max(first, since - MOST_BEFORE) :]
    after = _arrangements(len(rows), len(table) - since)
    actual = np.zeros((1, len(rows)))
    actual[0, len(rows) - (len(table) - since) :] = 1
    here = np.isfinite(rows).astype(np.float64)
    filled = np.where(here > 0, rows, 0.0)
    known = (actual @ here > 0)[0] & ((1 - actual) @ here > 0)[0]

    def change(masks: Floats) -> Floats:
        later = (masks @ filled) / np.maximum(masks @ here, 1)
        earlier = ((1 - masks) @ filled) / np.maximum((1 - masks) @ here, 1)
        found: Floats = later - earlier
        return found

    seen = change(actual)[0]
    others = np.abs(change(after)) >= np.abs(seen) - 1e-9
    exact = math.comb(len(rows), int(actual.sum())) == len(after)
    p = others.mean(axis=0) if exact else (1 + others.sum(axis=0)) / (1 + len(after))
    chosen = [int(column) for column in np.flatnonzero(known)]
    adjusted_p = holm([float(p[column]) for column in chosen])
    found = []
    for column, chance in zip(chosen, adjusted_p, strict=True):
        now = float(filled[actual[0] > 0, column].sum() / here[actual[0] > 0, column].sum())
        found.append(Moved(names[column], now - float(seen[column]), now, chance))
    return sorted(found, key=lambda it: (it.now - it.before, it.name))


def _arrangements(n: int, k: int) -> Floats:
    """(arrangements, n) of 0 and 1, each with `k` ones: all of them, or a fixed draw where they are many."""
    if math.comb(n, k) <= _DRAWS:
        chosen = np.array(list(combinations(range(n), k)))
        masks = np.zeros((len(chosen), n))
        np.put_along_axis(masks, chosen, 1.0, axis=1)
        return masks
    one = np.zeros(n)
    one[:k] = 1
    return np.random.default_rng([SEED, n, k]).permuted(np.tile(one, (_DRAWS, 1)), axis=1)


def control_of(series: Series, all_series: Sequence[Series], control: str) -> Series | None:
    """The control's series beside `series`: on the same suite and profile, with the same model where there is one."""
    who = series.entrant
    beside = [
        it
        for it in all_series
        if it.entrant.agent == control and it.suite == series.suite and it.entrant.profile == who.profile
    ]
    return next((it for it in beside if it.entrant.model == who.model), beside[0] if beside else None)


def attribute(series: Series, drop_at: int, first: int, control: Series | None, name: str) -> Shared:
    """Did the control, the agent `name`, fall with `series` at the night `drop_at`, its level before from `first` on?

    Both are measured on the nights that they share, up to 60 before and 10 after the step, with the variances of
    `NightSums.variance_of_change`. Two one-sided tests at 5% decide: that the control did not fall, and that it fell
    as far as the agent (a difference in differences; Angrist and Pischke, Mostly Harmless Econometrics, 2009, section
    5.2, with the variances added). If both are rejected, the nearer counts; if neither is, it is unclear. Without the
    first night of the step or enough nights before, there is no data for an answer.
    """
    if control is None:
        return Shared(name, "", "no data")
    window = range(max(first, drop_at - MOST_BEFORE), min(len(series.nights), drop_at + MOST_AFTER))
    partner = _partners(series, control)
    missing = tuple(series.nights[at].run for at in window if at >= drop_at and at not in partner)
    own = [at for at in window if at in partner]
    split = sum(at < drop_at for at in own)
    model = control.entrant.model
    if drop_at not in partner or split < LEAST_BEFORE:
        return Shared(name, model, "no data", missing=missing)
    change, error, freedom = _change(control, [partner[at] for at in own], split)
    agent_change, agent_error, agent_freedom = _change(series, own, split)
    from scipy.special import stdtr

    p_still = float(stdtr(freedom, change / error))
    both = math.hypot(error, agent_error)
    p_alike = float(stdtr(min(freedom, agent_freedom), (agent_change - change) / both))
    moved, unlike = p_still <= LEVEL, p_alike <= LEVEL
    attribution: Attribution
    if moved == unlike:
        nearer: Attribution = "shared" if change <= agent_change / 2 else "own"
        attribution = nearer if moved else "unclear"
    else:
        attribution = "shared" if moved else "own"
    return Shared(name, model, attribution, change, error, p_still, p_alike, missing)


def _change(series: Series, rows: Sequence[int], split: int) -> tuple[float, float, float]:
    """Of the mean of a series from its nights `rows[:split]` to `rows[split:]`; standard error, degrees of freedom."""
    chosen = np.array(rows)
    values = series.values[chosen]
    sums = NightSums(series.table[chosen], values, series.cells[chosen])
    variance, freedom = sums.variance_of_change(np.array([0]), np.array([split]), np.array([len(rows) - split]))
    return float(values[split:].mean() - values[:split].mean()), math.sqrt(variance[0]), float(freedom[0])


def _partners(series: Series, control: Series) -> dict[int, int]:
    """For each night of `series` the control's: that of the same run, else the nearest within half a day."""
    by_run = {night.run: at for at, night in enumerate(control.nights)}
    times = [datetime.fromisoformat(night.started) for night in control.nights]
    found = {}
    for at, night in enumerate(series.nights):
        if night.run in by_run:
            found[at] = by_run[night.run]
        elif times:
            moment = datetime.fromisoformat(night.started)
            nearest = min(range(len(times)), key=lambda other: abs(times[other] - moment))
            if abs(times[nearest] - moment) <= _SAME_NIGHT:
                found[at] = nearest
    return found
