"""The static site: what it says, what it must never let through, and how it takes its place."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import shutil
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.cli.pages import _info
from bench.formats.record import Record
from bench.pages import render as figures
from bench.pages.board import CaseInfo
from bench.pages.build import MARKER, build_site
from bench.pages.chart import Point, frontier, scatter
from bench.pages.render import agent_page, cell_page
from bench.stats import Entrant
from tests.helpers.cells import make_case
from tests.helpers.pages import HOSTILE, SITE, cases_of, hostile_records
from tests.helpers.records import (
    GPT,
    SONNET,
    START,
    make_check,
    make_night,
    make_record,
)

CSP = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"


class Page(HTMLParser):
    """What a test wants to know of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, name: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.tags if tag == name]

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


@pytest.fixture(scope="module")
def night() -> list[Record]:
    records = [record for n in range(2) for record in make_night(f"night-{n}", START + timedelta(days=n), seed=n)]
    return [*records, *hostile_records()]


@pytest.fixture(scope="module")
def built(night: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pages") / "site"
    known = [record for record in night if record.case.id != "gone"]
    written = build_site(night, cases_of(known, task=HOSTILE, readme=HOSTILE), out, SITE, title=f"Board {HOSTILE}")
    assert written == sorted(path for path in out.rglob("*") if path.is_file())
    return out


def pages(folder: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(folder.rglob("*.html"))}


def test_there_is_a_page_for_the_board_every_case_every_agent_and_every_cell(built: Path, night: list[Record]) -> None:
    assert len(list(built.glob("runs/*/*.html"))) == len(night)
    assert {path.stem for path in built.glob("cases/*.html")} == {record.case.id for record in night}
    agents = {path.name for path in built.glob("agents/*.html")}
    assert {"react--anthropic--claude-sonnet-4-5.html", "react--openai--gpt-5-mini.html", "oracle.html"} < agents
    index = Page(built / "index.html")
    for words in ("openhands", "Wilson", f"{len(night)}", "2026-11-21", "replayed", "References"):
        assert words in index.text


def test_hostile_text_stays_text(built: Path) -> None:
    seen = 0
    for path, page in pages(built).items():
        assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "iframe", "object", "style", "form"}), path
        for tag, attributes in page.tags:
            assert not any(name.startswith("on") or name in {"style", "srcdoc"} for name in attributes), (path, tag)
        source = path.read_text(encoding="utf-8")
        assert "\u202e" not in source
        assert "\x1b" not in source
        seen += source.count("&lt;script&gt;")
    assert seen > 20, "the hostile texts are shown, escaped"
    cell = next(built.glob("runs/evil/nan_loss_debug-evil-1-*.html"))
    assert "\\u202egnp\\u001b[31m" in "".join(Page(path).text for path in built.glob("runs/evil/*.html")), cell


def test_every_link_leads_somewhere_within_the_site(built: Path) -> None:
    found = pages(built)
    outside = []
    for path, page in found.items():
        assert len(page.ids()) == len(set(page.ids())), path
        for attributes in page.all("a") + page.all("link"):
            url = urlsplit(attributes["href"])
            if url.scheme:
                outside.append((url.scheme, attributes.get("rel", "")))
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            assert target.is_file(), (path, attributes["href"])
            assert target.is_relative_to(built.resolve())
            assert not url.fragment or url.fragment in found[target].ids(), (path, attributes["href"])
        for tag, attributes in page.tags:
            for name in ("aria-labelledby", "aria-describedby"):
                assert set(attributes.get(name, "").split()) <= set(page.ids()), (path, tag)
    assert outside == [("https", "noreferrer noopener external")], "only the run of a record may be outside"


def test_nothing_is_loaded_from_elsewhere_and_the_policy_forbids_it(built: Path) -> None:
    for path, page in pages(built).items():
        policies = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
        assert policies == [CSP]
        assert all("src" not in attributes for _, attributes in page.tags), path
    style = (built / "static" / "style.css").read_text()
    assert not re.search(r"url\(|@import|https?:", style)


def test_tables_are_named_and_scoped(built: Path) -> None:
    for path, page in pages(built).items():
        assert len(page.all("table")) == len(page.all("caption")), path
        assert all(heading.get("scope") for heading in page.all("th")), path
        assert len(page.all("h1")) == 1
        assert "lang" in page.all("html")[0]
        for frame in page.all("div"):
            if frame.get("class") == "scroll":
                assert (frame["role"], frame["tabindex"]) == ("region", "0")


def test_references_and_incomplete_agents_have_no_rank(built: Path) -> None:
    rows = json.loads((built / "data" / "leaderboard.json").read_text())["entrants"]
    by_agent = {(row["agent"], row["model"]): row for row in rows}
    assert by_agent["oracle", ""]["rank"] is None
    assert by_agent["oracle", ""]["success"] == 1.0
    assert by_agent["nop", ""]["score"] == 0.0
    assert by_agent["evil", "=HYPERLINK(1)"]["rank"] is None
    ranked = [row["rank"] for row in rows if row["rank"] is not None]
    assert ranked == sorted(ranked)
    assert len(ranked) == 5
    index = (built / "index.html").read_text()
    for agent in ("oracle", "nop"):
        row = next(part for part in index.split("<tr ") if f'agents/{agent}.html"' in part)
        assert "ref." in row


def test_data_files_hold_the_same_figures(built: Path, night: list[Record]) -> None:
    lines = (built / "data" / "records.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    key = cell_page
    assert sorted((Record.model_validate_json(line) for line in lines), key=key) == sorted(night, key=key)
    rows = json.loads((built / "data" / "leaderboard.json").read_text())["entrants"]
    table = list(csv.DictReader(io.StringIO((built / "data" / "leaderboard.csv").read_text())))
    assert [row["agent"] for row in table] == [row["agent"] for row in rows]
    assert [float(row["success"]) for row in table] == [row["success"] for row in rows]
    assert "'=HYPERLINK(1)" in {row["model"] for row in table}


def test_what_is_uncertain_is_shown_with_its_n(built: Path) -> None:
    page = re.sub(r"\s+", " ", Page(built / "agents" / "react--openai--gpt-5-mini.html").text)
    assert re.search(r"2 ?\d+% \d+–\d+% ?\d+% \d+–\d+% ?n=7", page), "over the cases"  # noqa: RUF001
    assert re.search(r"\d+% \d+–\d+% n=4", page), "of one case, over its trials"  # noqa: RUF001
    rows = json.loads((built / "data" / "leaderboard.json").read_text())["entrants"]
    row = next(row for row in rows if (row["agent"], row["model"]) == ("react", GPT))
    assert row["pass_hat_2"] <= row["success"] <= row["pass_at_2"]
    assert (row["pass_2_cases"], row["pass_5_cases"], row["pass_at_5"]) == (7, 0, None)
    assert row["pass_at_2_low"] <= row["pass_at_2"] <= row["pass_at_2_high"]
    assert row["rank_best"] <= row["rank"] <= row["rank_worst"]


def test_the_same_records_in_any_order_give_the_same_bytes(tmp_path: Path, night: list[Record]) -> None:
    shuffled = random.Random(3).sample(night, len(night))
    cases = cases_of(night)
    for records, name in ((night, "a"), (shuffled, "b")):
        build_site(records, cases if name == "a" else cases[::-1], tmp_path / name, SITE)
    first, second = (
        {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
        for out in (tmp_path / "a", tmp_path / "b")
    )
    assert first == second


def test_without_records_there_is_still_a_site(tmp_path: Path) -> None:
    build_site([], cases_of([make_record()]), tmp_path / "site", SITE)
    assert "No results yet" in Page(tmp_path / "site" / "index.html").text
    assert "No result of this case counts yet" in Page(tmp_path / "site" / "cases" / "nan_loss_debug.html").text
    build_site([], [], tmp_path / "bare", SITE)
    assert (tmp_path / "bare" / "data" / "leaderboard.csv").read_bytes() == b""


def test_costs_say_what_they_are(tmp_path: Path) -> None:
    records = [
        make_record(agent="paid", cost_usd=0.5, cost_status="exact"),
        make_record(agent="guessed", cost_usd=0.25, cost_status="estimated"),
        make_record(agent="replay", cost_usd=0.125, cost_status="simulated"),
        make_record(agent="unpriced", cost_usd=None, cost_status="unknown"),
    ]
    build_site(records, cases_of(records), tmp_path / "site", SITE)
    rows = (tmp_path / "site" / "index.html").read_text().split("</tr>")
    plain = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)) for row in rows]
    cells = {
        agent: next(text for text, row in zip(plain, rows, strict=True) if f"agents/{agent}--" in row)
        for agent in ("paid", "guessed", "replay", "unpriced")
    }
    assert "$0.500" in cells["paid"]
    assert "replayed" not in cells["paid"]
    assert "≈$0.250" in cells["guessed"]
    assert "$0.125 replayed" in cells["replay"]
    assert "1 unknown" in cells["unpriced"]
    assert "$" not in cells["unpriced"]


def test_a_cell_that_does_not_count_says_why(tmp_path: Path) -> None:
    later = START + timedelta(days=1)
    records = [
        make_record(case_version=1, run="old"),
        make_record(case_version=2, started=later, run="new"),
        make_record(case_version=2, started=later + timedelta(hours=1), run="new", steps=99),
        make_record(case="gone", run="new"),
    ]
    build_site(records, cases_of(records[:1]), tmp_path / "site", SITE)
    texts = {
        record.steps if record.case.id != "gone" else 0: Page(tmp_path / "site" / cell_page(record)).text
        for record in records[2:]
    }
    assert "another attempt at this cell counts" in texts[99]
    assert "the case is not in the suite" in texts[0]
    assert "an older version of the case" in Page(tmp_path / "site" / cell_page(records[0])).text
    assert "Not counted" not in Page(tmp_path / "site" / cell_page(records[1])).text


def test_a_new_site_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "site"
    build_site([make_record()], [], out, SITE)
    build_site([], [], out, SITE)
    assert not (out / "runs").exists()
    assert [path.name for path in out.parent.iterdir()] == ["site"], "nothing is left behind"


def test_a_failed_build_leaves_the_old_site_alone(tmp_path: Path) -> None:
    out, broken = tmp_path / "site", tmp_path / "broken"
    build_site([make_record()], [], out, SITE)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    shutil.copytree(SITE, broken)
    (broken / "templates" / "cell.html").write_text("{{ nothing.of.the.kind }}")
    with pytest.raises(Exception, match="nothing"):
        build_site([make_record()], [], out, broken)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "site"]


def test_a_folder_of_somebody_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for out in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(UserError, match="was not made by site build"):
            build_site([], [], out, SITE)
    (tmp_path / "empty").mkdir()
    build_site([], [], tmp_path / "empty", SITE)
    assert (tmp_path / "empty" / MARKER).is_file()
    with pytest.raises(UserError, match="has no templates"):
        build_site([], [], tmp_path / "x", tmp_path)
    with pytest.raises(UserError, match="cannot name a page"):
        build_site([], [CaseInfo("../x", "a", "b")], tmp_path / "x", SITE)


def test_milestones_stand_on_the_pages_of_case_and_cell(tmp_path: Path) -> None:
    order = ["is_loaded", "is_trained", "is_good"]
    checks = [make_check(name, value) for name, value in zip(order, (1.0, 1.0, 0.0), strict=True)]
    records = [make_record(checks=checks, milestones=order), make_record(case="other")]
    infos = [replace(it, milestones=order if it.id == "nan_loss_debug" else ()) for it in cases_of(records)]
    build_site(records, infos, tmp_path / "site", SITE)
    case, other = (Page(tmp_path / f"site/cases/{name}.html").text for name in ("nan_loss_debug", "other"))
    assert "is_loaded, then is_trained, then is_good" in case
    assert "milestone 3 of 3" in case
    assert "reached 2 of 3: is_trained" in case
    cell = next((tmp_path / "site/runs").glob("*/nan_loss_debug-*.html"))
    assert "reached 2 of 3: is_trained" in Page(cell).text
    assert "ilestone" not in other


def test_a_page_is_told_of_the_milestones_of_its_case(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", milestones=["doubles"])
    assert _info(case).milestones == ["doubles"]


NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,12}", fullmatch=True)
MODELS = st.text("aA1/-_.é ", max_size=8)


@given(st.tuples(NAMES, MODELS), st.tuples(NAMES, MODELS))
def test_addresses_of_agents_are_safe_and_never_shared(one: tuple[str, str], other: tuple[str, str]) -> None:
    first, second = (agent_page(Entrant("mini", *who)) for who in (one, other))
    assert re.fullmatch(r"agents/[a-z0-9][a-z0-9._-]*\.html", first)
    assert (first == second) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a--b", ""), ("a", "b")),
        (("a", "b/c"), ("a", "b--c")),
        (("a-", "b"), ("a", "-b")),
        (("a", "B"), ("a", "b")),
        (("a", "x" * 300), ("a", "x" * 301)),
    ],
)
def test_addresses_that_nearly_meet(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert agent_page(Entrant("mini", *one)) != agent_page(Entrant("mini", *other))


POINTS = [
    Point("dear", 2.0, 0.9, False),
    Point("cheap", 0.02, 0.5, False),
    Point("beaten", 1.0, 0.4, False),
    Point("replay", 0.001, 1.0, True),
]


def test_the_frontier_holds_those_that_nobody_beats_for_less() -> None:
    assert [point.label for point in frontier(POINTS)] == ["cheap", "dear"], "a replayed cost beats no paid one"
    assert [point.label for point in frontier(POINTS[3:])] == ["replay"]
    ties = [Point("b", 1.0, 0.5, False), Point("a", 1.0, 0.5, False), Point("c", 1.0, 0.6, False)]
    assert [point.label for point in frontier(ties)] == ["c"]


@given(
    st.lists(
        st.builds(
            Point, st.text("abcdefgh -", min_size=1, max_size=20), st.floats(0, 50), st.floats(0, 1), st.booleans()
        ),
        min_size=1,
        max_size=12,
    )
)
def test_everything_is_drawn_within_the_chart(points: list[Point]) -> None:
    chart = scatter(points, "x", 900, 400)
    assert chart is not None
    assert len(chart.marks) == len(points)
    for mark in chart.marks:
        assert chart.area.left <= mark.x <= chart.area.right
        assert chart.area.top <= mark.y <= chart.area.bottom
        assert 0 <= mark.label_x <= chart.width
    assert all(chart.area.left - 0.1 <= tick.at <= chart.area.right + 0.1 for tick in chart.x_ticks)
    assert all(point.label in chart.description for point in points)


def test_there_is_no_chart_without_points() -> None:
    assert scatter([], "x", 900, 400) is None


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (figures.usd(None), figures.UNKNOWN),
        (figures.usd(0), "$0"),
        (figures.usd(0.0002), "<$0.001"),
        (figures.usd(0.0346), "$0.035"),
        (figures.usd(1234.5), "$1,234.50"),
        (figures.duration(4), "4.0 s"),
        (figures.duration(90), "90 s"),
        (figures.duration(400), "6.7 min"),
        (figures.duration(9000), "2.5 h"),
        (figures.count(14.25), "14.2"),
        (figures.count(81234), "81k"),
        (figures.moment("2026-11-21T02:35:11Z"), "2026-11-21 02:35"),
        (figures.web_link("http://x"), ""),
        (figures.web_link("https://x/ y"), ""),
        (figures.web_link("https://x"), "https://x"),
    ],
)
def test_figures(shown: str, text: str) -> None:
    assert shown == text


def test_long_texts_are_cut_with_a_word_about_it() -> None:
    assert figures.clip("x" * 9000).endswith("… (9,000 characters in all; the data file has them)")
    assert figures.clip("short") == "short"
    assert figures.visible("a\u2066b\tc\nd\r\x00é✓") == "a\\u2066b\tc\nd\\u0000é✓"


def test_the_board_of_two_models_tells_them_apart(tmp_path: Path) -> None:
    records = [make_record(model=SONNET), make_record(model=GPT)]
    build_site(records, cases_of(records), tmp_path / "site", SITE)
    text = Page(tmp_path / "site" / "index.html").text
    assert "react · claude-sonnet-4-5" in text
    assert "react · gpt-5-mini" in text


def test_an_agent_with_many_trials_shows_the_last_and_counts_the_rest(tmp_path: Path) -> None:
    records = [make_record(run=f"night-{n}", started=START + timedelta(days=n)) for n in range(15)]
    build_site(records, cases_of(records), tmp_path / "site", SITE)
    page = Page(tmp_path / "site" / agent_page(Entrant("mini", "react", SONNET)))
    shown = [link["href"] for link in page.all("a") if "chip" in link.get("class", "")]
    assert shown == [f"../{cell_page(record)}" for record in records[3:]]
    assert "3 earlier" in page.text
    assert "15 graded" in re.sub(r"\s+", " ", page.text)
