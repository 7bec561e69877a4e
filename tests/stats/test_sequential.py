"""Sequential looks: boundaries as published, decisions by them, and a state that records alone determine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest
from scipy import integrate, stats

from bench.formats.record import Outcome, Record
from bench.report import sequential_lines
from bench.stats.boundaries import crossing_chances, obrien_fleming, pocock, spending_boundaries
from bench.stats.sequential import (
    DROP,
    EXCLUDED,
    SequentialState,
    last_statistics,
    make_sequential,
    sequential_state,
    statistics,
)
from bench.stats.sign_flips import sign_flip
from tests.helpers.records import START, make_check, make_provenance, make_record

FIVE = [0.2, 0.4, 0.6, 0.8, 1.0]
DESIGN = make_sequential(12, 5)


# --- boundaries against what is published -----------------------------------------------------------------------------


def test_lan_and_demets_boundaries_of_five_looks() -> None:
    """O'Brien-Fleming-like spending at two-sided 0.05, as ldbounds and gsDesign print it."""
    found = spending_boundaries(FIVE, obrien_fleming(FIVE, 0.025))
    assert found == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=2e-4)


def test_lan_and_demets_boundaries_with_nearly_equal_steps() -> None:
    """Pocock-like spending at two-sided 0.05 and five looks, as published with the function."""
    found = spending_boundaries(FIVE, pocock(FIVE, 0.025))
    assert found == pytest.approx([2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=2e-4)


@pytest.mark.parametrize(("looks", "constant"), [(2, 1.9774), (3, 2.0043), (4, 2.0243), (5, 2.0396)], ids=str)
def test_the_constants_of_obrien_and_fleming_cost_what_they_promise(looks: int, constant: float) -> None:
    """Jennison and Turnbull, Group Sequential Methods, 2000, table 2.3: two-sided 0.05."""
    fractions = [(number + 1) / looks for number in range(looks)]
    chances = crossing_chances(fractions, [constant / share**0.5 for share in fractions])
    assert chances[-1] == pytest.approx(0.025, abs=5e-5)


def test_the_constant_of_pocock_costs_what_it_promises() -> None:
    """The same book, table 2.1: five looks, two-sided 0.05."""
    assert crossing_chances(FIVE, [2.413] * 5)[-1] == pytest.approx(0.025, abs=1e-3)


def test_the_recursion_is_the_integral_of_the_joint_distribution() -> None:
    """Of three looks, by scipy's multivariate normal; of two, by its quadrature."""
    shares, quantiles = [0.25, 0.6, 1.0], [2.2, 1.9, 1.7]
    covariance = [[min(a, b) / (a * b) ** 0.5 for a in shares] for b in shares]
    inside = stats.multivariate_normal.cdf(np.array(quantiles), np.zeros(3), covariance, abseps=1e-7, releps=1e-7)
    assert crossing_chances(shares, quantiles)[-1] == pytest.approx(1 - inside, abs=2e-5)

    def second(z: float) -> float:
        step = 0.35**0.5
        return float(stats.norm.pdf(z) * stats.norm.sf((1.9 * 0.6**0.5 - z * 0.5) / step))

    added, _ = integrate.quad(second, -9, 2.2)
    found = crossing_chances(shares, quantiles)
    assert found[1] - found[0] == pytest.approx(added, abs=1e-7)


def test_what_is_spent_is_what_was_to_be_spent() -> None:
    spent = obrien_fleming(FIVE, 0.05)
    assert spent[-1] == pytest.approx(0.05)
    assert crossing_chances(FIVE, spending_boundaries(FIVE, spent)) == pytest.approx(spent, abs=1e-8)
    assert pocock(FIVE, EXCLUDED)[-1] == pytest.approx(EXCLUDED)


def test_the_statistic_is_students_t_over_the_cases_freed_of_skewness() -> None:
    rng = np.random.default_rng(3)
    many = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], size=(6, 30))
    found = statistics(many, DROP)
    for row, worse, better, drop in zip(many, found.p_worse, found.p_better, found.p_drop, strict=True):
        moved = np.count_nonzero(row)
        skewness = stats.skew(row) * (29 / 30) ** 1.5 * moved / (moved + 10)
        ratio = stats.ttest_1samp(row, 0).statistic / 30**0.5
        student = 30**0.5 * (((1 + skewness * ratio / 3) ** 3 - 1) / skewness + skewness / 180)
        assert worse == pytest.approx(stats.t.cdf(student, 29), rel=1e-9)
        assert better == pytest.approx(stats.t.sf(student, 29), rel=1e-9)
        student = stats.ttest_1samp(row, -DROP, alternative="greater").pvalue
        assert drop == pytest.approx(max(student, min(1.0, (0.9 / (1 + row.mean())) ** 30)), rel=1e-9)


def test_the_last_look_has_the_test_of_compare() -> None:
    differences = np.random.default_rng(4).choice([-1.0, -0.4, 0.0, 0.2], size=30)
    looked, last, signs = statistics(differences, DROP), last_statistics(differences, DROP), sign_flip(differences)
    assert (float(last.p_worse), float(last.p_better)) == (signs.lower, signs.upper)
    assert last.p_worse != looked.p_worse
    assert last.p_drop == looked.p_drop


@pytest.mark.parametrize("cases", [2, 5, 20])
def test_equal_cases_have_the_floor_of_their_number(cases: int) -> None:
    fell = statistics(np.full(cases, -1.0), DROP)
    assert (float(fell.p_worse), float(fell.p_better), float(fell.p_drop)) == (0.5**cases, 1.0, 1.0)
    same = statistics(np.zeros(cases), DROP)
    assert (float(same.p_worse), float(same.p_better)) == (1.0, 1.0)
    assert float(same.p_drop) == pytest.approx(0.9**cases)
    rose = statistics(np.full(cases, 1.0), DROP)
    assert float(rose.p_drop) == pytest.approx(0.45**cases)


# --- the state, from records ------------------------------------------------------------------------------------------


def trial(arm: str, case: int, number: int, *, success: bool, outcome: Outcome = "graded", cases: int = 12) -> Record:
    design = DESIGN.model_copy(update={"cases": cases})
    return make_record(
        case=f"case-{case:02}",
        trial=number,
        outcome=outcome,
        checks=[make_check(value=float(success))],
        started=START + timedelta(minutes=number),
        cell=f"react/x/case-{case:02}/mini/{number}/{arm}",
        arm=arm,
        agent_version=1 if arm == "base" else 2,
        provenance=make_provenance("ab").model_copy(update={"sequential": design}),
    )


def rounds(*fallen: int, cases: int = 12) -> list[Record]:
    """In round k, `fallen[k - 1]` of the cases succeed for base alone; in the others both succeed."""
    return [
        trial(arm, case, number, success=arm == "base" or case >= count, cases=cases)
        for number, count in enumerate(fallen, start=1)
        for case in range(cases)
        for arm in ("base", "head")
    ]


def state(records: Sequence[Record]) -> SequentialState:
    found = sequential_state(records)
    assert found is not None
    return found


def test_an_unfinished_round_is_not_looked_at() -> None:
    for records in ([], rounds(0)[:-1], rounds(0)[::2]):
        if records:
            assert (state(records).looks, state(records).verdict) == ([], None)
            assert "round 1 of at most 5" in state(records).waits_for


def test_many_equal_cases_exclude_the_drop_after_the_first_round() -> None:
    found = state(rounds(0, cases=60))
    assert (found.verdict, len(found.looks), found.saved) == ("no drop", 1, 480)
    assert "1 of at most 5 looks, 480 of 600 trials saved" in sequential_lines(found)[0]
    assert "boundary 1.2e-05" in sequential_lines(found)[1]


def test_a_drop_of_every_case_is_a_regression_as_soon_as_the_boundary_allows() -> None:
    found = state(rounds(12, 12, 12, 12, 12))
    # Twelve signs: 2^-12 is above the first boundary, and below the second.
    assert [it.decision for it in found.looks] == ["go on", "regression"]
    assert found.looks[0].p_worse == 0.5**12 > found.looks[0].boundary
    assert found.saved == 72


def test_trials_after_the_verdict_change_nothing() -> None:
    assert state(rounds(12, 12, 0, 0)).looks == state(rounds(12, 12)).looks


def test_the_last_round_ends_it_in_any_case() -> None:
    found = state(rounds(1, 1, 1, 1, 1))
    assert (found.verdict, len(found.looks), found.saved) == ("undecided", 5, 0)
    assert [it.boundary for it in found.looks] == DESIGN.boundaries


def test_the_order_in_which_records_come_does_not_matter() -> None:
    records = rounds(3, 0, 1)
    assert state(records[::-1]).looks == state(records).looks


def test_a_round_that_lost_many_cases_waits_and_one_that_lost_few_does_not() -> None:
    records = rounds(0)
    few = [trial("head", 0, 1, success=False, outcome="infra"), *records[:1], *records[2:]]
    assert [it.cases for it in state(few).looks] == [11]
    many = [trial("head", case, 1, success=False, outcome="infra") for case in (0, 1)]
    kept = [it for it in records if it.cell not in {lost.cell for lost in many}]
    assert (state([*many, *kept]).looks, "infrastructure" in state([*many, *kept]).waits_for) == ([], True)


def test_an_interrupted_cell_leaves_its_round_open() -> None:
    records = rounds(0)
    stopped = trial("head", 0, 1, success=False, outcome="interrupted")
    assert state([stopped, *(it for it in records if it.cell != stopped.cell)]).looks == []


def test_cases_that_no_machine_can_run_do_not_count_as_lost() -> None:
    unable = [trial(arm, case, 1, success=False, outcome="skipped") for arm in ("base", "head") for case in range(4)]
    kept = [it for it in rounds(0) if it.cell not in {lost.cell for lost in unable}]
    assert [it.cases for it in state([*unable, *kept]).looks] == [8]


def test_other_records_are_not_of_a_sequential_experiment() -> None:
    assert sequential_state([]) is None
    assert sequential_state([make_record()]) is None
    assert sequential_state([*rounds(0), make_record()]) is None


def test_a_record_whose_cell_names_another_arm_is_refused() -> None:
    with pytest.raises(ValueError, match="arm head"):
        make_record(arm="head", cell="react/x/one/mini/1/base")
