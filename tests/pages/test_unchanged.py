"""A site of which nothing has changed is left alone, and only then; a page is kept by all that it was made by."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.base.install import DataFolders, find_data_folders
from bench.cli.pages import site
from bench.formats.record import Record
from bench.pages import asked, beside, build, fresh
from bench.pages.asked import asked_of
from bench.pages.board import CaseInfo
from bench.pages.build import SiteOptions, write_site
from bench.pages.made import BUILT, MARKER
from bench.pages.program import program_digest
from bench.pages.sheets import CellSheet, SiteFacts
from bench.pages.traces import FolderTraces
from bench.stats import RecordResults
from bench.store import Bundle, ResultsBranch
from bench.store.decisions import Decision
from bench.store.trace_storage import inline_traces
from tests.benchmarks.synthetic_branch import World, agent_nights, make_branch
from tests.helpers.cells import make_case
from tests.helpers.pages import SITE, cases_of, keep_trace
from tests.helpers.records import START, make_check, make_night, make_record
from tests.helpers.sampling import at_night
from tests.helpers.store import BRANCH, ROOT, bundle_of, edit

UNCHANGED = "(nothing has changed)"
SUITE = 'schema: 1\nid: demo\nversion: "2026.11"\ntitle: A suite\ncases: ["*"]\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a branch of two records, of which a line is none, and cases of its own."""
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    branch = ResultsBranch(tmp_path / "results.git", BRANCH)
    branch.ensure()
    branch.commit(bundle_of([make_record(case="double_it", trial=trial, run="one") for trial in (1, 2)], "one"))
    edit(tmp_path / "results.git", {"runs/2026/11/09/odd-1-react.jsonl": b"{\n"})
    make_case(tmp_path / "cases")
    (tmp_path / "cases" / "suites").mkdir()
    (tmp_path / "cases" / "suites" / "demo.yaml").write_text(SUITE)
    return tmp_path


def built(place: Path, *more: str, out: str = "site", source: str = "results.git") -> Result:
    words = ["build", str(place / source), "--out", str(place / out), "--cases", str(place / "cases"), *more]
    done = CliRunner().invoke(site, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def contents(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if name != BUILT}


def test_what_was_built_already_is_left_alone_and_says_again_what_was_left_out(place: Path) -> None:
    first = built(place)
    assert UNCHANGED not in first.stdout and "1 lines are not records" in first.stderr
    number = (place / "site").stat().st_ino
    again = built(place)
    assert again.stdout == f"site: {place / 'site' / 'index.html'} {UNCHANGED}\n"
    assert again.stderr.splitlines() == [line for line in first.stderr.splitlines() if line.startswith("note:")]
    assert (place / "site").stat().st_ino == number


def test_a_branch_behind_a_url_and_a_copy_of_the_site_are_recognized(place: Path) -> None:
    address = f"file://{place}/results.git"
    words = ["build", address, "--out", str(place / "site"), "--cases", str(place / "cases")]
    assert UNCHANGED not in CliRunner().invoke(site, words, catch_exceptions=False).stdout
    assert UNCHANGED in CliRunner().invoke(site, words, catch_exceptions=False).stdout
    shutil.copytree(place / "site", place / "copy", copy_function=shutil.copy)
    before = (place / "copy" / BUILT).read_bytes()
    assert UNCHANGED in built(place, out="copy").stdout
    assert (place / "copy" / BUILT).read_bytes() != before, "the next look need not read every file"


def edit_page(place: Path) -> None:
    """Of the same size, and by its time as old as it was."""
    page = place / "site" / "index.html"
    times = page.stat()
    page.write_bytes(page.read_bytes().replace(b"<h1>", b"<h2>", 1))
    os.utime(page, ns=(times.st_atime_ns, times.st_mtime_ns))


def add_record(place: Path) -> None:
    later = make_record(case="double_it", trial=3, run="two")
    ResultsBranch(place / "results.git", BRANCH).commit(bundle_of([later], "two", days=1))


def withdraw(place: Path) -> None:
    facts = {"why": "x", "who": "me", "when": "2026-11-21T00:00:00Z"}
    ResultsBranch(place / "results.git", BRANCH).decide(Decision(kind="withdrawn", run="one", agent="react", **facts))


def tell_more(place: Path) -> None:
    (task,) = place.glob("cases/*/*/task.md")
    task.write_text(f"{task.read_text()}\nOne more sentence.\n")


def swap_marker(place: Path) -> None:
    (place / "site" / MARKER).write_text("{}")


@pytest.mark.parametrize(
    "changed",
    [
        edit_page,
        add_record,
        at_night(withdraw),
        at_night(tell_more),
        at_night(swap_marker),
        at_night(lambda place: (place / "site" / "index.html").unlink()),
        at_night(lambda place: (place / "site" / "notes.txt").write_text("mine")),
        at_night(lambda place: (place / "site" / BUILT).write_text("{")),
        at_night(
            lambda place: (place / "cases" / "suites" / "demo.yaml").write_text(
                SUITE.replace("title", "about: x\ntitle")
            )
        ),
    ],
)
def test_whatever_changed_the_site_is_the_one_that_a_first_build_makes(
    place: Path, changed: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    built(place)
    changed(place)
    assert UNCHANGED not in built(place).stdout
    assert UNCHANGED in built(place).stdout
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(place / "another-cache"))
    built(place, out="anew")
    assert contents(place / "site") == contents(place / "anew")


def test_record_by_record_the_site_is_the_one_of_a_first_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an index and drawings that are kept, against neither: agents that are there, in a night that goes on."""
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    world = World(seed=5, nights=4, agents=2, cases=6, last=START)
    make_branch(world, tmp_path / "results.git", lambda line: None)
    for number in range(6):
        make_case(tmp_path / "cases", id=world.case(number), title=f"Case {number}")
    (tmp_path / "cases" / "suites").mkdir()
    (tmp_path / "cases" / "suites" / "demo.yaml").write_text(SUITE)
    built(tmp_path)
    ((_, night),) = agent_nights(world, 1, range(4, 5))
    kept = []
    for number, line in enumerate(night.splitlines()[:3]):
        record = Record.model_validate_json(line)
        ResultsBranch(tmp_path / "results.git", BRANCH).commit(bundle_of([record], record.provenance.run, number + 1))
        before = {path: path.stat().st_ino for path in (tmp_path / "site").rglob("*.html")}
        built(tmp_path)
        kept.append([path for path, it in before.items() if path.exists() and path.stat().st_ino == it])
    assert all(len(them) > 48 for them in kept), "most pages are those of the build before"
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "another-cache"))
    built(tmp_path, out="anew")
    assert contents(tmp_path / "site") == contents(tmp_path / "anew")
    assert len(list((tmp_path / "anew" / "runs").rglob("*.html"))) == 4 * 2 * 6 + 3


def test_other_options_are_another_site(place: Path) -> None:
    built(place)
    for words in (["--base-url", "https://example.org/"], ["--traces-mb", "1"]):
        assert UNCHANGED not in built(place, *words).stdout
        assert UNCHANGED in built(place, *words).stdout


def test_other_sources_or_another_program_make_another_site(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SITE, place / "sources")
    ours = find_data_folders()
    folders = DataFolders(place / "cases", ours.agents, place / "sources", ours.cache)
    ask = partial(asked_of, str(place / "results.git"), BRANCH, folders)
    first = ask({"suite": "demo"})
    assert first is not None and first == ask({"suite": "demo"})
    (place / "sources" / "templates" / "index.html").write_text("other")
    assert ask({"suite": "demo"}) != first
    assert asked_of(str(place / "results.git"), "no-such-branch", folders, {}) is None
    assert asked_of(str(place / "nothing"), BRANCH, folders, {}) is None
    now = ask({})
    monkeypatch.setattr(asked, "program_digest", lambda: "another")
    assert ask({}) != now


def test_the_digest_of_the_program_covers_every_room_and_no_data(tmp_path: Path) -> None:
    package = tmp_path / "bench"
    shutil.copytree(ROOT / "bench", package, ignore=shutil.ignore_patterns("__pycache__"))
    first = seen = program_digest(package)
    (package / "data").mkdir(exist_ok=True)
    (package / "data" / "case.py").write_text("x = 1")
    program_digest.cache_clear()
    assert program_digest(package) == first
    rooms = ("base", "formats", "gateway", "index", "pages", "stats", "store")
    for path in (next((package / room).glob("[a-z]*.py")) for room in rooms):
        path.write_text(f"{path.read_text()}\n# other\n")
        program_digest.cache_clear()
        before, seen = seen, program_digest(package)
        assert seen != before, path


def test_no_page_is_kept_that_another_program_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [make_record()]
    make = partial(write_site, partial(RecordResults, records), cases_of(records), tmp_path / "site", SITE)
    first = make()
    assert make().made == 0
    monkeypatch.setattr(build, "program_digest", lambda: "with another room")
    assert (make().made, make().kept) == (first.made, first.made)


def test_a_page_that_somebody_changed_is_made_again(tmp_path: Path) -> None:
    records = [make_record()]
    make = partial(write_site, partial(RecordResults, records), cases_of(records), tmp_path / "site", SITE)
    make()
    page = tmp_path / "site" / "method.html"
    right = page.read_bytes()
    page.write_bytes(right.replace(b"<h1>", b"<h2>"))
    assert make().made == 1
    assert page.read_bytes() == right


def test_a_trace_that_could_not_be_read_is_looked_for_again(place: Path) -> None:
    failed = make_check("doubles", 0.0)
    record = keep_trace(place / "run", make_record(case="double_it", run="three", checks=[failed]))
    kept = inline_traces([record], place / "run")
    stored = [it.model_copy(update={"place": "folder:gone"}) for it in kept.traces]
    ResultsBranch(place / "results.git", BRANCH).commit(Bundle("three", 1, [record], START, stored, {}))
    for _ in range(2):
        assert UNCHANGED not in built(place).stdout
    (page,) = (place / "site" / "runs" / "three").glob("*.html")
    assert "gone" in page.read_text(), "the page says what is wrong"


def test_a_run_folder_is_seen_to_change(place: Path) -> None:
    run = place / "run"
    (run / "cells").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    ask = partial(asked_of, str(run), BRANCH, find_data_folders(), {})
    first = ask()
    assert first is not None and first == ask() and first.tip == ""
    (run / "cells" / "one.json").write_text("{}")
    assert ask() != first


def test_pages_that_a_process_beside_makes_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for one whose trace is shown, which is made here."""
    night = make_night("night-1", seed=4)
    night[0] = keep_trace(tmp_path / "run", night[0])
    traces = FolderTraces(lambda run: tmp_path / "run")
    options = SiteOptions(base="https://example.org/", example="made up", traces=traces)

    def site(name: str) -> dict[str, bytes]:
        cases = [CaseInfo(it, "debugging", it) for it in sorted({record.case.id for record in night})]
        write_site(partial(RecordResults, night), cases, tmp_path / name, SITE, options)
        return contents(tmp_path / name)

    here = site("here")
    monkeypatch.setattr(beside, "FEWEST", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    asked: list[Sequence[CellSheet]] = []
    made_beside = beside.made_beside

    def noted(folder: Path, site: Path, sources: str, facts: SiteFacts, cells: Sequence[CellSheet]) -> object:
        asked.append(cells)
        return made_beside(folder, site, sources, facts, cells)

    monkeypatch.setattr(fresh, "made_beside", noted)
    assert site("beside") == here
    assert [len(cells) for cells in asked] == [len(night) - 1]


def test_a_process_beside_that_fails_ends_the_build_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "FEWEST", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(beside, "_order", lambda cell: {"line": cell.entry.line})
    with pytest.raises(RuntimeError, match="KeyError: 'entry'"):
        write_site(partial(RecordResults, make_night("night-1", seed=4)), [], tmp_path / "site", SITE)
    assert not list(tmp_path.iterdir())
