"""The static site: what it says, what it must never let through, and how it takes its place."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import re
import shutil
import struct
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.base.install import find_data_folders
from bench.cli.pages import _info, case_infos
from bench.formats.help import HelpGiven
from bench.formats.model_usage import ModelUsage, Tokens
from bench.formats.observed import NameQuery, SelfReported
from bench.formats.record import Profile, Record
from bench.pages import words as figures
from bench.pages.addresses import agent_page, cell_page
from bench.pages.board import CaseInfo
from bench.pages.build import SiteOptions, Written, build_site, write_site
from bench.pages.charts import cost_chart
from bench.pages.costs import Point, at_budgets, frontier
from bench.pages.made import MARKER
from bench.pages.weights import read_open_weights
from bench.stats import Entrant, Estimate, Interval, RecordResults
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

CSP = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)


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
        assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe", "object", "style", "form"}), path
        scripts = {attributes.get("src", "")[-10:] for attributes in page.all("script")}
        assert scripts <= {"/tables.js", "numbers.js", "compare.js"}, path
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
        sources = [attributes["src"] for _, attributes in page.tags if "src" in attributes]
        assert all((path.parent / source).resolve().is_relative_to(built.resolve()) for source in sources), path
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


@pytest.mark.parametrize(
    ("question", "clicks", "words"),
    [
        ("Which agent for my budget?", (), ("The best agent for a budget", "Up to", "openhands")),
        ("Is this difference real?", (), ("Surely ahead of", "Cannot be told")),
        ("Why did it fail here?", ("agents/aide--openai--gpt-5-mini.html",), ("Findings", "no_progress", "✗")),
        ("What changed last night?", (), ("Last night", "Confirmed step", "react")),
        ("How do I reproduce it?", (), ("ml-dev-bench run --agent",)),
    ],
)
def test_a_readers_questions_are_answered_within_two_clicks(
    built: Path, question: str, clicks: Sequence[str], words: Sequence[str]
) -> None:
    here = built / "index.html"
    asked = re.search(rf'<a href="([^"]+)"><b>{re.escape(question)}', here.read_text())
    assert asked is not None
    here = built / urlsplit(asked[1]).path
    for click in clicks:
        assert click in {urlsplit(link["href"]).path for link in Page(here).all("a")}
        here = built / click
    text = Page(here).text
    assert all(word in text for word in words), here


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
    assert "another version of the case" in Page(tmp_path / "site" / cell_page(records[0])).text
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


def test_an_agents_own_count_and_the_names_it_asked_for_stand_on_the_cells_page(tmp_path: Path) -> None:
    said = SelfReported(calls=12, input_tokens=84210, cost_usd=0.41)
    asked = [NameQuery(name="api.example.org", queries=2, expected=True), NameQuery(name="", queries=5)]
    record = make_record().model_copy(update={"self_reported": said, "name_queries": asked})
    build_site([record], cases_of([record]), tmp_path / "site", SITE)
    text = Page(tmp_path / "site" / cell_page(record)).text
    assert "12 calls, 84,210 tokens of input, $0.41" in text
    assert "api.example.org 2 queries expected" in text
    assert "not listed by this sandbox 5 queries" in text


def test_a_trial_with_help_says_so_and_has_a_page_of_its_own_entrant(tmp_path: Path) -> None:
    plain = make_record()
    given = HelpGiven(by="person", questions=3, answered=2)
    agent = plain.agent.model_copy(update={"ranked": False})
    run = plain.provenance.model_copy(update={"run": "helped-1"})
    helped = plain.model_copy(update={"help": given, "agent": agent, "provenance": run})
    build_site([plain, helped], cases_of([plain]), tmp_path / "site", SITE)
    assert "a person answered 2 of 3 questions" in Page(tmp_path / "site" / cell_page(helped)).text
    assert "questions" not in Page(tmp_path / "site" / cell_page(plain)).text
    pages = [Page(path).text for path in (tmp_path / "site" / "agents").rglob("*.html")]
    assert sum("It could ask for help, so it does not compete." in text for text in pages) == 1
    assert len(pages) == 2


def test_an_agents_own_count_stands_on_its_page_beside_the_metered_one(tmp_path: Path) -> None:
    """Summed over the cells for which both are known; an agent that reports nothing has no such line."""
    tokens = Tokens(input_uncached=1000, cache_read=300, output=50)
    used = [ModelUsage(model=SONNET, calls=2, tokens=tokens, cost_usd=0.02, cost_status="exact")]
    said = [
        SelfReported(calls=2, input_tokens=1250, output_tokens=50),
        SelfReported(input_tokens=1300, cost_usd=0.5),
        None,
    ]
    records = [
        make_record(trial=number + 1).model_copy(update={"self_reported": it, "usage": used, "cost_usd": 0.02})
        for number, it in enumerate(said)
    ]
    silent = make_record(agent="silent")
    build_site([*records, silent], cases_of([*records, silent]), tmp_path / "site", SITE)
    pages = {path.name: Page(path).text for path in (tmp_path / "site/agents").glob("*.html")}
    (text,) = [text for name, text in pages.items() if not name.startswith("silent")]
    assert "calls 2 (2) in 1 cell; tokens in 2,550 (2,600) in 2 cells; tokens out 50 (50) in 1 cell" in text
    assert "dollars $0.500 ($0.020) in 1 cell. Only the metered figures count." in text
    assert not [name for name, text in pages.items() if name.startswith("silent") and "counts itself" in text]


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


def point(label: str, cost: float, mean: float, *, replayed: bool = False, complete: bool = True) -> Point:
    value = Estimate(mean, 7, Interval(max(0, mean - 0.1), min(1, mean + 0.1)))
    return Point(label, None, cost, value, value, replayed, complete)


POINTS = [
    point("dear", 2.0, 0.9),
    point("cheap", 0.02, 0.5),
    point("beaten", 1.0, 0.4),
    point("partial", 0.01, 0.95, complete=False),
    point("replay", 0.001, 1.0, replayed=True),
]


def test_the_frontier_holds_those_that_met_every_case_and_that_no_other_beats_for_less() -> None:
    best = frontier(POINTS, "score")
    assert [it.label for it in best] == ["cheap", "dear"], "a replayed cost beats no paid one"
    assert [it.label for it in frontier(POINTS[4:], "score")] == ["replay"]
    ties = [point("b", 1.0, 0.5), point("a", 1.0, 0.5), point("c", 1.0, 0.6)]
    assert [it.label for it in frontier(ties, "success")] == ["c"]
    assert [(it.usd, it.point.label) for it in at_budgets(best, "score") if it.point] == [
        (0.03, "cheap"),
        (3.0, "dear"),
    ]


def test_a_chart_is_drawn_in_classes_with_words_and_numbers() -> None:
    chart = cost_chart([*POINTS, point(HOSTILE, 0.5, 0.7)], "score", "here", "mini")
    assert chart is not None
    assert set(chart.sizes) == {"wide", "narrow"}
    for size, svg in chart.sizes.items():
        assert not re.search(r"style=|<script|#0000|url\((?!#here)|href", svg)
        assert f'<title id="here-{size}-title">' in svg
        assert {"line-accent", "ink-accent", "line-faint"} <= set(re.findall(r"(?:ink|line)-[a-z]+", svg))
        assert "US dollars" in svg
        assert "partial" in svg
    assert [row[0] for row in chart.figures.rows] == ["replay", "partial", "cheap", HOSTILE, "beaten", "dear"]
    assert "partial" not in chart.description


def test_there_is_no_chart_without_points() -> None:
    assert cost_chart([], "score", "x", "mini") is None
    # Costs of one agent whose first digits come close to a power of ten, and none.
    for cost in (0.000898725, 0.0, 1e-9, 9.99, 100.0, 99_999.0):
        assert cost_chart([point("one", cost, 0.5)], "score", "x", "mini") is not None, cost


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
        (figures.number(math.nan), "not a number"),
        (figures.points(-0.294), "−29"),  # noqa: RUF001
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


def test_a_page_that_has_not_changed_is_taken_from_the_last_build(tmp_path: Path) -> None:
    out = tmp_path / "site"
    records = [make_record(case=case, trial=trial) for case in ("one", "two") for trial in (1, 2)]
    cases = cases_of(records)

    def built(them: list[Record]) -> Written:
        return write_site(partial(RecordResults, them), cases, out, SITE)

    first = built(records)
    assert (first.kept, first.made) == (0, len(list(out.rglob("*.html"))))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    again = built(records)
    assert (again.kept, again.made) == (first.made, 0)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    later = make_record(case="two", trial=3, started=START + timedelta(hours=2))
    built([*records, later])
    changed = {str(path.relative_to(out)) for path in out.rglob("*.html") if before.get(path) != path.read_bytes()}
    agent = agent_page(Entrant("mini", "react", SONNET))
    assert {"index.html", "cases/two.html", cell_page(later), agent} <= changed
    assert not changed & {"cases/one.html", "method.html", *map(cell_page, records)}


def test_a_site_with_an_address_has_a_page_for_what_is_not_there(tmp_path: Path) -> None:
    """It is shown at any address, so that its links start at the root of the site."""
    records = [make_record(case="one"), make_record(case="old")]
    for base, root in (("https://example.org/board/", "/board/"), ("https://example.org", "/")):
        out = tmp_path / root.strip("/").replace("/", "-")
        write_site(partial(RecordResults, records), cases_of(records[:1]), out / "site", SITE, SiteOptions(base=base))
        page = Page(out / "site" / "404.html")
        links = [it["href"] for it in page.all("a") if it.get("href", "#")[0] != "#"]
        assert {f"{root}cases/one.html#cells", f"{root}cases/old.html#cells", f"{root}index.html"} <= set(links)
        assert all(link.startswith(root) for link in links)
        assert {it["src"] for it in page.all("script")} == {f"{root}static/tables.js", f"{root}static/gone.js"}
        assert "404" not in (out / "site" / "sitemap.xml").read_text()
    write_site(partial(RecordResults, records), cases_of(records), tmp_path / "nowhere", SITE)
    assert not (tmp_path / "nowhere" / "404.html").exists()


def test_feeds_and_badges_say_what_is_stale(tmp_path: Path) -> None:
    old = make_record(agent="old", started=START - timedelta(days=20))
    records = [make_record(), old]
    options = SiteOptions(suite="smoke", base="https://example.org/board/")
    write_site(partial(RecordResults, records), cases_of(records), tmp_path / "site", SITE, options)
    stem = "--anthropic--claude-sonnet-4-5"
    fresh, stale = (
        json.loads((tmp_path / f"site/badges/mini/{name}{stem}.json").read_text()) for name in ("react", "old")
    )
    assert (fresh["schemaVersion"], fresh["label"]) == (1, "smoke")
    assert re.match(r"#1, 100% \(", fresh["message"])
    assert "isError" not in fresh and stale["isError"]
    assert "stale since 2026-10-31" in (tmp_path / f"site/badges/mini/old{stem}.svg").read_text()
    feed = ET.fromstring((tmp_path / "site/feed.atom").read_bytes())
    assert feed.tag == "{http://www.w3.org/2005/Atom}feed"
    assert json.loads((tmp_path / "site/feed.json").read_text())["home_page_url"] == options.base
    places = [loc.text or "" for loc in ET.fromstring((tmp_path / "site/sitemap.xml").read_bytes()).iter() if loc.text]
    assert f"{options.base}costs.html" in places
    assert "stale" in Page(tmp_path / "site/index.html").text


def test_a_link_to_the_site_has_a_picture_of_the_board_or_of_the_agent(tmp_path: Path) -> None:
    records = [make_record(), *hostile_records()]
    options = SiteOptions(suite="smoke", base="https://example.org/board/", example="Made up.")
    first = write_site(partial(RecordResults, records), cases_of(records), tmp_path / "site", SITE, options)
    shown = set()
    for path, page in pages(tmp_path / "site").items():
        said = {it["property"]: it["content"] for it in page.all("meta") if "property" in it}
        address = str(path.relative_to(tmp_path / "site"))
        if not address.startswith("traces/"):
            assert said["og:url"] == f"{options.base}{address}"
            shown.add(unquote(said["og:image"].removeprefix(options.base)))
    assert len(shown) > 2 and shown == {f"social/{path.name}" for path in (tmp_path / "site/social").iterdir()}
    for image in shown:
        head = (tmp_path / "site" / image).read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", head[16:]) == (1200, 630)
    again = write_site(partial(RecordResults, records), cases_of(records), tmp_path / "site", SITE, options)
    assert (again.made, again.kept) == (0, first.made)
    build_site(records, cases_of(records), tmp_path / "bare", SITE)
    assert not (tmp_path / "bare/social").exists() and "og:" not in (tmp_path / "bare/index.html").read_text()


def test_cases_are_found_by_suite_source_category_and_tag(tmp_path: Path) -> None:
    case = CaseInfo("one", "training", "One", tags=["nlp"], suites=["smoke", "full"], source_benchmark="mlagentbench")
    build_site([make_record(case="one")], [case], tmp_path / "site", SITE)
    page = Page(tmp_path / "site/cases.html")
    (row,) = [it for it in page.all("tr") if "data-tag" in it]
    found = {name: value for name, value in row.items() if name.startswith("data-")}
    assert found == {
        "data-category": "training", "data-tag": "nlp", "data-suite": "smoke|full", "data-source": "mlagentbench"
    }  # fmt: skip
    suites = {info.id: info.suites for info in case_infos(find_data_folders(), ["babylm", "hello_world"])}
    assert "mlagentbench" in suites["babylm"] and "smoke" in suites["hello_world"]
    assert "mlagentbench" not in suites["hello_world"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("together_ai/meta-llama/Llama-3.3-70B", "open"), ("openai/gpt-oss-120b", "open"), ("qwen/qwen3-32b", "open"),
        ("dashscope/qwen-max", "closed or unknown"), ("openai/gpt-5", "closed or unknown"), ("", ""),
    ],
)  # fmt: skip
def test_open_weights_are_known_by_name(model: str, said: str) -> None:
    assert read_open_weights(SITE).of(model) == said


def test_sources_without_a_list_know_no_open_weights(tmp_path: Path) -> None:
    assert read_open_weights(tmp_path).of("meta/llama") == "closed or unknown"


def test_a_confirmed_step_stands_on_the_agents_page_in_the_news_and_in_the_feeds(tmp_path: Path) -> None:
    records = []
    for night in range(24):
        value = 1.0 if night < 14 else 0.0
        for case in range(8):
            check = make_check("good", value if case < 5 else 1.0)
            at = {"run": f"n-{night}", "started": START + timedelta(days=night)}
            records += [make_record(case=f"case_{case}", trial=trial, checks=[check], **at) for trial in (1, 2)]  # type: ignore[arg-type]
    build_site(records, cases_of(records), tmp_path / "site", SITE)
    agent = Page(tmp_path / "site" / agent_page(Entrant("mini", "react", SONNET)))
    assert "At the last confirmed step these cases moved: case_0" in agent.text
    assert "2026-12-04" in Page(tmp_path / "site/news.html").text
    (item,) = json.loads((tmp_path / "site/feed.json").read_text())["items"]
    assert item["date_published"].startswith("2026-12-04")
    assert "case_4 100% to 0%" in item["content_text"]


def test_every_kind_of_name_and_number_has_its_place(tmp_path: Path) -> None:
    long = "model/" + "x" * 294
    records = [
        make_record(model=long),
        make_record(model="شركة/نموذج"),
        make_record(agent="unpriced", cost_usd=None, cost_status="unknown"),
    ]
    build_site(records, cases_of(records), tmp_path / "site", SITE)
    index = Page(tmp_path / "site/index.html").text
    assert "x" * 50 in index and "x" * 70 not in index
    assert "شركة" in index
    assert long in Page(tmp_path / "site" / agent_page(Entrant("mini", "react", long))).text
    assert "No cost is known" not in Page(tmp_path / "site/costs.html").text
    table = json.loads((tmp_path / "site/data/agents.json").read_text())["agents"]
    assert next(row for row in table if row["agent"] == "unpriced")["cost_usd"] is None


def test_a_statement_is_rendered_and_can_do_nothing(tmp_path: Path) -> None:
    task = "# Fix it\n\n*Now* `x` [here](javascript:alert(1)) [there](https://example.org) <b onclick=x>y</b>\n\n- one"
    build_site([], cases_of([make_record()], task=task), tmp_path / "site", SITE)
    text = (tmp_path / "site/cases/nan_loss_debug.html").read_text()
    assert "<h3>Fix it</h3>" in text and "<em>Now</em> <code>x</code>" in text and "<li>one</li>" in text
    assert 'href="https://example.org" rel="noreferrer noopener external"' in text
    assert "javascript:alert" not in text.replace("[here](javascript:alert(1))", "")
    assert "&lt;b onclick=x&gt;" in text


def test_files_are_listed_after_those_that_they_are_the_same_as(built: Path) -> None:
    text = (built / "data.html").read_text()
    for name in ("leaderboard", "cases"):
        found = [text.find(f">{name}.{kind}<") for kind in ("csv", "json", "parquet")]
        shown = [at for at in found if at >= 0]
        assert len(shown) >= 2 and shown == sorted(shown)


@pytest.mark.parametrize("page", ["data.html", "method.html", "take-part.html", "news.html", "decisions.html"])
def test_words_show_no_marks_of_markdown(built: Path, page: str) -> None:
    assert "`" not in (built / page).read_text()


@pytest.mark.parametrize(("profiles", "said"), [(("mini", "full"), True), (("mini",), False)])
def test_news_of_several_profiles_say_which(tmp_path: Path, profiles: Sequence[Profile], said: bool) -> None:
    records = [make_record(profile=profile) for profile in profiles]
    build_site(records, cases_of(records), tmp_path / "site", SITE)
    text = (tmp_path / "site" / "news.html").read_text()
    assert all((f'<span class="tag">profile {profile}</span>' in text) == said for profile in profiles)
