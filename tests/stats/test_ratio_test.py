"""Ratios of cost do not cry wolf where one side has more trials, whatever law the costs have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.stats.pairing import make_sample
from bench.stats.ratio_test import exchanged, paired_ratios
from bench.stats.ratios import level_of
from bench.stats.tails import Tails
from bench.stats.verdict import judge

COSTS = st.lists(st.floats(0.001, 1000), min_size=1, max_size=4).map(np.array)
CASES = st.lists(st.tuples(COSTS, COSTS), min_size=2, max_size=5)


def outliers(rng: np.random.Generator, trials: int, cases: int = 20) -> list[np.ndarray]:
    """One trial in twenty costs a hundred times as much: an agent that loops until a limit."""
    dear = np.where(rng.random((cases, trials)) < 0.05, 100.0, 1.0)
    return list(dear * rng.lognormal(0, 0.2, (cases, trials)))


def crashes(rng: np.random.Generator, trials: int, cases: int = 50) -> list[np.ndarray]:
    """One trial in ten ended before its first call, and cost nothing."""
    found = list(np.where(rng.random((cases, trials)) < 0.1, 0.0, rng.lognormal(0, 1, (cases, trials))))
    return [np.maximum(it, 0 if it.any() else 1.0) for it in found]


def test_rare_dear_trials_on_the_side_with_more_of_them_are_no_regression() -> None:
    rng, called = np.random.default_rng(4), 0
    for _ in range(60):
        base, head = outliers(rng, 1), outliers(rng, 10)
        it = make_sample([str(n) for n in range(20)], base, head, ratio=True)
        tails = paired_ratios(it.differences, it.base, it.head)
        found = judge(it.differences, float(np.log1p(0.1)), 0.05, lower_is_worse=False, tails=tails)
        called += found.verdict == "regression"
    # Signs alone call one in 20 of 60 such comparisons; 8 or more of 60 at 5% have a chance of 1%.
    assert called < 8


@pytest.mark.parametrize(("one", "other"), [(1, 10), (10, 1), (3, 10)])
def test_trials_that_cost_nothing_make_no_side_dearer(one: int, other: int) -> None:
    rng = np.random.default_rng(one)
    means = []
    for _ in range(40):
        it = make_sample([str(n) for n in range(50)], crashes(rng, one), crashes(rng, other), ratio=True)
        means.append(float(it.differences.mean()))
    error = float(np.std(means, ddof=1)) / len(means) ** 0.5
    # The logarithms of plain means, which took their place, differ by 0.1 to 0.2.
    assert abs(float(np.mean(means))) < 4 * error < 0.13


def test_trials_change_sides_in_every_way() -> None:
    base, head = np.array([1.0, 2.0, 5.0]), np.array([3.0, 8.0])
    both = np.concatenate([base, head])
    brute = []
    for chosen in itertools.combinations(range(5), 2):
        rest = np.delete(both, chosen)
        brute.append(level_of(both[list(chosen)], 2) - level_of(rest, 2))
    assert sorted(exchanged(base, head)) == pytest.approx(sorted(brute))
    assert list(exchanged(head, base)) == pytest.approx([-it for it in exchanged(base, head)])


def test_a_side_that_would_have_taken_nothing_has_no_ratio() -> None:
    found = exchanged(np.array([0.0, 0.0, 4.0]), np.array([2.0]))
    assert found == pytest.approx([np.log(2.0 / 4.0), np.log(4.0 / 2.0)]), "of four ways, two give a side nothing"


def sides(cases: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [b for b, _ in cases], [h for _, h in cases]


def tails_of(base: list[np.ndarray], head: list[np.ndarray]) -> Tails:
    it = make_sample([str(n) for n in range(len(base))], base, head, ratio=True)
    return paired_ratios(it.differences, it.base, it.head)


@settings(max_examples=20, deadline=None)
@given(CASES)
def test_base_and_head_turned_round_turn_the_tails(cases: list[tuple[np.ndarray, np.ndarray]]) -> None:
    base, head = sides(cases)
    one, other = tails_of(base, head), tails_of(head, base)
    assert (one.lower, one.upper) == pytest.approx((other.upper, other.lower), abs=0.02), "but for the luck of draws"


@settings(max_examples=20, deadline=None)
@given(CASES, st.sampled_from([1e-6, 0.25, 1024.0]))
def test_neither_the_unit_nor_the_order_of_trials_matters(
    cases: list[tuple[np.ndarray, np.ndarray]], unit: float
) -> None:
    base, head = sides(cases)
    one = tails_of(base, head)
    other = tails_of([unit * it[::-1] for it in base], [unit * it[::-1] for it in head])
    assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper))
