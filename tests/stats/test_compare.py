"""`compare`: what may be compared, what the verdict is, and how the command says it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from bench.base.errors import UserError
from bench.formats.provenance import LimitsSet
from bench.formats.record import Record
from bench.stats.choice import Chosen, Filters, choose, with_history
from bench.stats.comparable import pair
from bench.stats.compare import Compared, Comparison, compare_records
from bench.stats.nights import tell_nights
from bench.stats.pairing import make_sample
from bench.stats.ratio_test import paired_ratios
from bench.stats.tests import Rules
from bench.stats.verdict import judge
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.helpers.command import mldb
from tests.helpers.records import GPT, LIMITS, MACHINE, START, make_check, make_record

FAIL = [make_check(value=0.0)]
COMMITS = {1: "1f0c2aa" + "0" * 33, 2: "9b41d7e" + "0" * 33, 3: "77aa01c" + "0" * 33}
Change = Callable[[Record], Record]


def night(version: int, successes: Sequence[int], trials: int = 3, day: int = 0, **changes: object) -> list[Record]:
    """One run: `successes` of `trials` on each case, by version `version` of the agent, all in one night."""
    run = f"night-{version}" if day == 0 else f"night-{version}-{day}"
    agent = str(changes.pop("agent", "react"))
    records = [
        make_record(
            agent=agent,
            case=f"case_{number:02}",
            trial=trial,
            checks=None if trial <= count else FAIL,
            agent_version=version,
            run=run,
            started=START + timedelta(days=day, hours=version),
            **changes,  # type: ignore[arg-type]
        )
        for number, count in enumerate(successes)
        for trial in range(1, trials + 1)
    ]
    return [
        record.model_copy(update={"agent": record.agent.model_copy(update={"commit": COMMITS[version]})})
        for record in records
    ]


def measure(answer: Comparison, name: str) -> Compared:
    return next(it for it in answer.measures if it.measure == name)


def changed(records: Sequence[Record], number: int, **update: object) -> list[Record]:
    """The records, those of one case with another value in some fields."""
    return [record.model_copy(update=update) if record.case.id == f"case_{number:02}" else record for record in records]


def test_a_fall_on_most_cases_is_a_regression_and_the_other_way_round_an_improvement() -> None:
    base, head = night(1, [3] * 20), night(2, [1] * 10 + [3] * 10)
    answer = compare_records(base, head)
    success = measure(answer, "success")
    assert (answer.verdict, success.verdict, answer.cases, success.trials) == ("regression", "regression", 20, 3)
    assert success.judgement is not None
    assert success.judgement.difference == pytest.approx(-1 / 3)
    assert success.judgement.p_worse == 2**-10, "ten cases fell, none rose"
    assert success.judgement.interval is not None
    assert success.judgement.interval.low < -1 / 3 < success.judgement.interval.high < 0
    back = compare_records(head, base)
    assert (back.verdict, measure(back, "score").verdict) == ("improvement", "improvement")


def test_a_fall_within_the_margin_is_no_regression_however_sure() -> None:
    base, head = night(1, [3] * 120), night(2, [2] * 8 + [3] * 112)
    success = measure(compare_records(base, head), "success").judgement
    assert success is not None
    assert success.p_worse < 0.005
    assert success.difference > -0.05
    assert success.verdict == "no change"
    assert compare_records(base, head, rules=Rules(margin=0.02)).verdict == "regression"


def test_few_trials_are_inconclusive_and_say_what_would_decide() -> None:
    base, head = night(1, [3, 2, 1, 3, 0, 2]), night(2, [2, 2, 2, 1, 0, 2])
    found = measure(compare_records(base, head), "success").judgement
    assert found is not None
    assert found.verdict == "inconclusive"
    assert found.needed is not None
    assert found.needed.cases is not None
    assert found.needed.cases > 6
    # Three times the cases with the same differences: the same variance, a third of that of the mean.
    more = measure(
        compare_records(night(1, [3, 2, 1, 3, 0, 2] * 3), night(2, [2, 2, 2, 1, 0, 2] * 3)), "success"
    ).judgement
    assert more is not None
    assert more.needed is not None
    assert more.needed.cases == pytest.approx(found.needed.cases, rel=0.35)


def test_identical_results_of_few_cases_show_no_difference_and_what_they_leave_open() -> None:
    few = compare_records(night(1, [3] * 7), night(2, [3] * 7))
    assert few.verdict == "no difference seen"
    success = measure(few, "success")
    assert success.this_suite is not None
    assert success.open_drop == pytest.approx(1 - 0.05 ** (1 / 7)), "a share of cases that seven may all have missed"
    assert measure(compare_records(night(1, [1] * 7, 9), night(2, [1] * 7, 9)), "success").open_drop == pytest.approx(
        1 / 9
    ), "no drop is deeper than what there is to lose"
    assert compare_records(night(1, [3] * 58), night(2, [3] * 58)).verdict == "no difference seen"
    assert compare_records(night(1, [3] * 59), night(2, [3] * 59)).verdict == "no change", "0.95^59 < 5%"


def test_equal_costs_have_a_ratio_and_no_interval() -> None:
    cost = measure(compare_records(night(1, [3] * 80), night(2, [3] * 80)), "cost")
    assert cost.judgement is not None
    assert (cost.factor, cost.judgement.interval) == (1.0, None), "nothing bounds what other cases would cost"
    assert cost.verdict == "no difference seen"


def test_costs_by_two_price_tables_are_said_to_be() -> None:
    base, head = night(1, [3] * 20, cost_status="exact"), night(2, [3] * 20, cost_status="exact", cost_usd=0.15)
    assert measure(compare_records(base, head), "cost").verdict == "regression"
    assert not [note for note in compare_records(base, head).notes if note.startswith("prices:")]
    dearer = [
        it.model_copy(update={"usage": [use.model_copy(update={"price_version": "litellm 2"}) for use in it.usage]})
        for it in head
    ]
    (note,) = [note for note in compare_records(base, dearer).notes if note.startswith("prices:")]
    assert note.startswith("prices: base by litellm 1.80.0, head by litellm 2;")


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_rounding_is_no_spread_between_cases(factor: float) -> None:
    """Three trials against five that all took the same, or three times as much: nothing was seen to differ."""
    costs = np.random.default_rng(2).lognormal(0, 1, 30)
    base = [np.full(3, cost) for cost in costs]
    it = make_sample([str(n) for n in range(30)], base, [np.full(5, factor * cost) for cost in costs], ratio=True)
    tails = paired_ratios(it.differences, it.base, it.head)
    found = judge(it.differences, 0.1, 0.05, lower_is_worse=False, tails=tails)
    assert found.interval is None, "nothing bounds what other cases would cost"
    assert found.verdict == ("no difference seen" if factor == 1 else "regression")
    if factor == 1:
        assert (found.difference, found.p_worse, found.p_better) == (0.0, 1.0, 1.0)


def test_a_cost_that_is_known_of_few_cases_is_not_compared() -> None:
    head = [
        record if record.case.id < "case_17" else record.model_copy(update={"cost_usd": None, "cost_status": "unknown"})
        for record in night(2, [3] * 20, cost_status="exact")
    ]
    cost = measure(compare_records(night(1, [3] * 20, cost_status="exact"), head), "cost")
    assert (cost.verdict, cost.reason) == ("not comparable", "known for 17 of 20 cases")


def test_ten_trials_against_one_of_hard_cases_are_no_regression() -> None:
    # 14 of 200 succeeded, so 20 of 20 fail with a chance of one in four.
    base, head = night(1, [1] * 14 + [0] * 6, trials=10), night(2, [0] * 20, trials=1)
    answer = compare_records(base, head)
    success = measure(answer, "success").judgement
    assert success is not None
    assert success.difference == pytest.approx(-0.07)
    assert success.p_worse == pytest.approx((200 / 220) ** 14, abs=0.02), "the chance that head has none of them"
    assert answer.verdict == "inconclusive"
    assert success.interval is not None
    assert success.interval.high >= 0, "what the test does not exclude is in the interval"
    assert compare_records(head, base).verdict == "inconclusive"


@pytest.mark.parametrize(("one", "other"), [(1, 5), (5, 1), (2, 10), (3, 3)])
def test_more_trials_on_one_side_are_no_other_cost(one: int, other: int) -> None:
    rng = np.random.default_rng(one)
    means = []
    for _ in range(40):
        base, head = (list(rng.lognormal(0, 0.7, (50, trials))) for trials in (one, other))
        it = make_sample([str(n) for n in range(50)], base, head, ratio=True)
        means.append(float(it.differences.mean()))
    error = float(np.std(means, ddof=1)) / len(means) ** 0.5
    # The logarithms of plain means differ by 0.18 where one trial meets five.
    assert abs(float(np.mean(means))) < 4 * error < 0.08


def test_a_ratio_is_that_of_the_means_of_as_many_trials_as_the_other_side_has() -> None:
    base, head = [np.array([1.0, 2.0, 4.0])] * 2, [np.array([1.0, 3.0])] * 2
    it = make_sample(["a", "b"], base, head, ratio=True)
    pairs = np.log([1.5, 2.5, 3.0]).mean()
    assert it.differences == pytest.approx([np.log(2.0) - pairs] * 2)
    assert it.base_means == pytest.approx([7 / 3] * 2)
    shuffled = make_sample(["a", "b"], [values[::-1] for values in base], head, ratio=True)
    assert list(shuffled.differences) == list(it.differences)
    free = make_sample(["a", "b"], [np.array([0.0, 2.0, 4.0]), base[1]], head, ratio=True)
    assert free.differences[0] == pytest.approx(np.log(2.0) - np.log([1.0, 2.0, 3.0]).mean()), "a pair has a logarithm"
    free = make_sample(["a", "b"], [np.array([0.0, 2.0, 4.0]), base[1]], [np.array([1.0]), head[1]], ratio=True)
    assert free.differences[0] == pytest.approx(-np.log([2.0, 4.0]).mean()), "a trial that cost nothing has none"


# --- nights ----------------------------------------------------------------------------------------------------------


def test_arms_of_one_night_are_free_of_it_and_arms_of_two_are_not() -> None:
    base, head = night(1, [3] * 20, trials=5), night(2, [2] * 20, trials=5)
    together = compare_records(base, head)
    assert together.verdict == "regression"
    assert measure(together, "success").night_sd == 0
    other_day = night(2, [2] * 20, trials=5, day=3)
    apart = compare_records(base, other_day)
    success = measure(apart, "success")
    # Nights differ by 0.6 on the logit: 0.6 times the mean of p (1 - p), 5 in 10, and for two nights.
    assert success.night_sd == pytest.approx(0.6 * 25 / 90 * 2**0.5)
    assert apart.verdict == "inconclusive"
    assert any(note.startswith("nights: none is shared: base 2026-") for note in apart.notes)


def test_cases_that_share_no_night_do_not_dilute_what_is_said_of_this_suite() -> None:
    base = [record for record in night(1, [5] * 20, trials=5) if record.case.id >= "case_10"]
    earlier = [record for record in night(1, [5] * 20, trials=5, day=3) if record.case.id < "case_10"]
    answer = compare_records([*base, *earlier], night(2, [4] * 20, trials=5))
    suite = measure(answer, "success").this_suite
    assert suite is not None
    assert suite.n == 10
    assert suite.difference == pytest.approx(-0.2), "those of the shared night fell by 20 points"
    assert suite.interval is not None
    assert suite.interval.low < -0.2 < suite.interval.high


def test_history_never_stands_alone_against_one_night() -> None:
    history = [record for day in range(1, 9) for record in night(1, [5] * 20, trials=5, day=day)]
    bad = night(2, [4] * 20, trials=5, day=10)
    alone = compare_records([*history[:100], *night(1, [3] * 20, trials=5, day=2), *history[200:]], bad)
    assert alone.verdict == "inconclusive", "one of the nights before was as bad"
    # Tonight's base arm fell as head did: it was the night.
    same = compare_records([*history, *night(1, [4] * 20, trials=5, day=10)], bad)
    assert same.verdict != "regression"
    assert any("history: base ran on 8 nights" in note for note in same.notes)


def test_history_sharpens_what_a_base_arm_says() -> None:
    rng = np.random.default_rng(5)
    head = [int(count) for count in rng.binomial(5, 0.5, 30)]
    arm = [int(count) for count in rng.binomial(5, 0.6, 30)]
    history = [
        record
        for day in range(1, 11)
        for record in night(1, [int(count) for count in rng.binomial(5, 0.6, 30)], trials=5, day=day)
    ]
    tonight = night(2, head, trials=5, day=11)
    plain = measure(compare_records(night(1, arm, 5, day=11), tonight), "success")
    sharper = measure(compare_records([*history, *night(1, arm, 5, day=11)], tonight), "success")
    assert sharper.base_trials == 55
    for it in (plain, sharper):
        assert it.judgement is not None
        assert it.judgement.interval is not None
    widths = [it.judgement.interval.high - it.judgement.interval.low for it in (plain, sharper)]  # type: ignore[union-attr]
    assert widths[1] < widths[0]


def test_stored_history_is_that_of_the_same_version_and_never_heads_own_run() -> None:
    stored = [*night(1, [3] * 4), *night(1, [2] * 4, day=1), *night(2, [1] * 4, day=1), *night(3, [1] * 4, day=2)]

    def chosen(run: str) -> Chosen:
        return choose(f"run:{run}", lambda *_: stored, Filters())

    def runs(base: str, head: str) -> set[str]:
        records = with_history(chosen(base), chosen(head), lambda *_: stored, Filters())
        return {record.provenance.run for record in records}

    assert runs("night-1-1", "night-2-1") == {"night-1", "night-1-1"}
    assert runs("night-1", "night-1-1") == {"night-1"}, "one version on both sides: head is not its own base"


def test_history_under_other_conditions_is_left_out_and_said() -> None:
    arm, head = night(1, [3] * 20, day=5), night(2, [3] * 20, day=5)
    other = MACHINE.model_copy(update={"fingerprint": "other"})
    history = [record.model_copy(update={"machine": other}) for record in night(1, [0] * 20, day=1)]
    judged_before = [
        record.model_copy(update={"provenance": record.provenance.model_copy(update={"judge": "0"})})
        for record in night(1, [0] * 20, day=2)
    ]
    answer = compare_records([*history, *judged_before, *arm], head)
    assert answer.verdict == "no difference seen"
    assert "history: 120 base cells left out, made under other conditions than head" in answer.notes
    assert measure(answer, "success").base_trials == 3


def test_a_night_is_told_by_its_starts_not_by_the_name_of_its_run() -> None:
    def at(*hours: float) -> list[Record]:
        return [make_record(run=f"run-{n}", started=START + timedelta(hours=hour)) for n, hour in enumerate(hours)]

    assert len(set(tell_nights(at(0, 5.9, 11.7)))) == 1
    day = f"{START:%Y-%m-%d}"
    assert tell_nights(at(0, 6.1)) == [day, f"{day} {START + timedelta(hours=6.1):%H:%M}"]
    assert len(set(tell_nights(at(*range(0, 48, 4))))) == 2, "a night that never ends is cut after a day"
    resumed = [record.model_copy(update={"provenance": at(0)[0].provenance}) for record in at(0, 30)]
    assert len(set(tell_nights(resumed))) == 2


# --- power and advice ------------------------------------------------------------------------------------------------


def test_the_power_of_few_cases_is_small_and_of_many_is_not() -> None:
    few = compare_records(night(1, [3] * 7), night(2, [3] * 7), drop=0.1)
    assert few.power is not None
    assert few.power < 0.3
    many = compare_records(night(1, [9, 8] * 40, trials=9), night(2, [9, 8] * 40, trials=9), drop=0.1)
    assert many.power is not None
    assert many.power > 0.9
    assert compare_records(night(1, [0] * 20), night(2, [0] * 20), drop=0.1).power == 0, "nothing to lose"


@pytest.mark.parametrize("cases", range(2, 8))
def test_advice_is_never_below_what_the_test_can_decide_by(cases: int) -> None:
    base, head = night(1, [3] * cases), night(2, [2] * (cases - 1) + [3])
    found = measure(compare_records(base, head), "success").judgement
    assert found is not None
    assert found.interval is not None
    assert found.interval.low >= -1
    assert found.interval.high <= 1
    if found.needed is not None:
        assert found.needed.cases is None or found.needed.cases >= max(5, cases + 1)
        assert found.needed.trials is None or (cases >= 5 and found.needed.trials > 3)


def test_the_needed_number_of_trials_does_decide() -> None:
    rng = np.random.default_rng(15)
    base, head = (list((rng.random((40, 3)) < chance).astype(float)) for chance in (0.6, 0.52))
    it = make_sample([str(n) for n in range(40)], base, head, ratio=False)
    found = judge(it.differences, 0.05, 0.05, lower_is_worse=True, noise=it.noise, trials=3)
    assert found.verdict == "inconclusive"
    assert found.difference == pytest.approx(-0.1, abs=0.01)
    assert found.needed is not None
    trials = found.needed.trials
    assert trials is not None
    decided = sum(
        judge(
            rng.binomial(trials, 0.6 + found.difference, 40) / trials - rng.binomial(trials, 0.6, 40) / trials,
            0.05,
            0.05,
            lower_is_worse=True,
        ).verdict
        == "regression"
        for _ in range(200)
    )
    assert decided > 130, "planned for 80%"


def test_what_breaks_few_cases_is_seen_on_these_cases_and_said() -> None:
    base, head = night(1, [5] * 20, trials=5), night(2, [0] * 3 + [5] * 17, trials=5)
    answer = compare_records(base, head)
    success = measure(answer, "success")
    assert answer.verdict == "inconclusive", "three signs: p = 1/8"
    assert success.this_suite is not None
    assert success.this_suite.p_worse < 1e-6
    assert success.this_suite.verdict == "regression"
    assert compare_records(base, head, test="within-cases").verdict == "regression"
    assert [(it.case, it.base, it.head) for it in answer.findings] == [
        (f"case_{number:02}", (5, 5), (0, 5)) for number in range(3)
    ]
    assert answer.findings[0].p == pytest.approx(1 / 252)
    assert answer.findings[0].p_holm == pytest.approx(20 / 252)


def test_several_gates_share_the_level() -> None:
    base = night(1, [3] * 20)
    dearer = night(2, [3] * 20, cost_usd=0.18, agent_seconds=90.0)
    answer = compare_records(base, dearer, gates=("success", "cost"))
    assert answer.alpha == 0.025
    cost = measure(answer, "cost")
    assert (cost.verdict, answer.verdict) == ("regression", "regression")
    assert cost.factor == pytest.approx(1.5)
    assert measure(answer, "time").factor == pytest.approx(1.0)
    assert compare_records(base, dearer).verdict != "regression", "cost is shown, and does not decide unless asked"
    cheaper = compare_records(dearer, base, gates=("cost",))
    assert cheaper.verdict == "improvement"


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ({"profile": "full"}, "profile: base mini, head full"),
        ({"models": {"main": GPT}}, f"model: base anthropic/claude-sonnet-4-5, head {GPT}"),
        ({"machine": MACHINE.model_copy(update={"fingerprint": "other"})}, "machine class: base linux-x86_64-2c-8g"),
    ],
)
def test_unlike_sets_are_not_comparable(update: dict[str, object], reason: str) -> None:
    base = night(1, [3] * 20)
    head = [record.model_copy(update=update) for record in night(2, [0] * 20)]
    answer = compare_records(base, head)
    assert (answer.verdict, answer.measures) == ("not comparable", [])
    assert any(it.startswith(reason) for it in answer.reasons), answer.reasons


def test_another_suite_version_is_not_comparable() -> None:
    head = night(2, [0] * 20)
    head = [
        record.model_copy(update={"provenance": record.provenance.model_copy(update={"suite_version": "2"})})
        for record in head
    ]
    assert compare_records(night(1, [3] * 20), head).reasons == ["suite: base mini 1, head mini 2"]
    mixed = compare_records(night(1, [3] * 20), [*head, *night(1, [3] * 20)])
    assert mixed.reasons == ["suite: base mini 1, head mini 1, mini 2"]


def test_cases_must_be_the_same_in_the_same_version() -> None:
    base, head = night(1, [3] * 20), night(2, [0] * 20)
    digest = make_record(case="case_07", case_version=2).case
    answer = compare_records(base, changed(head, 7, case=digest))
    assert answer.verdict == "not comparable"
    assert answer.reasons == ["case digests: case_07 changed between the sets or within one"]
    fewer = [record for record in head if record.case.id < "case_18"]
    answer = compare_records(base, fewer)
    assert answer.reasons == ["cases: head has no case_18, case_19"]
    allowed = compare_records(base, fewer, allow=["coverage"])
    assert (allowed.verdict, allowed.cases) == ("regression", 18)
    assert "cases: head has no case_18, case_19" in allowed.notes


def test_another_judge_is_not_comparable() -> None:
    head = night(2, [0] * 20)
    said = head[0].provenance.model_copy(update={"judge": "2"})
    answer = compare_records(night(1, [3] * 20), changed(head, 7, provenance=said))
    assert answer.verdict == "not comparable"
    assert answer.reasons == ["judge: case_07 judged by several versions of the judge"]


def test_other_limits_are_not_comparable() -> None:
    shorter: LimitsSet = LIMITS.model_copy(update={"steps": 10})
    head = changed(night(2, [0] * 20), 3, limits=shorter)
    assert compare_records(night(1, [3] * 20), head).reasons == ["limits: not the same for case_03"]
    assert compare_records(night(1, [3] * 20), head, allow=["limits"]).verdict == "regression"


def test_times_need_one_machine_class_even_where_success_does_not() -> None:
    other = MACHINE.model_copy(update={"fingerprint": "gpu-box"})
    head = [record.model_copy(update={"machine": other}) for record in night(2, [0] * 20)]
    answer = compare_records(night(1, [3] * 20), head, allow=["machine"])
    assert answer.verdict == "regression"
    assert measure(answer, "time").verdict == "not comparable"
    assert "machine" in measure(answer, "time").reason


def test_paid_and_replayed_money_are_not_compared() -> None:
    answer = compare_records(night(1, [3] * 20), night(2, [3] * 20, cost_status="exact"), gates=("cost",))
    assert (answer.verdict, measure(answer, "cost").reason) == ("not comparable", "base is replayed, head is paid")
    unknown = compare_records(night(1, [3] * 20, cost_status="exact"), night(2, [3] * 20, cost_status="unknown"))
    assert measure(unknown, "cost").reason == "base is paid, head is unknown"


def test_infrastructure_is_never_a_failure_and_takes_nothing_with_it() -> None:
    base, head = night(1, [3] * 20), night(2, [3] * 20)
    lost = make_record(case="case_04", trial=2, outcome="infra", agent_version=2, run="night-2")
    head = [lost if (r.case.id, r.trial) == ("case_04", 2) else r for r in head]
    found = pair(base, head)
    assert found.reasons == []
    case = next(it for it in found.pairs if it.case == "case_04")
    assert (len(case.base), len(case.head)) == (3, 2)
    assert "head: 60 cells, 1 without a verdict (never scored)" in found.notes
    success = measure(compare_records(base, head), "success")
    assert success.base == success.head == 1.0


def test_too_much_lost_to_infrastructure_is_not_comparable() -> None:
    def lose(records: Sequence[Record], cases: int) -> list[Record]:
        return [
            make_record(case=r.case.id, trial=r.trial, outcome="infra", agent_version=2, run="night-2")
            if r.case.id < f"case_{cases:02}"
            else r
            for r in records
        ]

    base, head = night(1, [3] * 20), night(2, [3] * 20)
    few = compare_records(base, lose(head, 2))
    assert (few.reasons, few.cases) == ([], 18)
    assert "case_00, case_01: no verdict on one of the sides" in few.notes
    many = compare_records(base, lose(head, 3))
    assert many.verdict == "not comparable"
    assert many.reasons == ["case_00, case_01, case_02: no verdict on one of the sides; too many of 20 cases"]


def test_every_trial_of_both_sides_counts() -> None:
    base, head = night(1, [9] * 6, trials=12), night(2, [2] * 6, trials=3)
    found = pair(base, head)
    assert {(len(it.base), len(it.head)) for it in found.pairs} == {(12, 3)}
    success = measure(compare_records(base, head), "success")
    assert success.base == pytest.approx(0.75)
    assert success.head == pytest.approx(2 / 3)
    assert (success.base_trials, success.head_trials) == (12, 3)


# --- what BASE and HEAD name -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("results") / "results.git"
    branch = ResultsBranch(repository)
    branch.ensure()
    references = [make_record(agent="oracle", model=None, ranked=False, case=f"case_{n:02}") for n in range(20)]
    for version, successes in ((1, [3] * 20), (2, [1] * 10 + [3] * 10)):
        records = night(version, successes)
        if version == 1:
            records += [record.model_copy(update={"provenance": records[0].provenance}) for record in references]
        branch.commit(Bundle(f"night-{version}", 1, records, START + timedelta(days=version)))
    return repository


def test_runs_agents_and_commits_name_records(results: Path) -> None:
    stored = list(ResultsBranch(results).records())
    for name, run in (
        ("night-1", "night-1"),
        ("run:night-2", "night-2"),
        ("react", "night-2"),
        ("agent:react", "night-2"),
        ("react@1f0c2aa", "night-1"),
        ("react@" + COMMITS[2], "night-2"),
        ("react@" + stored[-1].agent.digest[:20], stored[-1].provenance.run),
    ):
        chosen = choose(name, lambda *_: stored, Filters())
        assert ({r.provenance.run for r in chosen.records}, len(chosen.records)) == ({run}, 60), name
    other = [*stored, *night(2, [3], model=GPT)]
    assert len(choose("react", lambda *_: other, Filters(model=GPT)).records) == 3
    older = [*stored, *night(1, [3], model=GPT)]
    assert len(choose("react", lambda *_: older, Filters(model=GPT)).records) == 3, "the newest version with this model"
    assert choose("night-1", lambda *_: stored, Filters(agent="oracle")).entrant.agent == "oracle"


@pytest.mark.parametrize(
    ("name", "filters", "fault"),
    [
        ("nobody", Filters(), "neither a run folder"),
        ("react@zzz", Filters(), "is not a commit or digest"),
        ("react@1234567", Filters(), "no such version is stored"),
        ("night-1", Filters(agent="nobody"), "does not hold a record of agent nobody"),
        ("night-1", Filters(model="x"), "does not hold a record of model x"),
        (".", Filters(), "holds no run.json"),
    ],
)
def test_a_wrong_name_says_what_is_wrong(results: Path, name: str, filters: Filters, fault: str) -> None:
    stored = list(ResultsBranch(results).records())
    with pytest.raises(UserError, match=fault):
        choose(name, lambda *_: stored, filters)


def test_a_set_of_several_agents_asks_which(results: Path) -> None:
    stored = [*ResultsBranch(results).records(), *night(2, [3] * 20, agent="aide")]
    with pytest.raises(UserError, match=r"2 entrants: aide with .*, mini; react with .*--agent"):
        choose("night-2", lambda *_: stored, Filters())


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_answers_in_words_and_by_its_exit_status(results: Path) -> None:
    worse = mldb("compare", "react@1f0c2aa", "react", "--results", results)
    assert worse.returncode == 1, worse.stderr
    assert worse.stdout.startswith("REGRESSION (by success; cases like these)")
    assert "1.000 -> 0.667" in worse.stdout
    assert "p(worse) = 0.0010" in worse.stdout
    assert "n = 20 cases x 3 trials" in worse.stdout
    assert "cases like these: regression, -33.3 [" in worse.stdout
    assert "this suite: regression, -33.3 [" in worse.stdout
    better = mldb("compare", "night-2", "night-1", "--results", results)
    assert better.returncode == 0
    assert better.stdout.startswith("IMPROVEMENT")


def test_a_set_against_itself_shows_no_difference_and_a_gate_may_ask_for_power(results: Path) -> None:
    same = mldb("compare", "night-1", "night-1", "--results", results)
    assert same.returncode == 0, same.stderr
    assert same.stdout.startswith("NO DIFFERENCE SEEN")
    assert "cannot exclude a drop of up to 13.9 points (95%)" in same.stdout
    assert "60 cells are in both sets" in same.stdout
    blind = mldb("compare", "night-1", "night-1", "--results", results, "--require-power", "10")
    assert blind.returncode == 5
    assert "power: a drop of 10 points is called a regression with" in blind.stdout
    seen = mldb("compare", "night-1", "night-1", "--results", results, "--require-power", "60")
    assert seen.returncode == 0


def test_the_command_prints_json_and_reads_files_of_records(results: Path, tmp_path: Path) -> None:
    for version, successes in ((1, [3] * 7), (2, [3] * 6 + [2])):
        lines = [record.to_line() for record in night(version, successes)]
        (tmp_path / f"{version}.jsonl").write_text("\n".join(lines))
    done = mldb("compare", tmp_path / "1.jsonl", tmp_path / "2.jsonl", "--json")
    assert done.returncode == 3, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["verdict"], answer["cases"], answer["schema"]) == ("inconclusive", 7, 1)
    success = answer["measures"][0]
    assert success["judgement"]["needed"].keys() == {"trials", "cases"}
    assert answer["measures"][2]["factor"] == pytest.approx(1.0)


def test_not_comparable_has_an_exit_status_and_a_reason(results: Path, tmp_path: Path) -> None:
    lines = [record.to_line() for record in night(2, [3] * 19)]
    (tmp_path / "head.jsonl").write_text("\n".join(lines))
    done = mldb("compare", "night-1", tmp_path / "head.jsonl", "--results", results)
    assert done.returncode == 4
    assert "not comparable: cases: head has no case_19" in done.stdout


def test_a_users_mistake_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"schema": 1}\n')
    for arguments, word in (
        (("night-1", "night-2"), "--results"),
        ((tmp_path / "bad.jsonl", tmp_path / "bad.jsonl"), "bad.jsonl:1"),
        (("a", "b", "--alpha", "0.7"), "--alpha"),
    ):
        done: subprocess.CompletedProcess[str] = mldb("compare", *arguments)
        assert done.returncode == 2
        assert word in done.stderr
        assert "Traceback" not in done.stderr
