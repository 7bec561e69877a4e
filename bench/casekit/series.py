"""Time series with trend, seasons and memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """Series of one length and rhythm, and what drives them."""

    values: Float
    """count x length, around 100 units."""
    known: Float
    """count x length: an outer influence, known beforehand, such as a holiday: 0 or 1."""
    period: int


def series(
    rng: np.random.Generator, count: int, length: int, period: int = 12, noise: float = 2.0, memory: float = 0.6
) -> Series:
    """Draw `count` series: level + trend + season of `period` steps + effect of `known` + autoregressive noise.

    noise: standard deviation of each step's surprise, in units of a level of about 100. memory: share of the last
    step's noise that stays (AR(1)), below 1. A forecast that repeats the last season is better than the mean, and a
    regression on the last season, the last step and `known` is better than that. ValueError for a memory outside of
    [0, 1) and for fewer than three periods.
    """
    if not 0 <= memory < 1 or length < 3 * period:
        raise ValueError("memory must be in [0, 1), and the length at least three periods")
    steps = np.arange(length)
    level, trend = rng.normal(100, 15, (count, 1)), rng.normal(0, 8 / length, (count, 1))
    phases, sizes = (
        rng.uniform(0, 2 * np.pi, (count, 2, 1)),
        rng.uniform(0.5, 1, (count, 2, 1)) * np.array([[12.0], [5.0]]),
    )
    waves = sizes * np.sin(2 * np.pi * steps * np.array([[1.0], [2.0]]) / period + phases)
    known = (rng.random((count, length)) < 0.1).astype(float)
    surprises = rng.normal(0, noise, (count, length))
    rest = np.zeros((count, length))
    for step in range(length):
        rest[:, step] = surprises[:, step] + (memory * rest[:, step - 1] if step else 0.0)
    values = level + trend * steps + waves.sum(axis=1) + rng.normal(15, 3, (count, 1)) * known + rest
    return Series(values, known, period)
