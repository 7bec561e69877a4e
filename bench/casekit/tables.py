"""Tables with columns of all kinds, gaps, and a target that depends on them: amounts or classes; and their CSV.

A `World` holds what is true: the weight of each column, of each category, and of products of columns. Rows of one world
for the agent and of another for the judge tell a program that learns from one that knows the answer by heart.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]
"""Numbers as float64 with NaN for a gap, categories as objects: texts, or None for a gap."""


@dataclass(frozen=True)
class World:
    """What decides the target of a row. All weights are in standard deviations of the score."""

    slopes: dict[str, float]
    """Of each numeric column."""
    bends: dict[str, float]
    """Of the square of a numeric column, less its mean."""
    effects: dict[str, dict[str, float]]
    """Of each category, by column."""
    products: dict[tuple[str, str], float]
    """Of two numeric columns' product."""

    @staticmethod
    def draw(
        rng: np.random.Generator, numeric: Sequence[str], categories: Mapping[str, Sequence[str]], idle: float = 0.3
    ) -> World:
        """Random weights for these columns; a share `idle` of the numeric ones matters for nothing."""
        useful = [name for name in numeric if rng.random() >= idle] or list(numeric[:1])
        slopes = {name: float(rng.normal(0, 0.6)) if name in useful else 0.0 for name in numeric}
        bends = {name: float(rng.normal(0, 0.25)) for name in useful[::2]}
        effects = {
            column: {level: float(rng.normal(0, 0.7)) for level in levels} for column, levels in categories.items()
        }
        pairs = itertools.pairwise(useful)
        return World(slopes, bends, effects, {pair: float(rng.normal(0, 0.5)) for pair in list(pairs)[::2]})

    def rows(self, rng: np.random.Generator, count: int, missing: float = 0.04) -> tuple[Columns, Float]:
        """Columns of `count` rows, and the score that they decide, before any noise.

        Numeric columns are standard normal, with a common factor that correlates them (0.3). missing: share of gaps in
        every column, independent of all else: the score comes from what was there before.
        """
        common = rng.normal(size=count)
        numbers = {name: np.sqrt(0.3) * common + np.sqrt(0.7) * rng.normal(size=count) for name in self.slopes}
        texts = {name: rng.choice(np.array(list(levels), object), count) for name, levels in self.effects.items()}
        score = sum((weight * numbers[name] for name, weight in self.slopes.items()), np.zeros(count))
        score = score + sum(weight * (numbers[name] ** 2 - 1) for name, weight in self.bends.items())
        score = score + sum(weight * numbers[a] * numbers[b] for (a, b), weight in self.products.items())
        for column, weights in self.effects.items():
            score = score + np.array([weights[level] for level in texts[column]])
        columns: Columns = {**numbers, **texts}
        for name, values in columns.items():
            values[rng.random(count) < missing] = np.nan if name in numbers else None
        return columns, score


def amounts(rng: np.random.Generator, score: Float, typical: float, spread: float = 0.35, noise: float = 0.1) -> Float:
    """Positive amounts, such as prices, around `typical` and in its unit: typical * exp(spread * score + noise).

    noise: standard deviation of the logarithm that nothing in the table can tell.
    """
    values: Float = typical * np.exp(spread * score + rng.normal(0, noise, len(score)))
    return values


def yes_or_no(rng: np.random.Generator, score: Float, sharpness: float = 2.0) -> NDArray[np.bool_]:
    """True with the probability 1 / (1 + exp(-sharpness * (score - its median))): for about half of them."""
    drawn: NDArray[np.bool_] = rng.random(len(score)) < 1 / (1 + np.exp(-sharpness * (score - np.median(score))))
    return drawn


def scaled(values: Float, low: float, high: float, whole: bool = True) -> Float:
    """A standard normal column in other units: its quantiles in [low, high], gaps kept. The order stays."""
    ends = np.clip((values + 3) / 6, 0, 1) * (high - low) + low
    return np.round(ends) if whole else np.asarray(ends)


def to_csv(columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> str:
    """Columns of one length as comma-separated text with a header; gaps (NaN or None) are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    lists = [values.tolist() if isinstance(values, np.ndarray) else list(values) for values in columns.values()]
    writer.writerows(zip(*([_cell(value) for value in column] for column in lists), strict=True))
    return text.getvalue()


def _cell(value: Any) -> Any:
    return "" if value is None or value != value else value
