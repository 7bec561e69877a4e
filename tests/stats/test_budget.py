"""A verdict for a budget: floors, strata, the bill, and chances that hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bench.formats.record import Record
from bench.stats.budget import _bill, select
from bench.stats.intervals import Floats
from bench.stats.power import Components, Question, cases_needed, fewest_cases, found_share, power, trials_needed
from bench.stats.prior import Candidate, TooLittle
from bench.stats.sign_flips import freed_mean
from bench.stats.tests import Rules
from tests.helpers.records import make_check, make_record

FAIL = [make_check(value=0.0)]
CHANCES = np.random.default_rng(5).beta(1.0, 0.7, size=30)


def history(chances: np.ndarray, trials: int, seed: int) -> list[Record]:
    rng = np.random.default_rng(seed)
    return [
        make_record(case=f"case_{number:02}", trial=trial, checks=None if rng.random() < chance else FAIL, run="past")
        for number, chance in enumerate(chances)
        for trial in range(1, trials + 1)
    ]


def candidates(usd: float = 0.1, count: int = 30, arms: int = 2) -> list[Candidate]:
    rng = np.random.default_rng(2)
    found = []
    for number in range(count):
        costs = (usd * rng.lognormal(0, 0.3, 4)).tolist()
        seconds = float(60 + number)
        found.append(Candidate(f"case_{number:02}", "ab"[number % 2], float(np.mean(costs)), costs, seconds, arms))
    return found


def _freed(values: Floats) -> float:
    """To eight digits, as what is equal on paper differs by rounding."""
    found = freed_mean(values.sum(), (values**3).sum(), (values**2).sum(), len(values))
    return round(float(found), 8)


def test_the_simulated_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(3)
    rules = Rules(margin=0.01)
    for cases in (4, 5, 6, 8):
        rows = np.round(rng.normal(-0.25, 0.25, size=(40, cases)), 1)
        found = [found_share(row[None, :], rules) for row in rows]
        expected = []
        for row in rows:
            p = stats.permutation_test(
                (row,), _freed, permutation_type="samples", alternative="less", n_resamples=np.inf
            ).pvalue
            expected.append(float(p < rules.alpha and row.mean() <= -rules.margin))
        assert found == expected


@pytest.mark.parametrize(("alpha", "floor"), [(0.05, 5), (0.0625, 5), (0.063, 4), (0.01, 7), (0.4, 2)])
def test_no_advice_is_below_the_floor_of_the_signs(alpha: float, floor: int) -> None:
    assert fewest_cases(alpha) == floor
    assert 0.5**floor < alpha
    sure = Question(Components(1.0, 0.0, 0.0, 50, 150, True), 1.0, True, Rules(alpha=alpha))
    needed = cases_needed(sure, 5)
    assert needed == floor
    assert power(sure, floor - 1, 100) == 0.0
    assert trials_needed(sure, floor - 1) is None


def test_a_selection_keeps_its_budget_and_its_strata() -> None:
    found = select(candidates(), history(CHANCES, 3, 1), 0.1, 20.0, 20)
    offer = found.offer
    assert offer.usd_interval.low < offer.usd < offer.usd_interval.high <= 20
    assert len(set(offer.cases)) == len(offer.cases) >= 5
    assert sum(taken for taken, _ in found.strata.values()) == len(offer.cases)
    assert sum(every for _, every in found.strata.values()) == 30
    share = len(offer.cases) / 30
    assert all(abs(taken - share * every) <= 1 for taken, every in found.strata.values())
    assert found.power_interval.low <= offer.power <= found.power_interval.high
    larger = select(candidates(), history(CHANCES, 3, 1), 0.1, 200.0, 20)
    assert larger.offer.power > offer.power


def test_what_tells_more_per_dollar_is_taken_first() -> None:
    uneven = [
        Candidate(
            it.id, "a", it.usd * (1 + 20 * (number % 2)), [cost * (1 + 20 * (number % 2)) for cost in it.costs], 60
        )
        for number, it in enumerate(candidates())
    ]
    found = select(uneven, history(np.full(30, 0.9), 4, 1), 0.3, 10.0, 20)
    assert all(int(case[-2:]) % 2 == 0 for case in found.offer.cases)


def test_free_cells_are_never_over_a_budget() -> None:
    free = [Candidate(it.id, it.category, 0.0, [0.0, 0.0], it.seconds, 2) for it in candidates()]
    found = select(free, history(CHANCES, 3, 1), 0.1, 0.01, 20)
    assert (found.offer.usd, found.offer.usd_interval.high) == (0.0, 0.0)
    assert found.offer.power > 0.8


@pytest.mark.parametrize(
    ("count", "budget", "chance", "fault"),
    [
        (4, 100.0, 0.7, "needs 5 cases, and the plan has 4"),
        (30, 0.5, 0.7, "one trial of 5 cases, may cost"),
        (30, 100.0, 0.02, "succeeds too seldom"),
    ],
)
def test_what_no_budget_buys_is_said(count: int, budget: float, chance: float, fault: str) -> None:
    with pytest.raises(TooLittle, match=fault):
        select(candidates(count=count), history(np.full(count, chance), 3, 1), 0.1, budget, 20)
    with pytest.raises(TooLittle, match="fewer than two cases"):
        select(candidates(), [], 0.1, 10.0, 20)


def test_bills_lie_in_their_interval() -> None:
    rng = np.random.default_rng(8)
    inside = over = 0
    for _ in range(400):
        means = rng.lognormal(-2, 0.8, 12)
        past = means[:, None] * rng.lognormal(-0.125, 0.5, (12, 3))
        known = [Candidate(str(n), "a", float(it.mean()), it.tolist(), 60, 2) for n, it in enumerate(past)]
        _, interval = _bill(known, 3)
        bill = float((means[:, None] * rng.lognormal(-0.125, 0.5, (12, 6))).sum())
        inside += interval.low <= bill <= interval.high
        over += bill > interval.high
    assert inside >= 0.93 * 400
    assert over <= 0.04 * 400


def test_an_unknown_price_is_its_limit() -> None:
    known, unknown = Candidate("a", "a", 1.0, [1.0, 1.0], 60, 2), Candidate("b", "a", 5.0, [], 60, 2)
    usd, interval = _bill([known, unknown], 3)
    assert usd == pytest.approx(6 + 30)
    assert interval.high == pytest.approx(36)
    assert _bill([unknown], 3)[1].low == 0.0


@pytest.mark.nightly
def test_the_chance_is_that_of_the_selection() -> None:
    covered = 0
    for seed in range(4):
        rng = np.random.default_rng([4, seed])
        chances = rng.beta(0.8, 0.6, size=30)
        found = select(candidates(), history(chances, 3, seed), 0.1, 30.0, 20)
        p = chances[[int(case[-2:]) for case in found.offer.cases]]
        share, trials = 1 - 0.1 / p.mean(), found.offer.trials
        size = (1_000, len(p))
        rows = (rng.binomial(trials, share * p, size=size) - rng.binomial(trials, p, size=size)) / trials
        covered += found.power_interval.low <= found_share(rows, Rules()) <= found.power_interval.high
    assert covered >= 3
