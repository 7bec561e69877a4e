"""Steps in nightly series, what counts as a drop, and the issues about it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.cli.trend_text import Trend, as_text, notices
from bench.cli.trends import find_trends
from bench.formats.record import Record
from bench.github.issues import LABEL, Notice, keep_issues
from bench.stats.intervals import Floats
from bench.stats.night_points import NightPoints
from bench.stats.pairing import MEASURES
from bench.stats.step_causes import series_levels
from bench.stats.steps import Step, watch
from bench.stats.trends import Drop, adjusted, case_nights, find_levels, nightly, standing_drop
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.benchmarks.difficulty import MIXTURES
from tests.benchmarks.trend_alarms import Setting, standing
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.helpers.records import GPT, SONNET, START, instant, make_check, make_record

FAIL = [make_check(value=0.0)]
REPOSITORY = "owner/agents"
SERIES = f"{SONNET} mini"


def points(records: Sequence[Record], runs: str = "*") -> NightPoints:
    return case_nights(records, MEASURES["success"], runs)


def nights(rates: Sequence[float], *, cases: int = 20, agent: str = "react", model: str = SONNET) -> list[Record]:
    """A run a night: of all cells the given share succeeds; which ones changes from night to night."""
    records = []
    for number, rate in enumerate(rates):
        rng = np.random.default_rng(number)
        for case in range(cases):
            good = rng.random() < rate if 0 < rate < 1 else bool(rate)
            records.append(
                make_record(
                    agent=agent,
                    model=model,
                    case=f"case_{case:02}",
                    checks=None if good else FAIL,
                    run=f"nightly-{number:03}",
                    started=START + timedelta(days=number),
                )
            )
    return records


def noisy(*parts: tuple[float, int], seed: int = 1, cases: int = 50, night_sd: float = 0.0) -> Floats:
    """(nights, cases): the success of one trial each, at these chances for so many nights each."""
    rng = np.random.default_rng(seed)
    rates = np.concatenate([np.full(n, mean) for mean, n in parts])
    rates = np.clip(rates + rng.normal(0, night_sd, len(rates)), 0, 1)
    return (rng.random((len(rates), cases)) < rates[:, None]).astype(np.float64)


def steps_of(table: Floats) -> tuple[Step, ...]:
    return [*watch(table, adjusted(table), np.full(len(table), float(table.shape[1])))][-1]


def drop_in(table: Floats) -> Drop | None:
    return standing_drop(find_levels(adjusted(table), steps_of(table)))


# --- steps ------------------------------------------------------------------------------------------------------------


def test_a_step_is_found_where_it_is() -> None:
    table = noisy((0.8, 25), (0.5, 10))
    (step,) = steps_of(table)
    assert step.at == 25
    assert step.p < 0.0003
    before, after = find_levels(table.mean(axis=1), [step])
    assert (before.mean, after.mean) == pytest.approx((0.8, 0.5), abs=0.04)


def test_several_steps_are_found_one_within_another() -> None:
    assert [step.at for step in steps_of(noisy((0.8, 20), (0.4, 15), (0.82, 20)))] == [20, 35]


@pytest.mark.parametrize("trials", [1, 5])
def test_ten_points_are_seen_within_five_nights_of_a_short_history(trials: int) -> None:
    seen = 0
    for seed in range(100):
        table = noisy((0.8, 10), (0.7, 5), seed=seed, cases=50 * trials).reshape(15, 50, trials).mean(axis=2)
        cells = np.full(15, 50.0 * trials)
        states = [*watch(table, table.mean(axis=1), cells)]
        seen += any(standing_drop(find_levels(table[:n].mean(axis=1), states[n - 1])) for n in range(11, 16))
    assert seen >= 90


def test_one_bad_night_is_no_step_and_a_second_one_confirms_it() -> None:
    history = noisy((0.8, 40))
    once = np.concatenate([history, noisy((0.1, 1), seed=2)])
    assert drop_in(once) is None
    assert drop_in(np.concatenate([once, noisy((0.8, 1), seed=3)])) is None, "nor on the nights after it"
    drop = drop_in(np.concatenate([once, noisy((0.1, 1), seed=3)]))
    assert drop is not None
    assert drop.since == 40
    assert drop.now == pytest.approx(0.1, abs=0.1)


def test_one_very_bad_night_of_few_trials_is_hardly_ever_a_step() -> None:
    """An ordinary night often lies the margin away, too: it took every third such night for confirmed."""
    rng, alarms, setting = np.random.default_rng(11), 0, Setting(MIXTURES[0], 20, 3, 0.0, 0.0)
    for _ in range(40):
        table = setting.table(46, rng)
        table[40] = 0.0
        alarms += any([*standing(table, 3)][40:])
    assert alarms <= 6


def test_a_second_run_of_one_bad_night_confirms_nothing() -> None:
    quiet = nights([0.9] * 20)
    bad = [
        it.model_copy(update={"started": instant(START + timedelta(days=20, hours=hour)), "provenance": again})
        for hour, name in ((0, "nightly-020"), (3, "nightly-020-again"))
        for it in nights([0.1])
        for again in [it.provenance.model_copy(update={"run": name})]
    ]
    (series,) = nightly(points([*quiet, *bad]))
    assert [night.run for night in series.nights][19:] == ["nightly-019", "nightly-020"]
    assert series.nights[20].trials == 2 * series.nights[19].trials
    assert standing_drop(series_levels(series, 0.05)) is None
    (confirmed,) = nightly(points([*quiet, *bad, *moved(bad[:20], 1)]))
    assert standing_drop(series_levels(confirmed, 0.05)) is not None, "another night does"


def moved(records: Sequence[Record], days: int) -> list[Record]:
    """The same on another night."""
    return [
        it.model_copy(
            update={
                "started": instant(datetime.fromisoformat(it.started) + timedelta(days=days)),
                "provenance": it.provenance.model_copy(update={"run": f"{it.provenance.run}-{days}"}),
            }
        )
        for it in records
    ]


def test_two_runs_with_a_half_of_the_cases_each_make_a_night() -> None:
    records = nights([1, 0.5, 1], cases=10)
    halves = [
        it.model_copy(update={"provenance": it.provenance.model_copy(update={"run": f"{it.provenance.run}-rest"})})
        if it.provenance.run == "nightly-001" and it.case.id >= "case_05"
        else it
        for it in records
    ]
    one, other = nightly(points(records))[0], nightly(points(halves))[0]
    assert (one.nights, one.thin, one.table.tolist()) == (other.nights, [], other.table.tolist())


def test_nights_that_vary_together_are_not_steps() -> None:
    """The nights have effects that last; a binomial test of the last five nights finds a step in all of them."""
    rng = np.random.default_rng(4)
    alarms = 0
    for seed in range(20):
        effects = [0.0]
        for shock in rng.normal(0, 0.07, 120):
            effects.append(0.5 * effects[-1] + shock)
        table = noisy(*((0.6 + effect, 1) for effect in effects), seed=seed)
        values = table.mean(axis=1)
        states = [*watch(table, values, np.full(121, 50.0))]
        stands = [standing_drop(find_levels(values[:n], states[n - 1])) is not None for n in range(1, 122)]
        alarms += sum(now and not before for before, now in pairwise(stands))
    assert alarms <= 20, "at most one for each new series"


def test_a_step_that_was_chance_is_withdrawn() -> None:
    table = noisy((0.8, 14), (0.65, 2), (0.8, 20), seed=4)
    states = [*watch(table, adjusted(table), np.full(36, 50.0))]
    assert any(states)
    assert not states[-1]


def test_a_short_dip_recovers_and_is_no_drop_again() -> None:
    table = noisy((0.9, 14), (0.3, 3), (0.9, 14))
    states = [*watch(table, adjusted(table), np.full(31, 50.0))]
    assert [step.at for step in states[-1]] == [14, 17]
    stands = [standing_drop(find_levels(table[:n].mean(axis=1), states[n - 1])) is not None for n in range(1, 32)]
    assert stands == [False] * 15 + [True] * stands.count(True) + [False] * (16 - stands.count(True))


def test_what_is_known_after_a_night_does_not_depend_on_the_nights_before_the_window() -> None:
    table = noisy((0.8, 100), (0.6, 30), night_sd=0.02, seed=3)
    cells = np.full(130, 50.0)
    whole = [*watch(table, adjusted(table), cells)][-1]
    cut = [*watch(table[40:], adjusted(table[40:]), cells[40:], history=45)]
    assert [step.at for step in whole] == pytest.approx([100], abs=2)
    assert [step.at + 40 for step in cut[-1]] == [step.at for step in whole]
    late = [*watch(table[40:], adjusted(table[40:]), cells[40:], history=80)]
    assert not late[78], "what is history is not looked at"


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 40), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_levels_always_cover_the_series(nights: int, cases: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = np.round(rng.random((nights, cases)), rng.integers(0, 3))
    table[rng.random(table.shape) < 0.1] = np.nan
    table = table[np.isfinite(table).any(axis=1)]
    values = adjusted(table)
    states = [*watch(table, values, np.full(len(values), float(cases)))]
    assert len(states) == len(values)
    stretches = find_levels(values, states[-1] if states else ())
    assert [index for it in stretches for index in range(it.first, it.end)] == list(range(len(values)))
    standing_drop(stretches)


def test_a_drop_stands_until_the_level_is_back() -> None:
    def drop_of(*parts: tuple[float, int]) -> tuple[float, float] | None:
        values = np.concatenate([np.full(n, mean) for mean, n in parts])
        starts = np.cumsum([n for _, n in parts])[:-1]
        found = standing_drop(find_levels(values, [Step(int(at), 0.001) for at in starts]))
        return None if found is None else (round(found.before, 3), round(found.now, 3))

    assert drop_of((0.6, 9)) is None
    assert drop_of((0.6, 9), (0.57, 9)) is None, "less than the margin"
    assert drop_of((0.6, 9), (0.4, 9)) == (0.6, 0.4)
    assert drop_of((0.6, 9), (0.4, 9), (0.5, 9)) == (0.6, 0.5), "better, and not yet back"
    assert drop_of((0.6, 9), (0.4, 9), (0.58, 9)) is None, "back within the margin"
    assert drop_of((0.6, 9), (0.7, 9), (0.62, 9)) == (0.7, 0.62), "an improvement is the new standard"


# --- series -----------------------------------------------------------------------------------------------------------


def test_a_night_without_a_hard_case_is_not_better_for_it() -> None:
    table = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, np.nan], [1.0, 1.0, 0.0]])
    assert adjusted(table) == pytest.approx([2 / 3] * 3)
    assert adjusted(np.zeros((0, 3))).shape == (0,)


def test_series_hold_one_agent_model_and_version_of_the_suite() -> None:
    records = [*nights([1, 1, 1], cases=5), *nights([0, 0], cases=5, model=GPT)]
    records += [make_record(agent="oracle", model=None, ranked=False, case="case_00")]
    newer = [
        record.model_copy(
            update={"provenance": record.provenance.model_copy(update={"suite_version": "2", "run": "new"})}
        )
        for record in nights([0], cases=5)
    ]
    newer = [
        r.model_copy(update={"started": "2027-01-01T00:00:00Z", "finished": "2027-01-01T00:01:00Z"}) for r in newer
    ]
    found = nightly(points([*records, *newer]))
    assert [(it.entrant.model, it.version, [night.value for night in it.nights]) for it in found] == [
        (SONNET, "2", [0.0]),
        (GPT, "1", [0.0, 0.0]),
    ]
    chosen = nightly(points([*records, *newer], runs="nightly-*"))
    assert [len(it.nights) for it in chosen] == [3, 2]
    assert [night.run for night in nightly(points(records), most=2)[0].nights] == [
        "nightly-001",
        "nightly-002",
    ]


def test_a_night_that_graded_too_little_is_no_point() -> None:
    records = nights([1, 1, 1], cases=10)
    records = [r for r in records if r.provenance.run != "nightly-001" or r.case.id < "case_07"]
    (found,) = nightly(points(records))
    assert [night.run for night in found.nights] == ["nightly-000", "nightly-002"]
    assert found.thin == ["nightly-001"]


# --- what a step consists of, and the control -------------------------------------------------------------------------


def arms(agent: Sequence[float], control: Sequence[float | None], model: str = SONNET) -> list[Record]:
    """Nights of `react` and of the agent `pinned`; None: a night without the latter."""
    pinned = nights([rate or 0.0 for rate in control], agent="pinned", model=model, cases=12)
    left_out = {f"nightly-{number:03}" for number, rate in enumerate(control) if rate is None}
    return [*nights(agent, cases=12), *(record for record in pinned if record.provenance.run not in left_out)]


def of_react(records: Sequence[Record], control: str = "pinned") -> Trend:
    return next(it for it in find_trends(points(records), 0.05, 90, control) if it.series.entrant.agent == "react")


FELL = [0.9] * 16 + [0.4] * 4


def test_a_step_that_the_control_shares_is_not_the_agents() -> None:
    found = of_react(arms(FELL, FELL))
    assert found.drop is not None and found.control is not None
    assert (found.drop.since, found.control.attribution, found.control.missing) == (16, "shared", ())
    assert "likely the model, the provider or the machine, not the agent" in as_text([found], "success")
    (notice,) = notices([found], "success", 0.05)
    assert "not the agent" in notice.body
    other_model = of_react(arms(FELL, FELL, model=GPT))
    assert other_model.control is not None
    assert other_model.control.attribution == "shared"
    assert "runs with another model" in as_text([other_model], "success")


def test_a_step_that_the_control_does_not_share_is_the_agents() -> None:
    found = of_react(arms(FELL, [0.9] * 20))
    assert found.control is not None
    assert found.control.attribution == "own"
    assert "the cause is likely the agent" in as_text([found], "success")
    (notice,) = notices([found], "success", 0.05)
    assert "likely the agent" in notice.body
    assert of_react(arms(FELL, FELL), control="").control is None


def test_a_control_that_cannot_tell_says_so() -> None:
    lacking = of_react(arms(FELL, [0.9] * 16 + [None, 0.4, 0.4, 0.4]))
    assert lacking.control is not None
    assert (lacking.control.attribution, lacking.control.missing) == ("no data", ("nightly-016",))
    assert "no point in nightly-016" in as_text([lacking], "success")
    later = of_react(arms(FELL, [0.9] * 16 + [0.4, None, 0.4, 0.4]))
    assert later.control is not None
    assert (later.control.attribution, later.control.missing) == ("shared", ("nightly-017",))
    young = of_react(arms(FELL, [None] * 12 + [0.9] * 4 + [0.4] * 4))
    absent = of_react(arms(FELL, FELL), control="another")
    noisy_control = of_react(arms([0.9] * 16 + [0.75] * 4, [0.9, 0.1] * 8 + [0.5, 0.3, 0.6, 0.4]))
    assert [it.control.attribution for it in (young, absent) if it.control] == ["no data", "no data"]
    assert "the cause of the step is not known" in as_text([absent], "success")
    if noisy_control.drop:
        assert noisy_control.control is not None
        assert noisy_control.control.attribution == "unclear"


def test_the_control_itself_has_no_control_and_part_of_a_step_can_be_the_agents() -> None:
    found = find_trends(points(arms([0.95] * 30 + [0.25] * 5, [0.95] * 30 + [0.8] * 5)), 0.05, 90, "pinned")
    by_agent = {it.series.entrant.agent: it for it in found}
    assert by_agent["pinned"].control is None
    assert by_agent["react"].control is not None
    assert by_agent["react"].control.attribution == "own", "the control fell too, but far less"


def test_the_cases_and_the_category_that_moved_are_named() -> None:
    records = [
        record.model_copy(
            update={
                "case": record.case.model_copy(update={"category": "bad" if record.case.id < "case_06" else "good"})
            }
        )
        for record in nights([1.0] * 16 + [0.99] * 5)
    ]
    broken = [
        record.model_copy(update={"success": False, "score": 0.0})
        if record.case.id < "case_06" and record.provenance.run >= "nightly-016"
        else record
        for record in records
    ]
    found = of_react(broken)
    assert found.drop is not None
    sure = {it.name for it in found.moved_cases if it.p <= 0.05 and it.now < it.before}
    assert sure == {f"case_{number:02}" for number in range(6)}
    assert (found.moved_categories[0].name, found.moved_categories[0].now) == ("bad", 0.0)
    assert [it.name for it in found.category_drops] == ["bad"]
    text = as_text([found], "success")
    assert re.search(r"cases that fell: case_00 1\.00 to 0\.00 \(p = 0\.00\d\d\)", text)
    assert re.search(r"category bad fell from 1\.000 to 0\.000 at nightly-016; a finding, not an alarm", text)
    (notice,) = notices([found], "success", 0.05)
    assert "case_05" in notice.body


# --- issues -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def github() -> Iterator[Service]:
    with github_rest(REPOSITORY, page=2) as service:
        yield service


def keep(github: Service, *found: Notice, now: float = 0.6, suite: str = "mini") -> list[str]:
    watched = {("react", suite): {SERIES: now}}
    return keep_issues(REPOSITORY, found, watched, TOKEN, api=github.api, pause_s=0)


def notice(since: str = "2026-11-20T02:00:00Z", title: str = "react: success fell", agent: str = "react") -> Notice:
    return Notice(agent, "mini", since, title, "The mean success fell.", {SERIES: 0.55})


def test_an_issue_is_opened_once_updated_and_closed_when_recovered(github: Service) -> None:
    assert keep(github, notice()) == ["opened #1: react: success fell"]
    assert github.hub.labels == [LABEL]
    assert keep(github, notice()) == [], "nothing new, nothing written"
    assert keep(github, notice(title="react: success fell further")) == ["updated #1: react: success fell further"]
    assert keep(github, now=0.5) == ["kept #1 open: not back for two nights yet"]
    assert keep(github) == ["closed #1: recovered"]
    issue = github.hub.issues[0]
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert "Back within the margin" in github.hub.comments_on(1)[0]
    assert keep(github) == []
    assert keep(github, notice()) == ["opened #2: react: success fell"], "it fell again"


def test_an_issue_closed_by_hand_stays_closed_for_this_drop_alone(github: Service) -> None:
    keep(github, notice())
    github.hub.issues[0]["state"] = "closed"
    near = notice(since="2026-11-22T02:00:00Z")
    assert keep(github, near) == ["left #1 closed: this drop was accepted"]
    assert keep(github, notice(since="2027-02-01T02:00:00Z")) == ["opened #2: react: success fell"]


def test_only_our_own_issues_about_watched_agents_are_touched(github: Service) -> None:
    marked = notice().marked()
    github.hub.open_issue("a person's", "I say <!-- ml-dev-bench -->", [LABEL])
    github.hub.open_issue("not labelled", marked, [])
    github.hub.open_issue("a pull request", marked, [LABEL], pull=True)
    github.hub.open_issue("broken", "<!-- ml-dev-bench:drop {nonsense} -->", [LABEL])
    github.hub.open_issue("of another agent", notice(agent="aide").marked(), [LABEL])
    before = json.dumps(github.hub.issues)
    assert keep(github) == []
    assert json.dumps(github.hub.issues) == before


@pytest.mark.parametrize(("association", "ours"), [("NONE", False), ("CONTRIBUTOR", False), ("COLLABORATOR", True)])
def test_an_issue_of_a_stranger_is_not_ours(github: Service, association: str, ours: bool) -> None:
    """Who opened an issue may edit it: a drop that is written into a closed one would count as accepted."""
    github.hub.actor = "somebody"
    issue = github.hub.open_issue("Mine", notice().marked(), [LABEL])
    issue |= {"state": "closed", "author_association": association}
    github.hub.actor = "github-actions[bot]"
    said = "left #1 closed: this drop was accepted" if ours else "opened #2: react: success fell"
    assert keep(github, notice()) == [said]


def test_of_two_open_issues_the_older_stays(github: Service) -> None:
    for _ in range(5):
        github.hub.open_issue("react: success fell", notice().marked(), [LABEL])
    done = keep(github, notice())
    assert done == [f"closed #{number}: duplicate of #1" for number in (2, 3, 4, 5)], "across pages"
    assert [issue["state"] for issue in github.hub.issues] == ["open"] + ["closed"] * 4


def test_hostile_names_cannot_leave_the_marker_or_the_table(github: Service) -> None:
    suite = 'x --> <script>|\n"'
    hostile = Notice("react", suite, "2026-11-20T02:00:00Z", "t", "b", {SERIES: 0.5})
    assert keep(github, hostile, suite=suite) == ["opened #1: t"]
    assert github.hub.issues[0]["body"].count("-->") == 1
    assert keep(github, suite=suite) == ["closed #1: recovered"], "the key is read back whole"
    records = [
        record.model_copy(update={"provenance": record.provenance.model_copy(update={"suite": suite})})
        for record in nights([1.0] * 25 + [0.0] * 3, cases=5, model="evil|model\n</td>")
    ]
    (made,) = notices(find_trends(points(records), 0.05, 90), "success", 0.05)
    assert "<script>" not in made.body
    assert "evil|" not in made.body


def test_a_drop_of_very_many_series_is_told_within_what_github_takes(github: Service) -> None:
    """What GitHub refuses for its length is told to nobody: who writes results could keep any drop silent."""
    many = "\n".join(f"- model {number}: {'é' * 1000}" for number in range(200))
    long = Notice("react", "mini", "2026-11-20T02:00:00Z", "react: " + "t" * 500, many, {SERIES: 0.55})
    (said,) = keep(github, long)
    assert said.startswith("opened #1: react: ttt")
    body = github.hub.issues[0]["body"]
    assert "- model 0: " in body and re.search(r"^Left out here: \d+ lines\.$", body, re.MULTILINE)
    assert keep(github, long) == [], "it is found again, and nothing has changed"


@pytest.mark.parametrize("level", ["1" + "0" * 400, "[" * 20_000])
def test_a_marker_that_was_edited_into_nonsense_is_not_ours(github: Service, level: str) -> None:
    github.hub.open_issue("edited", notice().marked().replace("0.55", level), [LABEL])
    assert keep(github, notice()) == ["opened #2: react: success fell"]


def test_what_github_refuses_is_one_line(github: Service) -> None:
    with pytest.raises(UserError, match="GitHub answered 401 Bad credentials"):
        keep_issues(REPOSITORY, [], {("react", "mini"): {}}, "wrong", api=github.api, pause_s=0)
    with pytest.raises(UserError, match="GitHub answered 404 Not Found"):
        keep_issues("owner/other", [], {("react", "mini"): {}}, TOKEN, api=github.api, pause_s=0)
    with pytest.raises(UserError, match="write owner/name"):
        keep_issues("other", [], {}, TOKEN, api=github.api)


# --- the command ------------------------------------------------------------------------------------------------------


def command(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")} | variables
    line = [sys.executable, "-m", "bench", "trends", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, env=env, timeout=300, check=False)


@pytest.mark.slow
def test_the_command_reads_the_branch_and_keeps_the_issue(tmp_path: Path, github: Service) -> None:
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()

    def store(rates: Sequence[float], first: int) -> None:
        for record_night in range(first, len(rates)):
            run = f"nightly-{record_night:03}"
            records = [record for record in nights(rates, cases=8) if record.provenance.run == run]
            branch.commit(Bundle(run, 1, records, START + timedelta(days=record_night)))

    rates = [0.9] * 14 + [0.1] * 3
    store(rates, 0)
    variables = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.api}
    options = ("--issues", REPOSITORY, "--exit-code", "--control", "pinned")
    done = command(tmp_path / "results.git", *options, **variables)
    assert done.returncode == 1, done.stderr
    assert re.search(r"FELL from 0\.[89]\d\d to 0\.[01]\d\d at nightly-014; it still stands", done.stdout)
    assert "control pinned: no series" in done.stdout
    assert "opened #1: react: success fell on mini" in done.stdout
    assert "nightly&#45;014" in github.hub.issues[0]["body"] or "nightly-014" in github.hub.issues[0]["body"]
    store(rates + [0.9] * 12, len(rates))
    done = command(tmp_path / "results.git", "--issues", REPOSITORY, "--json", "--exit-code", **variables)
    # Reading says how far it is where that takes long.
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "closed #1: recovered")
    (series,) = json.loads(done.stdout)["series"]
    assert (series["drop"], series["control"]) == (None, None)
    assert (len(series["series"]["nights"]), series["series"]["categories"]) == (29, ["debugging"] * 8)


def test_issues_need_a_token(tmp_path: Path) -> None:
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()
    branch.commit(Bundle("one", 1, [make_record(run="one", outcome="infra")], START))
    done = command(tmp_path / "results.git", "--issues", REPOSITORY)
    assert (done.returncode, "GITHUB_TOKEN: is not set" in done.stderr) == (2, True)
    assert "no series" in command(tmp_path / "results.git").stdout
