"""Where a series of nights changes its level, and which of that is worth waking somebody for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.stats.draws import SEED, Floats

LEAST_NIGHTS = 2
"""On each side of a step. One bad night is none: a second one must confirm it."""
ALPHA = 0.005
"""The level of each look. A series is looked at every night, so it is stricter than that of one comparison."""
MARGIN = 0.05
_DRAWS = 4_999


@dataclass(frozen=True)
class Step:
    """A change of level: the nights before `at`, as far back as the last step, against those from `at` on."""

    at: int
    """Index of the first night on the new level."""
    p: float


@dataclass(frozen=True)
class Level:
    """Nights without a step between them: those from `first` up to but not including `end`."""

    first: int
    end: int
    mean: float
    p: float
    """Of the step that began it; 1 for the first level."""


@dataclass(frozen=True)
class Drop:
    """A confirmed step down that has not been made good since."""

    since: int
    """Index of the first night after the step."""
    before: float
    now: float
    p: float


def steps(values: Floats, alpha: float = ALPHA) -> list[Step]:
    """The steps of a series, shape (nights,).

    Binary segmentation (Scott and Knott, Biometrics 30, 1974; Vostrikova, 1981): the split with the largest CUSUM
    statistic sqrt(k (n - k) / n) |mean before - mean after| (Page, Biometrika 42, 1955) is a step when fewer than
    alpha of the series' permutations have as large a one (Antoch and Huskova, Statistics and Probability Letters 53,
    2001), and both sides are then searched alike. It is what E-divisive does (Matteson and James, JASA 109, 2014, in
    continuous integration: Daly et al., ICPE 2020), for changes of the mean alone. Taking the largest over all splits
    is part of what is permuted, so having looked at every night costs nothing in validity. Nights are taken to be
    independent.
    """
    found = _segment(values, 0, len(values), alpha)
    return sorted(found, key=lambda step: step.at)


def levels(values: Floats, found: Sequence[Step]) -> list[Level]:
    """The stretches between the steps."""
    starts = [0, *(step.at for step in found)]
    ends = [*starts[1:], len(values)]
    chances = [1.0, *(step.p for step in found)]
    return [
        Level(first, end, float(values[first:end].mean()), p)
        for first, end, p in zip(starts, ends, chances, strict=True)
        if end > first
    ]


def standing_drop(stretches: Sequence[Level], margin: float = MARGIN) -> Drop | None:
    """The drop by `margin` or more that still stands at the end of the series.

    A drop lasts until the level is back within `margin` of where it was before. Smaller changes of level move the
    reference along.
    """
    drop: Drop | None = None
    usual = stretches[0].mean if stretches else 0.0
    for level in stretches[1:]:
        if drop is None and level.mean <= usual - margin:
            drop = Drop(level.first, usual, level.mean, level.p)
        elif drop is None or level.mean > drop.before - margin:
            drop, usual = None, level.mean
        else:
            drop = Drop(drop.since, drop.before, level.mean, drop.p)
    return drop


def _segment(values: Floats, first: int, end: int, alpha: float) -> list[Step]:
    part = values[first:end]
    if len(part) < 2 * LEAST_NIGHTS or np.ptp(part) == 0:
        return []
    split, statistic = _best_split(part[None, :])
    rng = np.random.default_rng([SEED, first, end])
    others = _best_split(rng.permuted(np.tile(part, (_DRAWS, 1)), axis=1))[1]
    p = (1 + int((others >= statistic[0] - 1e-12).sum())) / (1 + _DRAWS)
    if p >= alpha:
        return []
    at = first + int(split[0])
    return [*_segment(values, first, at, alpha), Step(at, p), *_segment(values, at, end, alpha)]


def _best_split(rows: Floats) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], Floats]:
    """For each row of (rows, nights): where the CUSUM is largest, and how large."""
    n = rows.shape[1]
    k = np.arange(LEAST_NIGHTS, n - LEAST_NIGHTS + 1)
    sums = np.cumsum(rows, axis=1)
    before = sums[:, k - 1]
    total = sums[:, -1:]
    size = np.abs(before / k - (total - before) / (n - k)) * np.sqrt(k * (n - k) / n)
    best = size.argmax(axis=1)
    return k[best], size[np.arange(len(rows)), best]
