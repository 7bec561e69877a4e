"""Statistics of the board, against published tables and hand-made records."""

from __future__ import annotations

import itertools
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats.record import Outcome, Profile, Record, Try
from bench.stats import RankedStanding, RecordResults, Standing, model_label, rank, standings
from bench.stats.entrants import unique_cells
from bench.stats.intervals import clustered, wilson
from bench.stats.ranking import pass_at, pass_hat
from bench.stats.tally import tally_of
from tests.helpers.records import GPT, SONNET, START, make_check, make_night, make_record, without_isolation

FAIL = [make_check(value=0.0)]
HALF = [make_check("a"), make_check("b", 0.0, required=False)]
SUITE: dict[Profile, set[str]] = {"mini": {"one", "two", "three"}, "full": {"one"}}


def only(table: list[Standing]) -> Standing:
    assert len(table) == 1
    return table[0]


@pytest.mark.parametrize(
    ("mean", "n", "low", "high"),
    # 0 and 10 of 10, 5 of 10, and 81 of 263 (the example of Newcombe, Statistics in Medicine 17, 1998).
    [(0.0, 10, 0.0, 0.2775), (1.0, 10, 0.7225, 1.0), (0.5, 10, 0.2366, 0.7634), (81 / 263, 263, 0.2553, 0.3662)],
)
def test_wilson_agrees_with_published_values(mean: float, n: int, low: float, high: float) -> None:
    interval = wilson(mean, n)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-4)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_intervals_hold_their_mean_and_stay_in_range(values: list[float]) -> None:
    mean = sum(values) / len(values)
    for interval in (wilson(min(1.0, mean), len(values)), clustered(values)):
        assert interval is not None
        assert 0 <= interval.low <= mean + 1e-9
        assert mean - 1e-9 <= interval.high <= 1


def test_the_clustered_interval_solves_its_equation() -> None:
    # With the imagined 0 and 1: s^2 = 0.13 and mean 0.5, so phi = 0.52; t with 2 degrees of freedom is 4.3027
    # (NIST/SEMATECH, 1.3.6.7.2).
    found = clustered([0.4, 0.5, 0.6])
    assert found is not None
    for end in (found.low, found.high):
        assert abs(0.5 - end) == pytest.approx(4.302653 * (0.52 * end * (1 - end) / 3) ** 0.5, rel=1e-6)
    assert found.low == pytest.approx(1 - found.high)


def test_the_clustered_interval_knows_its_limits() -> None:
    assert clustered([0.4]) is None, "one case tells nothing of others"
    equal, sure = clustered([0.5] * 10), clustered([1.0] * 10)
    assert equal is not None
    assert sure is not None
    assert equal.high - equal.low > 0.25, "that no two cases differ so far is no certainty"
    assert sure.high == 1.0
    assert sure.low == pytest.approx(0.66, abs=0.01)
    alike, apart = clustered([0.5, 0.6, 0.4] * 5), clustered([0.0, 1.0, 0.5] * 5)
    assert alike is not None
    assert apart is not None
    assert alike.high - alike.low < apart.high - apart.low


def test_a_score_that_is_hardly_another_gives_hardly_another_interval() -> None:
    perfect, nearly = clustered([1.0] * 5), clustered([1.0] * 4 + [0.99])
    assert perfect is not None
    assert nearly is not None
    assert nearly.low == pytest.approx(perfect.low, abs=0.01)
    assert nearly.low <= perfect.low
    assert nearly.high <= perfect.high
    for score in (0.9, 0.5, 0.0):
        less = clustered([1.0] * 4 + [score])
        assert less is not None
        assert less.low <= perfect.low, "a lower score never raises the interval"


def test_few_scores_near_one_with_a_rare_zero_are_covered() -> None:
    rng, held = np.random.default_rng(3), 0
    for _ in range(1000):
        scores = np.where(rng.random(5) < 0.1, 0.0, rng.uniform(0.95, 1, 5))
        found = clustered(list(map(float, scores)))
        assert found is not None
        held += found.low <= 0.9 * 0.975 <= found.high
    assert held >= 960


@pytest.mark.parametrize(("cases", "a", "b"), [(20, 0.5, 20.0), (10, 0.1, 10.0), (20, 20.0, 0.5), (50, 0.1, 10.0)])
def test_rare_successes_are_covered(cases: int, a: float, b: float) -> None:
    """One success in forty to a hundred trials, one trial a case: the score interval alone covers 90 to 93%."""
    rng, held, times = np.random.default_rng(1), 0, 1500
    for _ in range(times):
        found = clustered((rng.random(cases) < rng.beta(a, b, cases)).astype(float).tolist())
        assert found is not None
        held += found.low <= a / (a + b) <= found.high
    assert held / times > 0.935, "95% less 2.5 standard errors"


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=30), st.data())
def test_one_more_success_never_lowers_the_interval(cases: list[bool], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(cases) - 1))
    before, after = clustered([*map(float, cases)]), clustered([*map(float, [*cases[:at], True, *cases[at + 1 :]])])
    assert before is not None
    assert after is not None
    assert before.low <= after.low + 1e-12
    assert before.high <= after.high + 1e-12


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 8))
def test_pass_rates_are_means_over_all_subsets(trials: list[bool], k: int) -> None:
    subsets = list(itertools.combinations(trials, k))
    at, hat = pass_at(len(trials), sum(trials), k), pass_hat(len(trials), sum(trials), k)
    if k > len(trials):
        assert (at, hat) == (None, None)
    else:
        assert at == pytest.approx(sum(any(subset) for subset in subsets) / len(subsets))
        assert hat == pytest.approx(sum(all(subset) for subset in subsets) / len(subsets))


def test_pass_rates_refuse_nonsense() -> None:
    for n, succeeded, k in ((3, 4, 1), (3, -1, 1), (3, 1, 0)):
        with pytest.raises(ValueError, match="trials"):
            pass_at(n, succeeded, k)


def test_pass_rates_of_an_agent_are_over_the_cases_with_enough_trials() -> None:
    records = [make_record(case="one", trial=trial, checks=None if trial < 3 else FAIL) for trial in (1, 2, 3)]
    records += [make_record(case="two", trial=trial) for trial in (1, 2)]
    records += [make_record(case="three"), make_record(case="three", trial=2, outcome="infra")]
    standing = only(standings(records, SUITE))
    two, three = standing.passes
    assert (two.k, two.at.n, two.hat.n) == (2, 2, 2)
    assert two.at.mean == pytest.approx((1 + 1) / 2)
    assert two.hat.mean == pytest.approx((1 / 3 + 1) / 2)
    assert (three.k, three.at.n, three.at.mean, three.hat.mean) == (3, 1, 1.0, 0.0)
    assert standing.cases["one"].interval == wilson(2 / 3, 3)
    assert standing.cases["three"].interval == wilson(1.0, 1), "a lost trial is no trial"


def test_success_is_the_mean_over_cases_of_the_rate_of_each_case() -> None:
    table = standings(
        [
            make_record(case="one", trial=1),
            make_record(case="one", trial=2, checks=FAIL),
            make_record(case="one", trial=3, checks=FAIL),
            make_record(case="one", trial=4, checks=FAIL),
            make_record(case="two", checks=HALF),
        ],
        SUITE,
    )
    standing = only(table)
    assert standing.success is not None
    assert standing.score is not None
    assert standing.success.mean == pytest.approx((0.25 + 1) / 2)
    assert standing.success.interval == clustered([0.25, 1.0])
    assert standing.score.mean == pytest.approx((0.25 + 0.5) / 2)
    assert (standing.success.n, standing.covered, standing.suite_size, standing.complete) == (2, 2, 3, False)
    assert standing.cases["one"].success == 0.25


def test_infrastructure_is_counted_and_never_scored() -> None:
    standing = only(
        standings(
            [
                make_record(case="one"),
                make_record(case="two", outcome="infra"),
                make_record(case="three", outcome="interrupted"),
            ],
            SUITE,
        )
    )
    assert standing.success is not None
    assert (standing.success.mean, standing.covered, standing.graded, standing.lost) == (1.0, 1, 1, 2)
    rate = standing.lost_rate
    assert (standing.cells, rate is not None and round(rate.mean, 3), rate and rate.n) == (3, 0.667, 3)
    again = Try(outcome="infra", cause="judge_timeout", message="", at="2026-11-20T02:00:00Z")
    assert only(standings([make_record(case="one", tries=[again])], SUITE)).retried == 1
    lost_only = only(standings([make_record(case="one", outcome="infra")], SUITE))
    assert (lost_only.success, lost_only.score, lost_only.lost) == (None, None, 1)
    assert rank([lost_only]) == [RankedStanding(lost_only, None)]


def test_profiles_and_models_are_never_mixed() -> None:
    table = standings(
        [
            make_record(case="one"),
            make_record(case="one", profile="full", checks=FAIL),
            make_record(case="one", model=GPT),
        ],
        SUITE,
    )
    assert [(row.entrant.profile, row.entrant.model, row.graded) for row in table] == [
        ("full", SONNET, 1),
        ("mini", SONNET, 1),
        ("mini", GPT, 1),
    ]


def test_only_the_newest_version_of_a_case_counts_for_everybody() -> None:
    later = START + timedelta(days=1)
    table = standings(
        [
            make_record(case="one", case_version=1),
            make_record(case="two"),
            make_record(agent="other", case="one", case_version=2, checks=FAIL, started=later),
            make_record(case="one", case_version=3, outcome="infra", started=later + timedelta(days=1)),
        ],
        SUITE,
    )
    react = next(row for row in table if row.entrant.agent == "react")
    assert set(react.cases) == {"two"}
    assert react.lost == 0
    assert next(row for row in table if row.entrant.agent == "other").covered == 1


def test_one_added_result_of_a_changed_case_takes_no_others_off_the_board() -> None:
    """Of two versions that are not known, the one that more agents met counts; of known ones the installed."""
    later = START + timedelta(days=1)
    own = [make_record(case="one"), make_record(agent="other", case="one")]
    changed = make_record(agent="lazy", case="one", case_version=2, started=later)
    assert {row.entrant.agent for row in standings([*own, changed], SUITE)} == {"react", "other"}
    for installed, left in ((own[0].case.digest, {"react"}), (changed.case.digest, {"lazy"}), ("", {"lazy"})):
        table = RecordResults([own[0], changed], SUITE, {"one": installed}.__getitem__).standings()
        assert {row.entrant.agent for row in table} == left


def test_results_that_are_not_ranked_take_neither_rank_nor_mean_of_those_that_are() -> None:
    fair = [make_record(case=case) for case in ("one", "two")]
    stranger = [make_record(case="one", checks=FAIL, ranked=False, run="s", started=START + timedelta(days=1))]
    competing, reference = (it.standing for it in rank(standings([*fair, *stranger], SUITE)))
    assert (competing.ranked, competing.graded, competing.success and competing.success.mean) == (True, 2, 1.0)
    assert (reference.ranked, reference.graded, reference.entrant) == (False, 1, competing.entrant)


def test_what_ran_without_isolation_is_not_ranked() -> None:
    """An agent that lays solutions from the runner's disk over its workspace was the leader."""
    fair = make_record(case="one", profile="full", checks=FAIL)
    free = without_isolation(make_record(agent="reader", case="one", profile="full"))
    leader, other = rank(standings([fair, free], SUITE))
    assert (leader.standing.entrant.agent, leader.rank) == ("react", 1)
    assert (other.standing.entrant.agent, other.rank, other.standing.ranked) == ("reader", None, False)


def _round(run: str, day: int, trials: int = 1, **passed: bool) -> list[Record]:
    return [
        make_record(case=case, run=run, trial=trial, checks=None if good else FAIL, started=START + timedelta(days=day))
        for case, good in passed.items()
        for trial in range(1, trials + 1)
    ]


def test_trials_of_what_failed_alone_raise_no_mean() -> None:
    suite: dict[Profile, list[str]] = {"mini": ["one", "two"], "full": []}
    whole = _round("first", 0, one=True, two=False)
    again = _round("again", 1, trials=4, two=True)
    row = only(standings([*whole, *again], suite))
    assert (row.success and row.success.mean, row.graded, row.repeats) == (0.5, 2, 4)
    # Under the name of the first run it is the same.
    more = [it for it in _round("first", 1, trials=4, two=True) if it.trial > 1]
    assert only(standings([*whole, *more], suite)).repeats == 3
    # What is planned over all cases counts, whatever was seen before it; so do first trials of a case.
    row = only(standings([*whole, *_round("night", 1, trials=3, one=True, two=True)], suite))
    assert (row.graded, row.repeats) == (8, 0)
    row = only(standings([*_round("first", 0, one=True), *_round("second", 1, trials=3, two=True)], suite))
    assert (row.graded, row.repeats) == (4, 0)


def _without_verdict(run: str, day: int, outcome: Outcome, *cases: str) -> list[Record]:
    started = START + timedelta(days=day)
    return [make_record(case=case, run=run, outcome=outcome, cause="x", started=started) for case in cases]


@pytest.mark.parametrize(("outcome", "left_out"), [("skipped", 1), ("interrupted", 1), ("infra", 0)])
def test_what_was_skipped_or_stopped_makes_no_round_whole(outcome: Outcome, left_out: int) -> None:
    """A machine that lacks what the good cases need, or Ctrl-C in time, would choose what is tried again."""
    suite: dict[Profile, list[str]] = {"mini": ["one", "two"], "full": []}
    again = [*_without_verdict("again", 1, outcome, "one"), *_round("again", 1, two=True)]
    row = only(standings([*_round("first", 0, one=True, two=False), *again], suite))
    # The trial without a verdict repeats a case, too; it is in no mean.
    assert row.repeats == 2 * left_out
    assert row.success is not None and row.success.mean == (0.5 if left_out else 0.75)
    # A few that were stopped, as when a machine is taken away, do not cost the rest of a night its place.
    suite["mini"] = cases = [f"case_{number}" for number in range(20)]
    night = [*_without_verdict("night", 1, outcome, *cases[:2]), *_round("night", 1, **dict.fromkeys(cases[2:], True))]
    row = only(standings([*_round("first", 0, **dict.fromkeys(cases, False)), *night], suite))
    assert row.repeats == (20 if outcome == "skipped" else 0)


def test_a_round_that_began_early_is_not_filled_by_choice() -> None:
    suite: dict[Profile, list[str]] = {"mini": ["one", "two", "three"], "full": []}
    whole = _round("first", 1, one=True, two=False, three=False)
    early = [*_round("again", 0, three=False), *_round("again", 2, two=True)]
    row = only(standings([*whole, *early], suite))
    assert (row.graded, row.repeats) == (4, 1), "what came before any verdict counts, what came after does not"
    # A round whose last cells came on another day is a round.
    late = [*_round("again", 0, one=True, three=False), *_round("again", 2, two=True)]
    assert only(standings([*whole, *late], suite)).repeats == 0


def test_only_verdicts_of_the_newest_judge_count() -> None:
    newer = make_record(case="one", agent="other", started=START + timedelta(days=1))
    newer = newer.model_copy(update={"provenance": newer.provenance.model_copy(update={"judge": "2"})})
    (row,) = standings([make_record(case="one"), newer], SUITE)
    assert row.entrant.agent == "other"


def test_cases_outside_the_suite_do_not_count() -> None:
    assert standings([make_record(case="retired")], SUITE) == []


def test_a_second_attempt_fills_a_loss_and_never_replaces_a_verdict() -> None:
    later = START + timedelta(hours=3)
    lost, good = make_record(outcome="infra"), make_record(started=later)
    assert unique_cells([lost, good]) == unique_cells([good, lost]) == [good]
    first, second = make_record(checks=FAIL), make_record(started=later)
    assert unique_cells([first, second]) == unique_cells([second, first]) == [first]
    again = make_record(outcome="infra", started=later)
    assert unique_cells([lost, again]) == unique_cells([again, lost]) == [again]
    assert len(unique_cells([first, make_record(run="night-2")])) == 2


@pytest.mark.parametrize(
    ("cells", "mean", "replayed", "unknown", "estimated"),
    [
        ([("exact", 0.2), ("estimated", 0.4)], 0.3, None, 0, True),
        ([("exact", 0.2), ("unknown", None)], 0.2, None, 1, False),
        ([("exact", 0.2), ("simulated", 9.0)], 0.2, 9.0, 0, False),
        ([("simulated", 0.4), ("none", 0.0)], None, 0.2, 0, False),
        ([("none", 0.0)], 0.0, None, 0, False),
        ([("unknown", None)], None, None, 1, False),
        ([], None, None, 0, False),
    ],
)
def test_costs(
    cells: list[tuple[str, float | None]], mean: float | None, replayed: float | None, unknown: int, estimated: bool
) -> None:
    records = [make_record().model_copy(update={"cost_status": status, "cost_usd": cost}) for status, cost in cells]
    cost = tally_of(records).cost
    assert cost.mean_usd == pytest.approx(mean)
    assert cost.replayed_usd == pytest.approx(replayed)
    assert (cost.unknown, cost.estimated) == (unknown, estimated)


def test_effort_leaves_the_unknown_out() -> None:
    known, unknown = make_record(steps=4, agent_seconds=10), make_record(steps=8, agent_seconds=30)
    tokens = unknown.usage[0].tokens.model_copy(update={"output": None})
    unknown = unknown.model_copy(update={"usage": [unknown.usage[0].model_copy(update={"tokens": tokens})]})
    effort = tally_of([known, unknown]).effort
    assert (effort.steps, effort.seconds, effort.total_steps, effort.total_seconds) == (6, 20, 12, 40)
    assert (effort.output_tokens, effort.input_tokens) == (4 * 350, 6 * 4900)
    assert tally_of([]).effort.steps is None


def _row(agent: str, *passed: bool, ranked: bool = True) -> list[Record]:
    return [
        make_record(agent=agent, case=case, ranked=ranked, checks=None if good else FAIL)
        for case, good in zip(("one", "two", "three"), passed, strict=False)
    ]


def test_ranks_are_for_competitors_that_met_every_case() -> None:
    records = [
        *_row("best", True, True, True),
        *_row("twin", True, True, True),
        *_row("poor", False, False, True),
        *_row("partial", True, True),
        *_row("oracle", True, True, True, ranked=False),
    ]
    places = rank(standings(records, SUITE))
    assert [(place.standing.entrant.agent, place.rank) for place in places] == [
        ("best", 1),
        ("twin", 1),
        ("poor", 3),
        ("partial", None),
        ("oracle", None),
    ]
    assert [(place.best, place.worst) for place in places[:3]] == [(1, 3)] * 3, "three cases cannot tell them apart"


def test_rank_bands_part_where_the_intervals_do() -> None:
    cases = [f"case{n}" for n in range(20)]
    records = [
        make_record(agent=agent, case=case, checks=None if agent != "poor" else FAIL)
        for agent in ("good", "fine", "poor")
        for case in cases
    ]
    places = rank(standings(records, {"mini": cases}))
    assert [(place.standing.entrant.agent, place.best, place.worst) for place in places] == [
        ("fine", 1, 2),
        ("good", 1, 2),
        ("poor", 3, 3),
    ]


def test_labels_of_models() -> None:
    assert model_label({}) == ""
    assert model_label({"main": SONNET}) == SONNET
    assert model_label({"main": SONNET, "editor": GPT}) == f"editor={GPT}, main={SONNET}"


def test_the_order_of_the_records_does_not_matter() -> None:
    records = make_night()
    suite: dict[Profile, set[str]] = {"mini": {record.case.id for record in records}}
    assert rank(standings(records, suite)) == rank(standings(records[::-1], suite))
