"""Permutation tests, the bootstrap and rank bands: against brute force, and against what they promise."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from math import comb
from statistics import fmean, pstdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest, fisher_exact, permutation_test
from statsmodels.regression.linear_model import GLS
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW, ttost_paired

from bench.stats.compare import fisher
from bench.stats.intervals import DRAWS, LEVEL, Floats, Interval, difference_intervals, mean_intervals
from bench.stats.nights import night_weights
from bench.stats.ranking import rank_bands
from bench.stats.sign_flips import sign_flip
from bench.stats.tests import Stratum, holm, within_cases, within_strata
from tests.helpers.sampling import at_night

TRIALS = st.lists(st.booleans(), min_size=1, max_size=3)


def mean_interval(values: Floats) -> Interval | None:
    return mean_intervals(values, [LEVEL])[0]


def floats(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=8))
def test_sign_flips_are_what_brute_force_finds(tenths: list[int]) -> None:
    every = [
        freed_of_skewness([s * d / 10 for s, d in zip(signs, tenths, strict=True)])
        for signs in itertools.product((-1, 1), repeat=len(tenths))
    ]
    found, observed = sign_flip(floats(*(value / 10 for value in tenths))), freed_of_skewness([d / 10 for d in tenths])
    assert found.draws is None
    assert found.lower == pytest.approx(sum(it <= observed for it in every) / len(every))
    assert found.upper == pytest.approx(sum(it >= observed for it in every) / len(every))


def freed_of_skewness(differences: list[float]) -> float:
    """The mean whose ratio to the spread is Hall's ((1 + g T / 3)^3 - 1) / g + g / 6 n; to six digits."""
    n, mean, spread = len(differences), fmean(differences), pstdev(differences)
    if spread < 1e-9:
        return round(mean, 6)
    ratio, skewness = mean / spread, float(stats.skew(differences))
    freed = ((1 + skewness * ratio / 3) ** 3 - 1) / skewness + skewness / (6 * n) if abs(skewness) > 1e-6 else ratio
    return round(math.hypot(mean, spread) * math.sin(math.atan(freed)), 6)


def test_a_sign_flip_of_the_other_side_is_its_mirror() -> None:
    there, back = sign_flip(drawn_differences(3)[:12]), sign_flip(-drawn_differences(3)[:12])
    assert (there.lower, there.upper) == (back.upper, back.lower)


def test_what_breaks_few_cases_for_good_is_seen_better_than_by_the_mean() -> None:
    """Ten cases of fifty lost most of what they had; the others moved by chance."""
    rng = np.random.default_rng(4)
    differences = np.concatenate([np.full(6, -0.8), rng.choice([-0.4, -0.2, 0.0, 0.2, 0.4], size=44)])
    by_mean = np.mean(np.abs(differences) @ rng.choice([-1.0, 1.0], size=(50, 20_000)) <= differences.sum() + 1e-9)
    assert sign_flip(differences).lower < by_mean


@pytest.mark.parametrize("nights", [120, at_night(400)])
def test_skewed_differences_with_a_mean_of_nothing_are_no_change(nights: int) -> None:
    """A tenth of the cases breaks, the others gain what they lost: the mean of all possible cases stays."""
    rng = np.random.default_rng(5)
    losses = [np.where(rng.random(50) < 0.1, -0.45, 0.05) + rng.normal(0, 0.1, 50) for _ in range(nights)]
    p = np.array([sign_flip(it).lower for it in losses])
    assert 0.02 < (p < 0.05).mean() < 0.05 + 3 * (0.05 * 0.95 / len(p)) ** 0.5


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


@pytest.mark.parametrize("cases", [8, at_night(30)])
def test_p_values_are_uniform_without_a_change(cases: int) -> None:
    rng = np.random.default_rng(3)
    p = np.array([sign_flip(rng.standard_t(3, size=cases)).lower for _ in range(600)])
    for level in (0.05, 0.25, 0.5, 0.9):
        error = 4 * (level * (1 - level) / len(p)) ** 0.5
        assert abs((p <= level).mean() - level) < error, level


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


@pytest.mark.parametrize(
    ("base", "head"), [((5, 5), (0, 5)), ((3, 3), (0, 3)), ((2, 4), (2, 4)), ((9, 12), (1, 3)), ((1, 20), (3, 4))]
)
def test_fisher_is_what_scipy_finds(base: tuple[int, int], head: tuple[int, int]) -> None:
    table = [[head[0], head[1] - head[0]], [base[0], base[1] - base[0]]]
    sides = [fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
    assert fisher(base, head) == pytest.approx(sides[0] if head[0] / head[1] <= base[0] / base[1] else sides[1])


def test_the_bootstrap_interval_is_near_students_for_well_behaved_values() -> None:
    values = np.random.default_rng(2).normal(0.1, 0.2, size=60)
    found = mean_interval(values)
    assert found is not None
    half = 2.0010 * values.std(ddof=1) / 60**0.5  # t with 59 degrees of freedom
    assert found.low == pytest.approx(values.mean() - half, abs=0.004)
    assert found.high == pytest.approx(values.mean() + half, abs=0.004)


def test_the_interval_of_differences_does_not_take_equal_cases_for_certainty() -> None:
    assert mean_interval(floats(0.3)) is None
    assert mean_interval(np.zeros(7)) is None, "nothing to resample"
    few, many, nearly = (
        difference_intervals(values, [LEVEL])[0] for values in (np.zeros(7), np.zeros(200), floats(*[0] * 6, -0.01))
    )
    assert few is not None
    assert many is not None
    assert nearly is not None
    assert few.high == -few.low == pytest.approx(1 - 0.025 ** (1 / 7)), "Clopper and Pearson"
    assert binomtest(0, 7).proportion_ci(LEVEL).high == pytest.approx(few.high)
    assert many.high < 0.02
    assert nearly.low == pytest.approx(few.low, abs=0.01), "a hair's breadth is not another interval"


def test_the_interval_of_differences_is_students_for_many_cases_that_moved() -> None:
    values = np.random.default_rng(2).normal(-0.1, 0.4, size=2000).clip(-1, 1)
    found = difference_intervals(values, [LEVEL])[0]
    assert found is not None
    low, high = DescrStatsW(values).tconfint_mean(1 - LEVEL)
    assert found.low == pytest.approx(low, abs=0.001)
    assert found.high == pytest.approx(high, abs=0.001)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12))
def test_no_interval_of_differences_leaves_its_bounds(values: list[float]) -> None:
    found = difference_intervals(floats(*values), [LEVEL])[0]
    assert found is not None
    assert -1 <= found.low <= found.high <= 1


def test_equivalence_is_what_statsmodels_two_one_sided_tests_say_of_many_cases() -> None:
    values = np.random.default_rng(6).normal(0.01, 0.3, size=900).clip(-1, 1)
    for margin in (0.02, 0.025, 0.03, 0.04):
        p = ttost_paired(values, np.zeros(900), -margin, margin)[0]
        found = difference_intervals(values, [0.9])[0]
        assert found is not None
        assert found.within(margin) == (p < 0.05)


def test_holm_is_what_statsmodels_finds() -> None:
    p_values = list(np.random.default_rng(9).uniform(0, 0.2, size=12))
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_strata_of_several_nights_are_what_scipys_permutations_find() -> None:
    strata = [Stratum(0.25, floats(1, 1, 0), floats(0, 0)), Stratum(0.75, floats(1, 0, 1, 1), floats(0, 1, 0))]
    alone = Stratum(1.0, floats(1, 0, 1), floats(0, 0, 1))
    found = within_strata([alone])
    exact = permutation_test(
        (alone.head, alone.base), lambda x, y: x.mean() - y.mean(), alternative="less", n_resamples=np.inf
    )
    assert found.lower == pytest.approx(exact.pvalue)
    # Every assignment of successes to sides, by hand.
    sums, chances = [], []
    for h1, h2 in itertools.product(range(3), range(4)):
        weight = comb(2, h1) * comb(3, 2 - h1) * comb(3, h2) * comb(4, 4 - h2) if h1 <= 2 else 0
        sums.append(0.25 * (h1 / 2 - (2 - h1) / 3) + 0.75 * (h2 / 3 - (4 - h2) / 4))
        chances.append(weight)
    share = np.array(chances) / sum(chances)
    observed = 0.25 * (0 - 2 / 3) + 0.75 * (1 / 3 - 3 / 4)
    assert within_strata(strata).lower == pytest.approx(float(share[np.array(sums) <= observed + 1e-9].sum()), abs=0.01)


def test_night_weights_are_the_best_linear_unbiased_ones() -> None:
    base, head, noise, spread = floats(5, 5, 3, 0), floats(0, 0, 4, 2), 0.2, 0.3
    found = night_weights(base, head, noise, spread)
    # Generalised least squares with the mixed model's covariance, by statsmodels.
    rows = [(0, night, n) for night, n in enumerate(base) if n] + [(1, night, n) for night, n in enumerate(head) if n]
    design = np.array([[side == 0, side == 1] for side, _, _ in rows], dtype=float)
    covariance = np.array(
        [[spread**2 * (a[1] == b[1]) + (noise / a[2] if a is b else 0) for b in rows] for a in rows], dtype=float
    )
    of_means = np.linalg.solve(design.T @ np.linalg.solve(covariance, design), design.T @ np.linalg.inv(covariance))
    fit = GLS(np.arange(len(rows), dtype=float), design, sigma=covariance).fit()
    difference = of_means[1] - of_means[0]
    assert float(difference @ np.arange(len(rows))) == pytest.approx(fit.params[1] - fit.params[0])
    ours = np.array([(found[1] if side else -found[0])[night] for side, night, _ in rows])
    assert ours == pytest.approx(difference, abs=1e-4)
    pooled = night_weights(base, head, noise, 0.0)
    assert pooled[0] == pytest.approx(base / base.sum(), abs=1e-4), "without a night effect every trial counts alike"
    shared = night_weights(base, head, noise, 1e4)
    assert shared[0] == pytest.approx(floats(0, 0, 1, 0), abs=1e-3), "with a large one only the shared night"


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
