"""The index: what it answers is what the branch says, however it came about and whatever happened on the way."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bench.base.errors import UserError
from bench.formats.note import Note
from bench.formats.record import Record
from bench.index import build, nights
from bench.index.answers import cell_history, stored_records
from bench.index.nights import nightly_points
from bench.index.query import VIEWS, Index, export, open_index
from bench.index.results import IndexedResults
from bench.index.storage import index_folder
from bench.index.summaries import SUMMARIES
from bench.plan.estimate import History
from bench.stats import rank, standings
from bench.stats.choice import Filters, choose
from bench.stats.compare import compare_records
from bench.stats.entrants import unique_cells
from bench.stats.pairing import MEASURES
from bench.stats.tally import PLACES, agent_seconds, units
from bench.stats.trends import Series, case_nights, nightly
from bench.store.branch import ResultsBranch
from bench.store.decisions import Decision
from tests.helpers.records import START, make_night, make_record
from tests.helpers.sampling import every_third
from tests.helpers.store import BRANCH, ROOT, bundle_of, edit, mldb

ORDER = "ORDER BY run, cell, attempt"


@pytest.fixture
def branch(tmp_path: Path) -> ResultsBranch:
    """Three nights, one with a second attempt at what was lost, and a decision."""
    results = ResultsBranch(tmp_path / "results.git")
    results.ensure()
    store_night(results, 1)
    store_night(results, 2)
    return results


def store_night(results: ResultsBranch, number: int, attempt: int = 1) -> list[Record]:
    run = f"night-{number}"
    records = make_night(run, seed=10 * number + attempt, started=START.replace(day=number))
    results.commit(bundle_of(records, run, attempt, days=number))
    return records


def indexed(tmp_path: Path, cache: str = "cache") -> Index:
    return open_index(tmp_path / "results.git", cache=tmp_path / cache)


def everything(index: Index) -> list[tuple[object, ...]]:
    """All rows without the numbers of files, which follow from the order of reading."""
    rows = index.rows(f"SELECT * EXCLUDE (id) FROM records {ORDER}")
    rows += index.rows("SELECT * REPLACE (struct_update(last, id := 0) AS last) FROM judged ORDER BY ALL")
    counted = {"tally", *SUMMARIES} - {"judged"}
    return [*rows, *(row for name in sorted(counted) for row in index.rows(f"SELECT * FROM {name} ORDER BY ALL"))]


def withdraw(results: ResultsBranch, run: str, **narrowed: str) -> None:
    facts = {"kind": "withdrawn", "run": run, "why": "x", "who": "me", "when": "2026-11-21T00:00:00Z", **narrowed}
    results.decide(Decision.model_validate(facts))


def test_rows_are_the_records(branch: ResultsBranch, tmp_path: Path) -> None:
    records = {(it.provenance.run, it.cell): it for it in branch.records()}
    with indexed(tmp_path) as index:
        rows = index.table("SELECT *, epoch(started) AS began FROM records").to_pylist()
    assert len(rows) == len(records) == 196
    for row in rows:
        it = records[row["run"], row["cell"]]
        assert (row["agent"], row["case_digest"], row["trial"]) == (it.agent.id, it.case.digest, it.trial)
        assert (row["outcome"], row["success"], row["score"]) == (it.outcome, it.success, it.score)
        assert (row["cost_usd"], row["steps"], row["agent_seconds"]) == (it.cost_usd, it.steps, agent_seconds(it))
        assert [(c["check_id"], c["value"]) for c in row["checks"]] == [(c.id, c.value) for c in it.checks]
        assert row["flags"] == [note.name for note in it.flags]
        assert row["started"].strftime("%Y-%m-%dT%H:%M:%SZ") == it.started


def test_what_is_added_bit_by_bit_is_what_is_built_at_once(branch: ResultsBranch, tmp_path: Path) -> None:
    indexed(tmp_path).close()
    store_night(branch, 3)
    indexed(tmp_path).close()
    store_night(branch, 2, attempt=2)
    withdraw(branch, "night-1", agent="react")
    with indexed(tmp_path) as grown, indexed(tmp_path, "other") as fresh:
        assert everything(grown) == everything(fresh)
        assert len(grown.state.parts) == 3 > len(fresh.state.parts)
        before = grown.state
    with indexed(tmp_path) as again:
        assert again.state == before


def test_an_index_from_before_there_were_summaries_gets_them_without_reading_records_again(
    branch: ResultsBranch, tmp_path: Path
) -> None:
    with indexed(tmp_path) as index:
        expected, parts, state = everything(index), index.state.parts, index.folder / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_bytes()), "summaries": {}}))
    with indexed(tmp_path) as index:
        assert everything(index) == expected
        assert index.state.parts == parts
    state.write_text(json.dumps({**json.loads(state.read_bytes()), "summaries": {}}))
    store_night(branch, 3)
    with indexed(tmp_path) as grown, indexed(tmp_path, "other") as fresh:
        assert everything(grown) == everything(fresh)


@pytest.mark.nightly
def test_many_nights_do_not_make_many_parts(branch: ResultsBranch, tmp_path: Path) -> None:
    for number in range(3, 18):
        branch.commit(bundle_of([make_record(run=f"night-{number}")], f"night-{number}", days=number))
        indexed(tmp_path).close()
    with indexed(tmp_path) as grown, indexed(tmp_path, "other") as fresh:
        assert len(grown.state.parts) <= 13
        assert everything(grown) == everything(fresh)


def test_several_processes_build_what_one_builds(
    branch: ResultsBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with indexed(tmp_path) as one:
        expected = everything(one)
    monkeypatch.setattr(build, "_MANY_FILES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    with indexed(tmp_path, "other") as other:
        assert len(other.state.parts) == 3
        assert everything(other) == expected


def test_decisions_count_without_reading_records_again(branch: ResultsBranch, tmp_path: Path) -> None:
    with indexed(tmp_path) as index:
        parts = index.state.parts
    withdraw(branch, "night-1", agent="react")
    withdraw(branch, "night-2", case="vq_layer")
    branch.decide(
        Decision(kind="accepted", run="night-1", cell="react/openai/gpt-5-mini/vq_layer/mini/1", why="x", who="me",
                 when="2026-11-22T00:00:00Z")
    )  # fmt: skip
    counting = sorted((it.provenance.run, it.cell) for it in branch.records())
    with indexed(tmp_path) as index:
        assert index.state.parts == parts
        assert sorted(index.rows("SELECT run, cell FROM records")) == counting
        assert index.rows("SELECT count(*) FROM all_records") == [(196,)]
        assert index.rows("SELECT kind, run FROM decisions ORDER BY seq")[-1] == ("accepted", "night-1")
        assert sum(n for (n,) in index.rows("SELECT cells FROM tally")) == len(counting)


def test_of_several_attempts_one_counts(branch: ResultsBranch, tmp_path: Path) -> None:
    store_night(branch, 1, attempt=2)
    kept = unique_cells(branch.records())
    with indexed(tmp_path) as index:
        rows = index.rows("SELECT run, cell, outcome, score FROM cells ORDER BY ALL")
    assert rows == sorted((it.provenance.run, it.cell, it.outcome, it.score) for it in kept)


def test_lines_of_the_schema_before_and_lines_that_are_none(branch: ResultsBranch, tmp_path: Path) -> None:
    old = json.loads(make_record(run="old-1").to_line())
    old["schema"] = 0
    for usage in old["usage"]:
        for name in ("faults", "at_risk_usd", "waited_s"):
            del usage[name]
        del usage["tokens"]["cache_write_1h"]
    del old["limits"]["tokens"]
    foreign = make_record(run="old-2").to_line()
    unscored = json.dumps({**json.loads(make_record(run="old-1").to_line()), "score": None})
    lines = [
        json.dumps(old),
        "{",
        foreign,
        '{"schema":1}',
        "",
        unscored,
        '{"schema":7}',
        '"\\ud800"',
        "\xff",
        "[" * 9999,
    ]
    content = "\n".join(lines).encode("latin-1") + b"\n" + foreign.encode()
    edit(tmp_path / "results.git", {"runs/2026/11/09/old-1-1-react.jsonl": content})
    with indexed(tmp_path) as index:
        assert index.rows("SELECT agent, success, line, attempt FROM records WHERE run = 'old-1'") == [
            ("react", True, 1, 1)
        ]
        assert (index.state.skipped, index.state.where) == (10, "runs/2026/11/09/old-1-1-react.jsonl:2")


def test_rewritten_history_is_indexed_anew(branch: ResultsBranch, tmp_path: Path) -> None:
    with indexed(tmp_path) as index:
        (path,) = index.rows("SELECT path FROM records WHERE run = 'night-1' AND agent = 'react' LIMIT 1")[0]
    edit(tmp_path / "results.git", {str(path): None}, amend=True)
    with indexed(tmp_path) as index:
        assert index.rows("SELECT count(*) FROM records WHERE run = 'night-1' AND agent = 'react'") == [(0,)]
        assert index.rows("SELECT count(*) FROM records") == [(168,)]


def test_a_branch_behind_a_url_and_one_that_does_not_exist(branch: ResultsBranch, tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'results.git'}"
    with open_index(url, cache=tmp_path / "cache") as index:
        assert index.rows("SELECT count(*) FROM records") == [(196,)]
    store_night(branch, 3)
    with open_index(url, cache=tmp_path / "cache") as index:
        assert index.rows("SELECT count(*) FROM records") == [(294,)]
    with open_index(url, "nothing-here", cache=tmp_path / "cache") as index:
        assert index.rows("SELECT count(*) FROM records") == [(0,)]
        assert IndexedResults(index).standings() == []
    with pytest.raises(UserError, match="is not a git repository"):
        open_index(tmp_path / "elsewhere", cache=tmp_path / "cache")


@pytest.mark.parametrize("damage", ["cut", "filled", "removed", "state", "versions"])
def test_a_damaged_cache_is_made_anew(branch: ResultsBranch, tmp_path: Path, damage: str) -> None:
    with indexed(tmp_path) as index:
        expected, folder = everything(index), index.folder
        part = folder / index.state.parts[0].name
    if damage == "cut":
        os.truncate(part, 100)
    elif damage == "filled":
        part.write_bytes(b"x" * part.stat().st_size)
    elif damage == "removed":
        part.unlink()
    elif damage == "state":
        (folder / "state.json").write_text("{")
    else:
        text = (folder / "state.json").read_text()
        (folder / "state.json").write_text(text.replace('"index_schema": 1', '"index_schema": 0'))
    with indexed(tmp_path) as index:
        assert everything(index) == expected


def test_a_builder_killed_at_any_moment_leaves_a_whole_index(branch: ResultsBranch, tmp_path: Path) -> None:
    with indexed(tmp_path, "other") as fresh:
        expected = everything(fresh)
    code = (
        "import sys; from pathlib import Path; from bench.index import build\n"
        "from bench.index.query import open_index\n"
        "build._MANY_FILES = int(sys.argv[3]); open_index(sys.argv[1], cache=Path(sys.argv[2]))"
    )
    folder = index_folder(tmp_path / "cache", tmp_path / "results.git", BRANCH)
    for number, wait in enumerate((0.0, 0.05, 0.15, 0.3)):
        arguments = [str(tmp_path / "results.git"), str(tmp_path / "cache"), str(1 if number % 2 else 2000)]
        process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT)
        deadline = time.monotonic() + 60
        while not (folder / "lock").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with indexed(tmp_path) as index:
        assert everything(index) == expected
        names = {ref.name for ref in index.state.refs()} | index.state.retired.keys()
        assert {path.name for path in index.folder.glob("*.parquet")} <= names


def test_two_builders_do_not_meet(branch: ResultsBranch, tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from bench.index.query import open_index\n"
    code += "print(open_index(sys.argv[1], cache=Path(sys.argv[2])).rows('SELECT count(*) FROM records'))"
    command = [sys.executable, "-c", code, str(tmp_path / "results.git"), str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["[(196,)]\n"] * 3


HOSTILE = [
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_parquet('https://127.0.0.1:9/x.parquet')",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{target}''')",
    "COPY (SELECT 1) TO '{target}'",
    "COPY (SELECT 1) TO '{part}' (USE_TMP_FILE false)",
    "WITH x AS (COPY (SELECT 1) TO '{part}') SELECT 1",
    "ATTACH '{target}' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA enable_logging",
    "SELECT 1; COPY (SELECT 1) TO '{target}'",
    "EXPORT DATABASE '{target}'",
    "CREATE TABLE x AS SELECT 1",
    "DROP VIEW records",
    "SELECT * FROM secret",
    "",
]


@pytest.mark.parametrize("sql", every_third(HOSTILE))
def test_sql_reads_and_writes_nothing_else(branch: ResultsBranch, tmp_path: Path, sql: str) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    secret = pq.read_table  # a name in Python that DuckDB could look up
    with indexed(tmp_path) as index:
        part = index.folder / index.state.parts[0].name
        before = part.read_bytes()
        with pytest.raises(UserError) as fault:
            index.rows(sql.format(secret=tmp_path / "secret.csv", target=tmp_path / "target", part=part))
        assert "\n" not in str(fault.value)
        assert index.rows("SELECT count(*) FROM records") == [(196,)]
    assert callable(secret) and not (tmp_path / "target").exists() and part.read_bytes() == before


def test_a_query_has_its_time(branch: ResultsBranch, tmp_path: Path) -> None:
    sql = "SELECT count(*) FROM range(1000000000000) t(i) WHERE i % 7 = 3"
    with open_index(tmp_path / "results.git", cache=tmp_path / "cache", timeout_s=0.5) as index:
        with pytest.raises(UserError, match="took more than"):
            index.rows(sql)
        assert index.rows("SELECT 1") == [(1,)]


def test_the_leaderboard_is_that_of_the_records(branch: ResultsBranch, tmp_path: Path) -> None:
    store_night(branch, 1, attempt=2)
    changed = [make_record(run="late", case_version=2, trial=n, started=START.replace(day=25)) for n in (1, 2)]
    branch.commit(bundle_of(changed, "late", days=9))
    withdraw(branch, "night-2", agent="aide")
    records = list(branch.records())
    cases = sorted({it.case.id for it in records})[:6]
    expected = rank(standings(records, {"mini": cases}))
    with indexed(tmp_path) as index:
        assert set(cases) < set(IndexedResults(index).cases())
        found = rank(IndexedResults(index, {"mini": cases}).standings())
    assert found == expected, "to the last digit: sums are exact"


@pytest.mark.parametrize(("facts", "series"), [({}, 1), ({"case_version": 2}, 2), ({"judge": "2"}, 2)])
def test_a_series_is_of_one_case_and_one_judge(tmp_path: Path, facts: dict[str, Any], series: int) -> None:
    """One case as before (a new wrong answer changes nothing), with another check, or under another judge."""
    results = ResultsBranch(tmp_path / "results.git")
    results.ensure()
    judge, version = facts.get("judge", "1"), facts.get("case_version", 1)
    old, new = make_record(run="old"), make_record(run="new", case_version=version, started=START.replace(day=25))
    for days, (record, judged_by) in enumerate(((old, "1"), (new, judge)), 1):
        said = record.provenance.model_copy(update={"judge": judged_by})
        run = said.run
        results.commit(bundle_of([record.model_copy(update={"provenance": said})], run, 1, days=days))
    with indexed(tmp_path) as index:
        assert index.rows("SELECT count(DISTINCT case_version) FROM tally") == [(series,)]
        points = nightly_points(index, "success")
        (standing,) = IndexedResults(index, {"mini": [old.case.id]}).standings()
        assert standing.graded == 3 - series
    records = list(results.records())
    assert set(points.run.texts) == ({"old", "new"} if series == 1 else {"new"})
    assert (len({it.case_version for it in records}), standings(records, {"mini": [old.case.id]})) == (
        series,
        [standing],
    )
    (found,) = nightly(case_nights(records, MEASURES["success"]))
    assert len(found.nights) == 3 - series


def test_a_sum_takes_a_number_for_the_same_in_python_and_in_sql(branch: ResultsBranch, tmp_path: Path) -> None:
    rng = random.Random(5)
    values = [0.0, 2 / 3, 0.5e-12, 1e10, *(rng.random() * 10 ** rng.randint(-13, 9) for _ in range(20_000))]
    with indexed(tmp_path) as index:
        rows = index.rows(f"SELECT unnest(?::DOUBLE[])::DECIMAL(38, {PLACES})", [values])
    assert [int(Fraction(value) * 10**PLACES) for (value,) in rows] == [units(value) for value in values]


def flat(facts: dict[str, object]) -> dict[str, object]:
    return {name: pytest.approx(value) if isinstance(value, float) else value for name, value in facts.items()}


@pytest.mark.parametrize(
    ("base", "head"), [("night-1", "night-2"), ("react@{old}", "react"), ("agent:react", "run:night-3")]
)
def test_compare_says_the_same_of_rows_as_of_records(
    branch: ResultsBranch, tmp_path: Path, base: str, head: str
) -> None:
    extra = [
        it.model_copy(update={"agent": it.agent.model_copy(update={"digest": "sha256:" + "ab" * 32})})
        for it in make_night("night-3", seed=9, started=START.replace(day=3))
    ]
    branch.commit(bundle_of(extra, "night-3", days=3))
    records = list(branch.records())
    old = next(it.agent.digest for it in records if it.agent.id == "react" and it.provenance.run == "night-1")
    filters = Filters(agent="react", model="openai/gpt-5-mini")
    answers = []
    with indexed(tmp_path) as index:
        for from_index in (True, False):
            sides = []
            for reference in (base.format(old=old[:19]), head):
                stored = partial(stored_records, index) if from_index else lambda *_: records
                sides.append(choose(reference, stored, filters))
            answers.append((compare_records(sides[0].records, sides[1].records), [side.label for side in sides]))
    assert answers[0] == answers[1]
    assert answers[0][0].measures


def test_a_version_that_is_not_there_is_told_from_the_others(branch: ResultsBranch, tmp_path: Path) -> None:
    filters = Filters()
    with indexed(tmp_path) as index, pytest.raises(UserError, match="no such version is stored"):
        choose("react@0000000", partial(stored_records, index), filters)


@pytest.mark.parametrize(
    ("measure", "most", "days"), [("success", 90, 100), ("score", 2, 100), ("score", 2, 2), ("success", 1, 1)]
)
def test_trends_through_the_index_are_those_through_the_records(
    branch: ResultsBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure: str, most: int, days: int
) -> None:
    """Also of an agent that did not run lately, where only the newest days are looked at first."""
    monkeypatch.setattr(nights, "DAYS", days)
    night = make_night("night-4", seed=11, started=START.replace(day=4))
    one = night[0].case.id
    changed = [
        it.model_copy(update={"case": it.case.model_copy(update={"digest": "sha256:" + "cd" * 32})})
        if it.case.id == one
        else it
        for it in night
    ]
    branch.commit(bundle_of([it for it in changed if it.agent.id != "aide"], "night-4", days=4))
    plain = nightly(case_nights(branch.records(), MEASURES[measure], "night-*"), most)
    with indexed(tmp_path) as index:
        through = nightly(nightly_points(index, measure, "night-*", most), most)
    assert any(it.nights for it in plain)
    assert [rounded(it) for it in through] == [rounded(it) for it in plain]


def test_the_documentation_has_every_table_and_says_which_are_internal(branch: ResultsBranch, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "querying.md").read_text()
    with indexed(tmp_path) as index:
        shown = {name for (name,) in index.rows("SHOW TABLES")}
    assert shown == {*VIEWS, *SUMMARIES}
    listed, _, rest = text.partition("`SHOW TABLES` lists")
    assert all(f"| `{name}` |" in listed for name in VIEWS)
    internal = rest.partition("They are internal")[0]
    assert {name for name in shown if f"`{name}`" in internal} == set(SUMMARIES)


def rounded(series: Series) -> tuple[object, ...]:
    """As means over the same numbers in another order are equal."""
    nights = [(it.run, datetime.fromisoformat(it.started), round(it.value, 9), it.cases, it.trials)
              for it in series.nights]  # fmt: skip
    return series.entrant, series.suite, series.version, nights, list(series.thin)


def test_the_planner_learns_the_same(branch: ResultsBranch, tmp_path: Path) -> None:
    records = [
        make_record(run=f"r{n}", trial=n, agent_seconds=10.0 * n, cost_usd=None if n == 25 else 0.1 * n,
                    cost_status="unknown" if n == 25 else "exact", started=START.replace(minute=n))
        for n in range(1, 31)
    ]  # fmt: skip
    for record in records:
        branch.commit(bundle_of([record], record.provenance.run))
    plain = History.of(unique_cells(branch.records()))
    with indexed(tmp_path) as index:
        learned = cell_history(index)
    assert learned.graded == plain.graded
    assert learned.exact.keys() == plain.exact.keys()
    for key, (seconds, usd) in plain.exact.items():
        assert learned.exact[key][0] == pytest.approx(seconds)
        assert learned.exact[key][1] == pytest.approx(usd)
    assert learned.cases == pytest.approx(plain.cases)
    assert learned.shares == pytest.approx(plain.shares)


AWKWARD = ["plain", 'it\'s "quoted"', "two\nlines\r\n", "a,b;c\td", "back\\slash", "=1+1", "ünï 😀", "", "\x00\x1b[31m"]


@pytest.fixture
def awkward(branch: ResultsBranch, tmp_path: Path) -> Iterator[Index]:
    records = [
        make_record(run="odd", case=f"case_{n}", title=text, flags=[Note(name=text, evidence="x")])
        for n, text in enumerate(AWKWARD)
    ]
    branch.commit(bundle_of(records, "odd"))
    with indexed(tmp_path) as index:
        yield index


ODD = (
    "SELECT case_title, flags, score, started, judge_seed, stop_reason FROM records WHERE run = 'odd' ORDER BY case_id"
)


def test_exports_bring_back_every_text(awkward: Index, tmp_path: Path) -> None:
    titles = [text or f"Case {n}" for n, text in enumerate(AWKWARD)]
    assert export(awkward, ODD, tmp_path / "out.csv", "csv") == len(AWKWARD)
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["case_title"] for row in rows] == titles
    assert [json.loads(row["flags"]) for row in rows] == [[text] for text in AWKWARD]
    export(awkward, ODD, tmp_path / "out.json", "json")
    documents = [json.loads(line) for line in (tmp_path / "out.json").read_text("utf-8").split("\n")[:-1]]
    assert [(it["case_title"], it["flags"]) for it in documents] == list(
        zip(titles, [[t] for t in AWKWARD], strict=True)
    )
    export(awkward, ODD, tmp_path / "out.parquet", "parquet")
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == awkward.table(ODD).to_pylist()


def test_an_export_that_fails_leaves_what_was_there(awkward: Index, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("before")
    with pytest.raises(UserError):
        export(awkward, "SELECT error(case_title) FROM records", out, "csv")
    assert out.read_text() == "before"
    assert not list(tmp_path.glob(".out*"))


def test_frames(branch: ResultsBranch, tmp_path: Path) -> None:
    with indexed(tmp_path) as index:
        frame = index.frame("SELECT agent, count(*) AS n FROM cells WHERE case_id = ? GROUP BY ALL", ["vq_layer"])
        assert frame.set_index("agent")["n"].to_dict()["react"] == 8
        checks = index.frame("SELECT check_id, avg(value) AS mean FROM checks GROUP BY ALL")
        assert checks.set_index("check_id")["mean"].between(0, 1).all()


def test_the_commands(branch: ResultsBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = ("--results", tmp_path / "results.git")
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    sql = "SELECT agent, count(*) AS n FROM records GROUP BY ALL ORDER BY agent LIMIT 2"
    done = mldb("results", "query", sql, *where, cwd=tmp_path)
    assert done.stdout.splitlines() == ["agent  n", "aide   28", "nop    28", "(2 rows)"]
    done = mldb("results", "query", sql, "--json", *where, cwd=tmp_path)
    assert json.loads(done.stdout) == [{"agent": "aide", "n": 28}, {"agent": "nop", "n": 28}]
    done = mldb("results", "query", sql, "--format", "csv", *where, cwd=tmp_path)
    assert done.stdout.splitlines() == ['"agent","n"', '"aide",28', '"nop",28']
    done = mldb("results", "query", "DROP VIEW records", *where, cwd=tmp_path, status=2)
    assert done.stderr.startswith("error: query: ") and "Traceback" not in done.stderr
    out = tmp_path / "out" / "some.parquet"
    condition = "agent = 'react' -- and no more"
    done = mldb("results", "export", out, "--where", condition, "--json", *where, cwd=tmp_path)
    assert json.loads(done.stdout)["rows"] == pq.read_table(out).num_rows == 56
    mldb("results", "export", "some.txt", *where, cwd=tmp_path, status=2)
