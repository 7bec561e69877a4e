"""Steps in nightly series, what counts as a drop, and the issues about it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.cli.trends import find_trends, notices
from bench.formats.record import Record
from bench.github.issues import LABEL, Notice, keep_issues
from bench.stats.intervals import Floats
from bench.stats.pairing import MEASURES
from bench.stats.trends import CaseNight, adjusted, case_nights, find_levels, find_steps, nightly, standing_drop
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.helpers.github_issues import TOKEN, Repository, serving
from tests.helpers.records import GPT, SONNET, START, make_check, make_record

FAIL = [make_check(value=0.0)]
REPOSITORY = "owner/agents"
SERIES = f"{SONNET} mini"


def points(records: Sequence[Record], runs: str = "*") -> list[CaseNight]:
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


def noisy(*parts: tuple[float, int], seed: int = 1) -> Floats:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(mean, 0.02, n) for mean, n in parts])


# --- steps ------------------------------------------------------------------------------------------------------------


def test_a_step_is_found_where_it_is() -> None:
    values = noisy((0.6, 25), (0.45, 10))
    (step,) = find_steps(values)
    assert step.at == 25
    assert step.p < 0.005
    before, after = find_levels(values, [step])
    assert (before.mean, after.mean) == pytest.approx((0.6, 0.45), abs=0.02)


def test_several_steps_are_found_one_within_another() -> None:
    values = noisy((0.6, 20), (0.4, 15), (0.62, 20))
    assert [step.at for step in find_steps(values)] == [20, 35]


def test_one_bad_night_is_no_step_and_a_second_one_confirms_it() -> None:
    history = noisy((0.6, 40))
    once = np.append(history, 0.3)
    assert standing_drop(find_levels(once, find_steps(once))) is None
    confirmed = np.append(history, [0.3, 0.31])
    drop = standing_drop(find_levels(confirmed, find_steps(confirmed)))
    assert drop is not None
    assert drop.since == 40
    assert drop.now == pytest.approx(0.305)


def test_a_series_without_a_step_has_none_as_often_as_promised() -> None:
    false = sum(bool(find_steps(noisy((0.6, 30), seed=seed))) for seed in range(200))
    assert false <= 5, "at a level of 0.005 one in two hundred is expected"


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0, 1), max_size=12))
def test_levels_always_cover_the_series(values: list[float]) -> None:
    series = np.array(values, dtype=np.float64)
    stretches = find_levels(series, find_steps(series))
    assert [index for it in stretches for index in range(it.first, it.end)] == list(range(len(values)))
    standing_drop(stretches)


def test_a_drop_stands_until_the_level_is_back() -> None:
    def drop_of(*parts: tuple[float, int]) -> tuple[float, float] | None:
        values = np.concatenate([np.full(n, mean) for mean, n in parts])
        starts = np.cumsum([n for _, n in parts])[:-1]
        from bench.stats.trends import Step

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


# --- issues -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def github() -> Iterator[Repository]:
    repository = Repository(REPOSITORY, page=2)
    with serving(repository):
        yield repository


def keep(github: Repository, *found: Notice, now: float = 0.6, suite: str = "mini") -> list[str]:
    watched = {("react", suite): {SERIES: now}}
    return keep_issues(REPOSITORY, found, watched, TOKEN, api=github.address, pause_s=0)


def notice(since: str = "2026-11-20T02:00:00Z", title: str = "react: success fell", agent: str = "react") -> Notice:
    return Notice(agent, "mini", since, title, "The mean success fell.", {SERIES: 0.55})


def test_an_issue_is_opened_once_updated_and_closed_when_recovered(github: Repository) -> None:
    assert keep(github, notice()) == ["opened #1: react: success fell"]
    assert github.labels == [LABEL]
    assert keep(github, notice()) == [], "nothing new, nothing written"
    assert keep(github, notice(title="react: success fell further")) == ["updated #1: react: success fell further"]
    assert keep(github, now=0.5) == ["kept #1 open: not back for two nights yet"]
    assert keep(github) == ["closed #1: recovered"]
    issue = github.issues[0]
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert "Back within the margin" in github.comments[1][0]
    assert keep(github) == []
    assert keep(github, notice()) == ["opened #2: react: success fell"], "it fell again"


def test_an_issue_closed_by_hand_stays_closed_for_this_drop_alone(github: Repository) -> None:
    keep(github, notice())
    github.issues[0]["state"] = "closed"
    near = notice(since="2026-11-22T02:00:00Z")
    assert keep(github, near) == ["left #1 closed: this drop was accepted"]
    assert keep(github, notice(since="2027-02-01T02:00:00Z")) == ["opened #2: react: success fell"]


def test_only_our_own_issues_about_watched_agents_are_touched(github: Repository) -> None:
    marked = notice().marked()
    github.open_issue("a person's", "I say <!-- ml-dev-bench -->", [LABEL])
    github.open_issue("not labelled", marked, [])
    github.open_issue("a pull request", marked, [LABEL], pull=True)
    github.open_issue("broken", "<!-- ml-dev-bench:drop {nonsense} -->", [LABEL])
    github.open_issue("of another agent", notice(agent="aide").marked(), [LABEL])
    before = json.dumps(github.issues)
    assert keep(github) == []
    assert json.dumps(github.issues) == before


def test_of_two_open_issues_the_older_stays(github: Repository) -> None:
    for _ in range(5):
        github.open_issue("react: success fell", notice().marked(), [LABEL])
    done = keep(github, notice())
    assert done == [f"closed #{number}: duplicate of #1" for number in (2, 3, 4, 5)], "across pages"
    assert [issue["state"] for issue in github.issues] == ["open"] + ["closed"] * 4


def test_hostile_names_cannot_leave_the_marker_or_the_table(github: Repository) -> None:
    suite = 'x --> <script>|\n"'
    hostile = Notice("react", suite, "2026-11-20T02:00:00Z", "t", "b", {SERIES: 0.5})
    assert keep(github, hostile, suite=suite) == ["opened #1: t"]
    assert github.issues[0]["body"].count("-->") == 1
    assert keep(github, suite=suite) == ["closed #1: recovered"], "the key is read back whole"
    records = [
        record.model_copy(update={"provenance": record.provenance.model_copy(update={"suite": suite})})
        for record in nights([1.0] * 25 + [0.0] * 3, cases=5, model="evil|model\n</td>")
    ]
    (made,) = notices(find_trends(points(records), 0.05, 90), "success", 0.05)
    assert "<script>" not in made.body
    assert "evil|" not in made.body


def test_what_github_refuses_is_one_line(github: Repository) -> None:
    with pytest.raises(UserError, match="GitHub answered 401 Bad credentials"):
        keep_issues(REPOSITORY, [], {("react", "mini"): {}}, "wrong", api=github.address, pause_s=0)
    with pytest.raises(UserError, match="GitHub answered 404 Not Found"):
        keep_issues("owner/other", [], {("react", "mini"): {}}, TOKEN, api=github.address, pause_s=0)
    with pytest.raises(UserError, match="write owner/name"):
        keep_issues("other", [], {}, TOKEN, api=github.address)


# --- the command ------------------------------------------------------------------------------------------------------


def command(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")} | variables
    line = [sys.executable, "-m", "bench", "trends", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, env=env, timeout=300, check=False)


@pytest.mark.slow
def test_the_command_reads_the_branch_and_keeps_the_issue(tmp_path: Path, github: Repository) -> None:
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()

    def store(rates: Sequence[float], first: int) -> None:
        for record_night in range(first, len(rates)):
            run = f"nightly-{record_night:03}"
            records = [record for record in nights(rates, cases=8) if record.provenance.run == run]
            branch.commit(Bundle(run, 1, records, START + timedelta(days=record_night)))

    rates = [0.9] * 14 + [0.1] * 3
    store(rates, 0)
    variables = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.address}
    done = command(tmp_path / "results.git", "--issues", REPOSITORY, "--exit-code", **variables)
    assert done.returncode == 1, done.stderr
    assert re.search(r"FELL from 0\.[89]\d\d to 0\.[01]\d\d at nightly-014; it still stands", done.stdout)
    assert "opened #1: react: success fell on mini" in done.stdout
    assert "nightly&#45;014" in github.issues[0]["body"] or "nightly-014" in github.issues[0]["body"]
    store(rates + [0.9] * 12, len(rates))
    done = command(tmp_path / "results.git", "--issues", REPOSITORY, "--json", "--exit-code", **variables)
    # Reading says how far it is where that takes long.
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "closed #1: recovered")
    (series,) = json.loads(done.stdout)["series"]
    assert series["drop"] is None


def test_issues_need_a_token(tmp_path: Path) -> None:
    ResultsBranch(tmp_path / "results.git").ensure()
    done = command(tmp_path / "results.git", "--issues", REPOSITORY)
    assert (done.returncode, "GITHUB_TOKEN: is not set" in done.stderr) == (2, True)
    assert "no series" in command(tmp_path / "results.git").stdout
