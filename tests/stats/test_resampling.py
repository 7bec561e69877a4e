"""Permutation tests, the bootstrap and rank bands: against brute force, and against what they promise."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.stats.compare import fisher
from bench.stats.intervals import DRAWS, LEVEL, Floats, Interval, mean_intervals
from bench.stats.ranking import rank_bands
from bench.stats.tests import holm, sign_flip, within_cases

TRIALS = st.lists(st.booleans(), min_size=1, max_size=3)


def mean_interval(values: Floats) -> Interval | None:
    return mean_intervals(values, [LEVEL])[0]


def floats(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=8))
def test_sign_flips_are_what_brute_force_finds(tenths: list[int]) -> None:
    sums = [
        sum(s * d for s, d in zip(signs, tenths, strict=True))
        for signs in itertools.product((-1, 1), repeat=len(tenths))
    ]
    found = sign_flip(floats(*(value / 10 for value in tenths)))
    assert found.draws is None
    assert found.lower == pytest.approx(sum(total <= sum(tenths) for total in sums) / len(sums))
    assert found.upper == pytest.approx(sum(total >= sum(tenths) for total in sums) / len(sums))


def test_more_than_fifteen_pairs_are_drawn_and_never_impossible() -> None:
    exact, drawn = sign_flip(np.full(15, -0.2)), sign_flip(np.full(16, -0.2))
    assert (exact.draws, exact.lower) == (None, 2**-15)
    assert drawn.draws == DRAWS
    assert drawn.lower == pytest.approx(1 / (1 + DRAWS), abs=3e-4)
    assert drawn.lower >= 1 / (1 + DRAWS), "+1: a p-value is never 0"
    zeros = sign_flip(np.concatenate([np.full(15, -0.2), np.zeros(40)]))
    assert zeros == exact, "a case that did not move has no sign to flip"
    assert sign_flip(drawn_differences(7)) == sign_flip(drawn_differences(7)), "the same records, the same answer"


def drawn_differences(seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=40)


@pytest.mark.parametrize("cases", [8, 30])
def test_p_values_are_uniform_without_a_change(cases: int) -> None:
    rng = np.random.default_rng(3)
    p = np.array([sign_flip(rng.standard_t(3, size=cases)).lower for _ in range(1500)])
    for level in (0.05, 0.25, 0.5, 0.9):
        error = 4 * (level * (1 - level) / len(p)) ** 0.5
        assert abs((p <= level).mean() - level) < error, level


@settings(deadline=None)
@given(st.lists(st.tuples(TRIALS, TRIALS), min_size=1, max_size=3))
def test_within_cases_is_what_brute_force_finds(cases: list[tuple[list[bool], list[bool]]]) -> None:
    every = [
        [
            mean_difference([both[i] for i in chosen], [both[i] for i in range(len(both)) if i not in chosen])
            for both in [base + head]
            for chosen in itertools.combinations(range(len(both)), len(base))
        ]
        for base, head in cases
    ]
    observed = sum((mean_difference(base, head) for base, head in cases), Fraction(0))
    sums = [sum(parts, Fraction(0)) for parts in itertools.product(*every)]
    found = within_cases([floats(*base) for base, _ in cases], [floats(*head) for _, head in cases])
    assert found.draws is None
    assert found.lower == pytest.approx(sum(total <= observed for total in sums) / len(sums))
    assert found.upper == pytest.approx(sum(total >= observed for total in sums) / len(sums))


def mean_difference(base: list[bool], head: list[bool]) -> Fraction:
    return Fraction(sum(head), len(head)) - Fraction(sum(base), len(base))


def test_drawn_and_exact_shuffles_agree() -> None:
    rng = np.random.default_rng(1)
    base, head = (list((rng.random((12, 5)) < chance).astype(np.float64)) for chance in (0.7, 0.5))
    exact = within_cases(base, head)
    # Any scale other than 0 and 1 takes the way of scores, which is drawn.
    drawn = within_cases([trials / 2 for trials in base], [trials / 2 for trials in head])
    assert (exact.draws, drawn.draws) == (None, DRAWS)
    assert drawn.lower == pytest.approx(exact.lower, abs=0.01)
    assert drawn.upper == pytest.approx(exact.upper, abs=0.01)


def test_a_case_broken_for_good_is_more_than_one_sign() -> None:
    base, head = [np.ones(5)] * 3 + [np.zeros(5)] * 5, [np.zeros(5)] * 3 + [np.zeros(5)] * 5
    differences = np.array([h.mean() - b.mean() for b, h in zip(base, head, strict=True)])
    assert sign_flip(differences).lower == 1 / 8
    assert within_cases(base, head).lower == pytest.approx(comb(10, 5) ** -3)


def test_holm_is_right_for_a_worked_example() -> None:
    # Holm (1979): ordered p times m, m - 1, ...; never less than one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(("fewer", "more", "n", "p"), [(0, 5, 5, 1 / 252), (0, 3, 3, 1 / 20), (2, 2, 4, 0.7571)])
def test_fisher_agrees_with_the_hypergeometric_table(fewer: int, more: int, n: int, p: float) -> None:
    assert fisher(fewer, more, n) == pytest.approx(p, abs=1e-4)


def test_the_bootstrap_interval_is_near_students_for_well_behaved_values() -> None:
    values = np.random.default_rng(2).normal(0.1, 0.2, size=60)
    found = mean_interval(values)
    assert found is not None
    half = 2.0010 * values.std(ddof=1) / 60**0.5  # t with 59 degrees of freedom
    assert found.low == pytest.approx(values.mean() - half, abs=0.004)
    assert found.high == pytest.approx(values.mean() + half, abs=0.004)


def test_the_bootstrap_does_not_take_equal_cases_for_certainty() -> None:
    assert mean_interval(floats(0.3)) is None
    few, many = mean_interval(np.zeros(7)), mean_interval(np.zeros(200))
    assert few is not None
    assert many is not None
    assert few.high == -few.low == pytest.approx(1 - 0.025 ** (1 / 7))
    assert many.high < 0.02


def test_rank_bands_use_that_agents_met_the_same_cases() -> None:
    hard = np.linspace(0, 0.85, 30)
    paired = np.array([hard + 0.1, hard])
    assert rank_bands(paired) == [(1, 1), (2, 2)], "better on every single case, though rates vary widely"
    assert rank_bands(np.array([hard + 0.1, hard[::-1]])) == [(1, 2), (1, 2)]
    assert rank_bands(np.ones((3, 1))) == [(1, 3)] * 3
    assert rank_bands(np.ones((1, 9))) == [(1, 1)]


def test_rank_bands_hold_the_true_ranks() -> None:
    rng = np.random.default_rng(4)
    skills = np.array([0.95, 0.9, 0.7, 0.68, 0.4])
    held = 0
    for _ in range(100):
        chances = rng.beta(0.8, 0.8, size=30) * skills[:, None]
        bands = rank_bands(rng.binomial(3, chances) / 3)
        held += all(best <= rank <= worst for rank, (best, worst) in enumerate(bands, start=1))
    assert held >= 90
