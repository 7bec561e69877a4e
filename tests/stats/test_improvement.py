"""What an agent made of a case's continuous metric: two scores with their intervals, and success at several bars."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from statistics import fmean

import pytest

from bench.formats.case_metric import Scale
from bench.formats.record import Metric, Record
from bench.index.query import open_index
from bench.index.results import IndexedResults
from bench.stats import BARS, Entrant, RecordResults, improvement_of, over_cases
from bench.stats.intervals import student
from bench.store.branch import ResultsBranch
from tests.helpers.records import ACCURACY, START, make_check, make_record
from tests.helpers.store import bundle_of

ERROR = Scale(name="mae", direction="lower", baseline=200.0, target=100.0, unit="dollars", bar=0.1)
WHO = Entrant("mini", "react", "m")


def trials(values: list[float | None], case: str = "house", **changes: object) -> list[Record]:
    return [
        make_record(
            case=case, trial=number, started=START + timedelta(minutes=number), headline=ERROR,
            metrics=[] if value is None else [Metric(name="mae", value=value)], **changes,  # type: ignore[arg-type]
        )
        for number, value in enumerate(values, 1)
    ]  # fmt: skip


def test_bars_are_strict_and_count_every_graded_trial() -> None:
    found = improvement_of(WHO, "house", ERROR, [180.0, 179.9, 139.0, None], 2)
    assert found.over == {0.05: 0.75, 0.1: 0.5, 0.15: 0.25, 0.2: 0.25, 0.3: 0.25}
    assert found.over_own_bar == 0.5
    assert (found.graded, found.valid, found.succeeded) == (4, 3, 2)
    assert found.relative and found.relative.mean == pytest.approx(fmean([0.1, 0.1005, 0.305]))
    # What is not valid has gone no way at all.
    assert found.bounded and found.bounded.mean == pytest.approx(fmean([0.2, 0.201, 0.61, 0.0]))


def test_the_bar_is_not_passed_by_the_rounding_of_a_machine() -> None:
    scale = Scale(name="loss", direction="lower", baseline=29500, target=15000, bar=0.1)
    assert scale.relative(26550) == pytest.approx(0.1)
    for baseline in (0.1, 0.3, 0.7, 29500, 1e9):
        own = scale.model_copy(update={"baseline": baseline})
        assert improvement_of(WHO, "c", own, [0.9 * baseline], 0).over[0.1] == 0.0
        assert improvement_of(WHO, "c", own, [0.8999 * baseline], 0).over[0.1] == 1.0


def test_there_is_an_interval_from_three_trials_on() -> None:
    two = improvement_of(WHO, "house", ERROR, [150.0, 160.0], 0)
    assert two.relative and two.relative.interval is None
    assert two.bounded and two.bounded.interval is None
    three = improvement_of(WHO, "house", ERROR, [150.0, 160.0, 170.0], 0)
    assert three.relative and three.relative.interval
    # Student's for 0.25, 0.2 and 0.15: 0.2 with 4.3027 * 0.05 / sqrt(3) on both sides.
    assert three.relative.interval.low == pytest.approx(0.2 - 0.12421, abs=1e-5)
    assert three.relative.interval.high == pytest.approx(0.2 + 0.12421, abs=1e-5)
    assert three.bounded and three.bounded.interval
    assert 0 <= three.bounded.interval.low < three.bounded.mean < three.bounded.interval.high <= 1


def test_the_interval_of_three_trials_holds_the_truth_in_nineteen_of_twenty() -> None:
    rng = random.Random(5)
    held = 0
    for _ in range(2000):
        interval = student([rng.gauss(0.2, 0.1) for _ in range(3)])
        held += interval is not None and interval.low <= 0.2 <= interval.high
    assert 0.93 < held / 2000 < 0.97
    assert student([0.2, 0.2, 0.2]) is None


def test_a_failed_guard_makes_a_trial_invalid_whatever_was_measured() -> None:
    guard = make_check("rules", 0.0, guard=True, required=False, weight=0.0)
    (found,) = RecordResults([*trials([120.0]), *trials([110.0], checks=[guard], run="other")]).improvements()
    assert (found.graded, found.valid, found.value) == (2, 1, 120.0)
    assert found.over[0.3] == 0.5


def test_a_baseline_of_zero_has_no_relative_score() -> None:
    found = improvement_of(WHO, "c", ERROR.model_copy(update={"baseline": 0.0}), [50.0], 0)
    assert found.relative is None
    assert found.bounded and found.bounded.mean == 0.5
    assert set(found.over.values()) == {0.0}


def test_over_cases_each_case_has_the_same_weight() -> None:
    results = RecordResults([*trials([150.0] * 4), *trials([210.0], "other"), *trials([None], "third")])
    (total,) = over_cases(results.improvements())
    assert (total.cases, total.valid_cases) == (3, 2)
    assert total.relative == pytest.approx((0.25 - 0.05) / 2)
    assert total.over[0.2].mean == pytest.approx(1 / 3)
    assert total.bounded and total.bounded.mean == pytest.approx(0.5 / 3)


def test_records_that_do_not_say_what_a_metric_is_held_against_are_left_out() -> None:
    assert RecordResults([make_record(metrics=[Metric(name="mae", value=1.0)])]).improvements() == []


def test_the_index_says_the_same_and_has_columns_for_it(tmp_path: Path) -> None:
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()
    guard = make_check("rules", 0.0, guard=True, required=False, weight=0.0)
    records = [
        *trials([150.0, None, 170.0, 199.0], run="one"),
        *trials([110.0], checks=[guard], run="guarded"),
        *trials([120.0], "other", run="two", outcome="infra"),
        make_record(case="plain", run="three"),
        make_record(case="up", run="four", headline=ACCURACY, metrics=[Metric(name="accuracy", value=0.77)]),
    ]
    for run in ("one", "guarded", "two", "three", "four"):
        branch.commit(bundle_of([it for it in records if it.provenance.run == run], run))
    with open_index(tmp_path / "results.git", cache=tmp_path / "cache") as index:
        assert IndexedResults(index).improvements() == RecordResults(records).improvements()
        rows = index.rows("SELECT relative, bounded FROM cells WHERE case_id = 'up'")
        assert rows == [(pytest.approx(0.15 / 0.62), pytest.approx(0.5))]
        asked = "SELECT run, headline_value, relative, bounded FROM cells WHERE case_id = 'house' AND bounded = 0"
        assert sorted(index.rows(asked)) == [("guarded", None, None, 0.0), ("one", None, None, 0.0)]
    assert len(RecordResults(records).improvements()[0].over) == len(BARS)


@pytest.mark.parametrize("values", [[1e308, 1e308], [1.7976931348623157e308] * 3, [-1e308, 1e308, 1e308, -1e308]])
def test_a_measurement_too_large_to_be_added_up_ends_no_table(tmp_path: Path, values: list[float | None]) -> None:
    """One result must not take the board from all: it is no valid trial, and its mean is still one of numbers."""
    records = [*trials(values, run="one"), *trials([150.0], "other", run="two")]
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()
    for run in ("one", "two"):
        branch.commit(bundle_of([it for it in records if it.provenance.run == run], run))
    (found, other) = RecordResults(records).improvements()
    assert (found.valid, found.value, found.relative, other.valid) == (0, None, None, 1)
    ((measured,), _) = RecordResults(records).metrics().values()
    assert measured.low <= measured.mean <= measured.high
    with open_index(tmp_path / "results.git", cache=tmp_path / "cache") as index:
        assert IndexedResults(index).improvements() == [found, other]
        assert IndexedResults(index).metrics() == RecordResults(records).metrics()


def test_a_change_beyond_all_numbers_is_none() -> None:
    tiny = ERROR.model_copy(update={"baseline": 5e-324})
    assert tiny.relative(1e100) is None
    assert not tiny.is_over(1e100, 0.1)
