"""Results from the index are those from the records: the same pages and the same table, to the byte."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from bench.cli.results import show
from bench.formats.record import Metric, Outcome, Profile, Record
from bench.index import nights as index_nights
from bench.index import results as index_results
from bench.index import whole_records
from bench.index.nights import _different
from bench.index.query import Index, open_index
from bench.index.results import IndexedResults
from bench.pages import cell_files, entries
from bench.pages.board import CaseInfo
from bench.pages.build import build_site, write_site
from bench.pages.made import MARKER
from bench.stats.record_results import RecordResults
from bench.store.branch import ResultsBranch
from bench.store.decisions import Decision
from tests.benchmarks.synthetic_branch import World, agent_nights, make_branch
from tests.helpers.records import START, make_check, make_claim, make_night, make_note, make_record, without_isolation
from tests.helpers.sampling import at_night
from tests.helpers.store import ROOT, bundle_of

SITE = ROOT / "site"


_OUTCOMES: Sequence[Outcome] = ("graded", "graded", "graded", "infra", "skipped", "interrupted")


@pytest.mark.parametrize("seed", range(6))
def test_the_same_trials_are_repeats(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    cases = [f"case_{number}" for number in range(12)]
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()
    records: list[Record] = []
    for run in [f"run-{number}" for number in range(4)]:
        own = []
        for case, trial in product(cases, (1, 2)):
            outcome = rng.choice(_OUTCOMES) if rng.random() < 0.2 else "graded"
            started = START + timedelta(minutes=rng.randrange(60))
            if rng.random() < 0.98:
                own.append(make_record(case=case, run=run, trial=trial, outcome=outcome, started=started))
        branch.commit(bundle_of(own, run))
        records += own
    suite: dict[Profile, list[str]] = {"mini": cases, "full": []}
    expected = RecordResults(records, suite).standings()
    assert 0 < expected[0].repeats < len(records)
    with open_index(tmp_path / "results.git", cache=tmp_path / "cache") as index:
        assert IndexedResults(index, suite).standings() == expected


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def infos(records: Sequence[Record]) -> list[CaseInfo]:
    """Of all cases but one, so that one is retired."""
    found = {record.case.id: record.case for record in records}
    return [CaseInfo(it.id, it.category, it.title, profiles=("mini", "full")) for _, it in sorted(found.items())[1:]]


def assert_same_site(repository: Path, tmp_path: Path, address: str = "") -> dict[str, bytes]:
    records = list(ResultsBranch(repository).records())
    cases = infos(records)
    build_site(records, cases, tmp_path / "from-lines", SITE)
    with open_index(address or repository, cache=tmp_path / "cache") as index:
        write_site(partial(IndexedResults, index), cases, tmp_path / "from-index", SITE)
    plain, indexed = files_of(tmp_path / "from-lines"), files_of(tmp_path / "from-index")
    assert plain.keys() == indexed.keys()
    # The marker says from what each page was made: the order of equal facts may differ, the pages do not.
    assert [name for name, content in plain.items() if content != indexed[name] and name != MARKER] == []
    return plain


def nights(results: ResultsBranch) -> None:
    """Good and bad nights, both profiles, second attempts, a bundle stored twice, new versions, decisions."""
    for number in (1, 2, 3):
        night = make_night(f"night-{number}", seed=number, started=START + timedelta(days=number))
        results.commit(bundle_of(night, f"night-{number}", days=number))
    results.commit(bundle_of(make_night("night-2", seed=9, started=START + timedelta(days=4)), "night-2", 2, days=2))
    same = make_night("night-3", seed=3, started=START + timedelta(days=3))
    results.commit(bundle_of(same, "night-3", 2, days=3))
    rng = random.Random(4)
    odd = [
        make_record(
            run="odd", profile="full" if n % 2 else "mini", trial=n, agent_version=n % 3, case_version=n // 12,
            started=START + timedelta(days=6, seconds=n // 3), agent_seconds=100 * rng.random(), steps=n,
            cost_usd=None if n % 7 == 0 else rng.random(), cost_status=("exact", "estimated", "simulated")[n % 3],
            checks=[make_check("present", 1.0), make_check(f"check_{n % 4}", rng.random())],
            metrics=[Metric(name="loss", value=rng.random(), unit=("", "nats")[n % 2])],
            claims=[make_claim(rng.random())], overclaims=n % 2, flags=[make_note()] * (n % 3),
            failure_modes=[make_note("gave_up")] if n % 5 == 0 else [],
        )
        for n in range(1, 30)
    ]  # fmt: skip
    # Some in another sandbox, so that tables warn of it, and do not rank them.
    odd[11:14] = [without_isolation(it) for it in odd[11:14]]
    # A stranger's records of the same name, which do not compete.
    odd += [make_record(run="odd", trial=n, ranked=False, cell=f"stranger/{n}") for n in (1, 2)]
    results.commit(bundle_of(odd, "odd", days=6))
    facts = {"why": "x", "who": "me", "when": "2026-11-21T00:00:00Z"}
    results.decide(Decision(kind="withdrawn", run="night-1", agent="aide", **facts))


@pytest.fixture
def results(tmp_path: Path) -> ResultsBranch:
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()
    return branch


@pytest.mark.parametrize("days", [at_night(100), 2])
def test_the_site_from_the_index_is_the_site_from_the_lines(
    results: ResultsBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """Also where only the newest days are looked at first."""
    nights(results)
    monkeypatch.setattr(index_nights, "DAYS", days)
    monkeypatch.setattr(index_results, "RECENT_DAYS", days)
    site = assert_same_site(tmp_path / "results.git", tmp_path)
    text = b"".join(site.values())
    for words in (
        b"another attempt at this cell counts",
        b"another version of the case",
        b"the case is not in the suite",
    ):
        assert words in text


def test_behind_a_url_it_is_the_same_too(results: ResultsBranch, tmp_path: Path) -> None:
    results.commit(bundle_of())
    assert_same_site(tmp_path / "results.git", tmp_path, f"file://{tmp_path}/results.git")


def test_without_results_it_is_the_same_too(results: ResultsBranch, tmp_path: Path) -> None:
    assert b"No results yet" in assert_same_site(tmp_path / "results.git", tmp_path)["index.html"]


@pytest.mark.parametrize("days", [at_night(1), 2, at_night(5)])
def test_the_newest_trials_are_the_same_however_few_days_are_looked_at_first(
    results: ResultsBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """Agents and cases that ran lately, that did not, and a case of which most attempts were withdrawn or repeated."""
    nights(results)
    for number in range(4):
        started = START + timedelta(days=7 + number, hours=number)
        later = make_record(run=f"late-{number}", trial=number + 1, started=started)
        results.commit(bundle_of([later], f"late-{number}", days=7 + number))
    with open_index(tmp_path / "results.git", cache=tmp_path / "cache") as index:
        answers = []
        for recent in (1000, days):
            monkeypatch.setattr(index_results, "RECENT_DAYS", recent)
            asked = IndexedResults(index)
            found = [(n, m, asked.trials(n, m)) for n, m in ((1, 1), (3, 2), (40, 1), (300, 12))]
            answers.append(
                [(n, m, [(it.record.to_line(), it.kept, it.current) for it in them]) for n, m, them in found]
            )
    assert answers[0] == answers[1]
    sizes = [len(them) for *_, them in answers[0]]
    assert sizes == sorted(sizes) and len(set(sizes)) == 4


def test_a_large_branch_has_pages_of_the_newest_cells_and_no_other_line_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_files, "MOST_LINES", 25)
    monkeypatch.setattr(entries, "MOST_CELLS", 40)
    monkeypatch.setattr(entries, "MOST_TRIALS", 3)
    read: set[int] = set()

    def counted(index: Index, ids: Sequence[int]) -> object:
        read.update(ids)
        return whole_records.records_at(index, ids)

    monkeypatch.setattr("bench.index.results.records_at", counted)
    world = World(seed=3, nights=30, agents=6, cases=8, last=START)
    make_branch(world, tmp_path / "results.git", lambda line: None)
    site = assert_same_site(tmp_path / "results.git", tmp_path)
    pages = sum(name.startswith("runs/") for name in site)
    listed = [content for name, content in site.items() if name.startswith("data/records") and name.endswith(".jsonl")]
    assert sum(content.count(b"\n") for content in listed) == pages
    assert 8 * 40 <= pages <= len(read) < 2 * 8 * 40 < 30 * 6 * 8
    assert b"<b>1,440</b> results" in site["index.html"]
    months = {name: json.loads(content) for name, content in site.items() if name.startswith("data/cells/")}
    assert sum(len(it["rows"]) for it in months.values()) == 30 * 6 * 8
    assert max(len(it["rows"]) for it in months.values()) == 25
    for name, month in months.items():
        assert f"../{name}".encode() in site[f"cases/{month['case']}.html"], "a page that links to its own months"
        assert all(row[0].startswith(month["month"]) for row in month["rows"])


def test_every_cell_is_listed_by_month_once(
    results: ResultsBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts, bundles stored twice, withdrawn records: the same lines from the index and from the records."""
    monkeypatch.setattr(entries, "MOST_CELLS", 1)
    monkeypatch.setattr(entries, "MOST_TRIALS", 1)
    nights(results)
    site = assert_same_site(tmp_path / "results.git", tmp_path)
    lines = RecordResults(list(ResultsBranch(tmp_path / "results.git").records())).case_months()
    rows = sum(len(json.loads(content)["rows"]) for name, content in site.items() if name.startswith("data/cells/"))
    assert rows == sum(it.cells for it in lines) > 0


def test_old_months_beyond_the_cap_are_left_out_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MOST_CELLS", 1)
    monkeypatch.setattr(entries, "MOST_TRIALS", 1)
    monkeypatch.setattr(cell_files, "MOST_LISTED", 5)
    records = [
        make_record(started=START - timedelta(days=31 * month, hours=hour), run=f"run-{month}-{hour}")
        for month in (0, 1, 2)
        for hour in (0, 1)
    ]
    build_site(records, infos([make_record(case="aaa"), records[0]]), tmp_path / "site", SITE)
    listed = sorted(path.stem for path in (tmp_path / "site" / "data" / "cells").rglob("*.json"))
    assert listed == sorted({record.started[:7] for record in records})[1:]
    assert "The newest 4;" in (tmp_path / "site" / "cases" / f"{records[0].case.id}.html").read_text()


@pytest.mark.parametrize("suite", [[], ["--suite", "demo"]])
def test_the_table_is_the_same_with_and_without_the_index(
    results: ResultsBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suite: list[str]
) -> None:
    nights(results)
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    shown = []
    for available in (True, False):
        monkeypatch.setattr("bench.index.query.is_available", lambda answer=available: answer)
        done = CliRunner().invoke(show, [str(tmp_path / "results.git"), *suite])
        assert done.exit_code == 0, done.output
        shown.append(done.stdout)
    assert shown[0] == shown[1]
    assert "409 records" in shown[0]
    assert "trials left out: they repeat only some of the cases" in shown[0]
    assert "warning: react with" in shown[0] and "sandboxes (" in shown[0]


def _known(digests: dict[str, str], case: str) -> str:
    return digests.get(case, "")


def test_the_version_of_a_case_that_counts_is_the_same(results: ResultsBranch, tmp_path: Path) -> None:
    records = [
        make_record(agent=agent, case=case, case_version=version, run=f"run-{day}", started=START + timedelta(days=day))
        for day, (agent, case, version) in enumerate(
            [("a", "x", 1), ("b", "x", 1), ("c", "x", 2), ("a", "y", 1), ("b", "y", 2), ("a", "z", 3), ("b", "z", 3)]
        )
    ]
    for record in records:
        results.commit(bundle_of([record], record.provenance.run))
    digests = {it.case.id: it.case.digest for it in records if it.agent.id == "a"}
    with open_index(tmp_path / "results.git", cache=tmp_path / "cache") as index:
        for known in ({}, digests, {"x": records[2].case.digest}):
            installed = partial(_known, known)
            found = IndexedResults(index, None, installed).standings()
            assert found == RecordResults(records, None, installed).standings()
            assert len(found) > 1


def test_results_in_any_order_are_the_same_results() -> None:
    records = make_night(seed=1) + make_night("night-2", seed=2)
    one, other = RecordResults(records), RecordResults(random.Random(1).sample(records, len(records)))
    for name in ("standings", "cases", "versions", "conditions", "findings", "checks", "metrics"):
        assert getattr(one, name)() == getattr(other, name)()


def test_every_answer_of_the_index_has_an_order(
    results: ResultsBranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB answers with several threads: without an order, equal results would make other facts at every build."""
    nights(results)
    asked: list[str] = []
    table = Index.table

    def note(self: Index, sql: str, values: Sequence[object] = ()) -> pa.Table:
        asked.append(sql)
        return table(self, sql, values)

    with open_index(tmp_path / "results.git", cache=tmp_path / "cache") as index:
        monkeypatch.setattr(Index, "table", note)
        every = IndexedResults(index)
        given = {"nights": ("success",), "trials": (5, 5), "lines_of_month": ("2026-11",)}
        names = [name for name, it in vars(IndexedResults).items() if callable(it) and not name.startswith("_")]
        for name in names:
            getattr(every, name)(*given.get(name, ()))
    assert len(asked) > len(names)
    unordered = [sql for sql in asked if sql.rfind("ORDER BY") < sql.rfind("FROM ")]
    assert [sql for sql in unordered if "SELECT DISTINCT run FROM cells" not in sql] == []
    assert [sql for sql in asked if re.search(r"\bavg\((?!success::INT\)|\w+ ORDER BY)", sql)] == []


def test_different_rows_are_those_that_numpy_finds() -> None:
    columns = np.random.default_rng(5).integers(0, [[3], [1], [9]], size=(3, 400))
    found, places = _different(*columns)
    expected, inverse = np.unique(columns, axis=1, return_inverse=True)
    assert found.tolist() == expected.tolist() and places.tolist() == inverse.reshape(-1).tolist()
    nothing, nowhere = _different(*np.zeros((2, 0), dtype=np.int64))
    assert nothing.shape == (2, 0) and len(nowhere) == 0


@pytest.mark.parametrize("nights", [55, at_night(57), at_night(60), at_night(75)])
def test_periods_are_the_same_wherever_days_end_and_weeks_begin(tmp_path: Path, nights: int) -> None:
    world = World(seed=3, nights=nights, agents=2, cases=2)
    make_branch(world, tmp_path / "results.git", lambda line: None)
    lines = [
        line for who in range(2) for _, text in agent_nights(world, who, range(nights)) for line in text.splitlines()
    ]
    expected = RecordResults(map(Record.model_validate_json, lines))
    with open_index(tmp_path / "results.git", cache=tmp_path / "cache") as index:
        found = IndexedResults(index)
        assert found.case_periods() == expected.case_periods()
        assert found.versions() == expected.versions()
