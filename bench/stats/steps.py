"""Steps in a nightly series: has the level of the last nights changed, more than trials and nights vary by chance?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.stats.intervals import Floats
from bench.stats.night_sums import LEAST_BEFORE, Ints, NightSums, between_nights

MARGIN = 0.05
LEAST_AFTER, MOST_AFTER = 2, 10
"""Nights on the new level. One bad night is not a step: others must confirm it."""
MOST_BEFORE = 60
LEVEL_WITHOUT_FARTHEST = 0.01
"""The p-value below which the nights of a new level must lie without the farthest of them, from the `LATE` night on."""
LEAST_BACK, LEVEL_OF_RECOVERY = 7, 0.0001
"""Nights after which, and the p-value below which, a level that has no history yet is found to be back."""
LEVEL_OF_A_LOOK = 0.00013
"""The p-value below which a look at a series of many nights finds a step, in each direction."""
LEVEL_OF_AN_EARLY_LOOK = 0.055
"""The same in the first `EARLY` nights of a series, whose few looks may cost more of the year's false alarms."""
EARLY, LATE = 15, 18
"""Nights of the series: from `EARLY` to `LATE` the level of a look falls from the one to the other."""


@dataclass(frozen=True)
class Step:
    """A change of level: the nights before `at`, as far back as the last step, against those from `at` on."""

    at: int
    """Index of the first night on the new level."""
    p: float
    """One-sided, of the look that found it. It knows nothing of the other looks: see `look_level`."""


def look_level(nights: int) -> float:
    """The p-value below which a look after so many nights of a series finds a step.

    A series is looked at every night, so the level is stricter than that of one comparison. It was not derived but
    calibrated: `python -m tests.benchmarks.trend_alarms` measures the false alarms a year. Like an alpha-spending
    function (Lan and DeMets, Biometrika 70, 1983) it allows the few early looks more than each of the later ones.
    """
    return float(LEVEL_OF_AN_EARLY_LOOK * (LEVEL_OF_A_LOOK / LEVEL_OF_AN_EARLY_LOOK) ** _lateness(np.array(nights)))


def level_without_farthest(nights: Ints) -> Floats:
    """The p-value that a step needs without its farthest night, after so many `nights` of a series, shape (n,).

    1 in the first `EARLY`: a drop after ten nights could not be seen within five otherwise.
    """
    found: Floats = LEVEL_WITHOUT_FARTHEST ** _lateness(nights)
    return found


def _lateness(nights: Ints) -> Floats:
    """0 up to `EARLY` nights, 1 from `LATE` on."""
    return np.clip((nights - EARLY) / (LATE - EARLY), 0.0, 1.0)


def look_all(sums: NightSums, start: int, margin: float) -> tuple[Ints, Floats]:
    """After each number of nights, from 0 on: the nights on a new level, and p, which is 1 where there is none.

    The mean of the last k nights, k from 2 to 10, against that of up to 60 before them: a window-limited scheme (Lai,
    JRSS B 57, 1995, section 3) of Student's tests with the variance of `NightSums.variance_of_change`. The difference
    must be `margin` or more, two of the last nights must each be that far away, and all but the farthest half as far
    on average, with a p of their own below `level_without_farthest`. Of the k that fulfil this, the one with the
    smallest p counts.

    Where Student's p is smaller than that of counting events, this one counts (`NightSums.p_of_events`).
    """
    seen = np.arange(len(sums.values) + 1)
    after = np.tile(np.arange(LEAST_AFTER, MOST_AFTER + 1), (len(seen), 1))
    until = seen[:, None] - after
    since = np.maximum(start, until - MOST_BEFORE)
    enough = until - since >= LEAST_BEFORE
    p = np.ones(enough.shape)
    k, end, first = after[enough], until[enough], since[enough]
    if len(k):
        usual = between_nights(sums.sums, first, end) / (end - first)
        change = between_nights(sums.sums, end, end + k) / k - usual
        found = _p_of_change(sums, first, end, k, change)
        far = np.abs(change) >= margin - 1e-9
        others, beyond = _without_farthest(sums.values, end, k, usual, change, margin)
        level = np.broadcast_to(level_without_farthest(seen)[:, None], enough.shape)[enough]
        alone = _p_of_change(sums, first, end, k - 1, others) <= level
        half = others * np.sign(change) >= margin / 2
        p[enough] = np.where(far & beyond & half & alone, found, 1.0)
    best = p.argmin(axis=1)
    return after[seen, best], p[seen, best]


def _p_of_change(sums: NightSums, first: Ints, end: Ints, k: Ints, change: Floats) -> Floats:
    """One-sided, of `change` between the nights from `first` to `end` and the `k` after them."""
    variance, freedom = sums.variance_of_change(first, end, k)
    found = _tail(change, variance, freedom)
    bounded: Floats = np.maximum(found, sums.p_of_events(first, end, k, change, variance))
    return bounded


def _without_farthest(
    values: Floats, end: Ints, k: Ints, usual: Floats, change: Floats, margin: float
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The change of the `k` nights from `end` on without the one farthest from `usual`; are two beyond `margin`?

    One bad night carries the mean of several away with it, and an ordinary one often lies `margin` away beside it.
    """
    lags = np.arange(MOST_AFTER)
    within = lags < k[:, None]
    nights = values[np.where(within, end[:, None] + lags, end[:, None])]
    away = np.where(within, (nights - usual[:, None]) * np.sign(change)[:, None], -np.inf)
    beyond: npt.NDArray[np.bool_] = (away >= margin - 1e-9).sum(axis=1) >= LEAST_AFTER
    return np.sign(change) * (k * np.abs(change) - away.max(axis=1)) / (k - 1), beyond


def watch(
    table: Floats, values: Floats, cells: Floats, margin: float = MARGIN, share: float = 1.0, history: int = 0
) -> Iterator[tuple[Step, ...]]:
    """The steps that are known after each night, in order.

    Each night is looked at with what was known then, so that what is said about a night never depends on later ones,
    but for two things. While a level is young, its first night moves to where the change is clearest. And a level
    whose mean is back within `margin` of the level before never was one: the step is withdrawn. The nights between a
    step and its recovery stay in the history of later looks, which know from them how much nights can vary.

    share: of the false alarms, where several series share them; history: nights at the beginning that are not looked
    at, because older ones were left out. What is known of tonight must not depend on where the nights are cut off: a
    step after the first few of them would be new, though it was not found when it came.
    """
    sums = NightSums(table, values, cells)
    known: dict[int, tuple[Ints, Floats]] = {}
    past: list[Step] = []
    steps: list[Step] = []

    def look(start: int, end: int) -> Step | None:
        if start not in known:
            known[start] = look_all(sums, start, margin)
        after, p = (float(it[end]) for it in known[start])
        at = end - int(after)
        return Step(at, p) if p <= share * look_level(end) and at >= (past[-1].at if past else 0) else None

    for end in range(1, len(values) + 1):
        if steps and end - steps[-1].at >= LEAST_AFTER and abs(_rise(sums, steps, end)) < margin - 1e-9:
            steps.pop()
        found = look(steps[-1].at if steps else 0, end) if end >= history else None
        if found:
            steps.append(found)
        elif steps and (back := _recovery(sums, steps, end, margin)):
            past += [steps.pop(), back]
        elif steps and end - steps[-1].at <= MOST_AFTER:
            start = steps[-2].at if len(steps) > 1 else 0
            steps[-1] = look(start, end) or steps[-1]
        yield tuple(sorted([*past, *steps], key=lambda step: step.at))


def _recovery(sums: NightSums, steps: Sequence[Step], end: int, margin: float) -> Step | None:
    """The step back to the level before the last step, which may come before the new level has a history.

    The last nights must be within `margin` of the level before, and Student's test must tell them from the nights
    between, with the noise of the level before.
    """
    at = steps[-1].at
    start = max(steps[-2].at if len(steps) > 1 else 0, at - MOST_BEFORE)
    k = np.arange(LEAST_BACK, min(MOST_AFTER, end - at - LEAST_AFTER) + 1)
    if not len(k) or at - start < LEAST_BEFORE:
        return None
    low, split = np.full(len(k), at), end - k
    now = between_nights(sums.sums, split, split + k) / k
    change = now - between_nights(sums.sums, low, split) / (split - low)
    usual = (sums.sums[at] - sums.sums[start]) / (at - start)
    p = _tail(change, *sums.variance_of_change(low, split, k, (np.full(len(k), start), low)))
    back = (np.abs(now - usual) < margin) & (np.abs(change) >= margin) & (p <= LEVEL_OF_RECOVERY)
    best = int(np.where(back, p, 2.0).argmin())
    return Step(int(split[best]), float(p[best])) if back[best] else None


def _rise(sums: NightSums, steps: Sequence[Step], end: int) -> float:
    """Of the last level over the one before."""
    at, start = steps[-1].at, steps[-2].at if len(steps) > 1 else 0
    total = sums.sums
    return float((total[end] - total[at]) / (end - at) - (total[at] - total[start]) / (at - start))


def _tail(change: Floats, variance: Floats, freedom: Floats) -> Floats:
    """Student's, one-sided."""
    from scipy.special import stdtr

    found: Floats = stdtr(freedom, -np.abs(change) / np.sqrt(variance))
    return found
