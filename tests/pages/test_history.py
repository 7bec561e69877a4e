"""What the site says over time: difficulty, spending, tokens by kind, decisions; and charts that are drawn once."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import vl_convert

from bench.formats.record import Record
from bench.pages.build import SiteOptions, write_site
from bench.pages.drawing import ChartCache, to_svg
from bench.pages.example import ABOUT, TITLE, example_year
from bench.pages.history import verdicts_of
from bench.pages.vega import Spec, ink, layer, layered, number
from bench.stats import RecordResults
from bench.stats.entrants import counted_cells, counting_versions, unique_cells
from bench.stats.periods import case_periods, period_of, spending, token_use
from bench.stats.results import suite_of_records
from bench.store import Decision
from tests.helpers.pages import SITE, cases_of
from tests.helpers.records import START, make_check, make_night, make_record


def text_of(path: Path) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8")))


def over_time(days: tuple[int, ...]) -> list[Record]:
    check = make_check("good", 0.0)
    return [
        make_record(run=f"n-{day}", started=START + timedelta(days=day), trial=trial,
                    checks=[check] if trial == 2 or day < 30 else None, cost_usd=0.5, cost_status="exact")
        for day in days for trial in (1, 2)
    ]  # fmt: skip


def test_days_far_back_are_put_together_by_weeks() -> None:
    newest = "2026-11-21T02:00:00Z"  # a Saturday
    assert period_of("2026-11-21T01:00:00Z", newest) == "2026-11-21"
    assert period_of("2026-09-27T01:00:00Z", newest) == "2026-09-27"
    assert period_of("2026-09-26T23:59:59Z", newest) == "2026-09-21"
    records = over_time((0, 1, 2, 70, 71))
    unique = unique_cells(records)
    counted = counted_cells(unique, suite_of_records(records), counting_versions(unique))
    periods = case_periods(counted)
    assert [(it.since, it.success, it.agents, it.cells) for it in periods] == [
        ("2026-11-16", 0.0, 1, 6), ("2027-01-29", 0.5, 1, 2), ("2027-01-30", 0.5, 1, 2),
    ]  # fmt: skip
    first = spending(counted)[0]
    assert (first.since, first.cells, first.paid, first.unknown) == ("2026-11-16", 6, 3_000_000, 0)
    (use,) = token_use(counted).values()
    assert (use.cells, use.uncached, use.cache_read) == (10, 72_000, 320_000)
    assert use.cache_share == 320 / 392


def test_cases_and_costs_show_their_history(tmp_path: Path) -> None:
    records = over_time((0, 1, 2, 70, 71))
    write_site(partial(RecordResults, records), cases_of(records), tmp_path / "site", SITE)
    case, costs = (text_of(tmp_path / "site" / page) for page in ("cases/nan_loss_debug.html", "costs.html"))
    assert "Success of all agents over time, profile mini" in case and "2026-11-16" in case
    assert "Cost per cell over time" in costs and "Tokens by kind" in costs and "82%" in costs


def test_decisions_have_a_page(tmp_path: Path) -> None:
    about: dict[str, Any] = {"run": "night-1", "agent": "aide", "who": "Ann", "when": "2026-11-21T00:00:00Z"}
    withdrawn = Decision(kind="withdrawn", why="<script>alert(1)</script>", **about)
    accepted = Decision(kind="accepted", why="It was right.", **about)
    other = Decision(kind="rescored", replaced_by="again", why="A new judge.", **{**about, "run": "night-2"})
    held = [(it.decision.kind, it.held) for it in verdicts_of([withdrawn, accepted, other])]
    assert held == [("rescored", True), ("accepted", True), ("withdrawn", False)]
    options = SiteOptions(decisions=[withdrawn, accepted, other])
    write_site(partial(RecordResults, []), [], tmp_path / "site", SITE, options)
    page = tmp_path / "site" / "decisions.html"
    assert "&lt;script&gt;" in page.read_text()
    for words in ("run night-1, agent aide", "a later one holds", "the results of run again count", "Ann"):
        assert words in text_of(page), words
    write_site(partial(RecordResults, []), [], tmp_path / "site", SITE)
    assert "No decision yet" in text_of(page)


def test_a_chart_that_has_not_changed_is_not_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night = make_night()
    options = SiteOptions(charts=tmp_path / "charts")

    def build(records: list[Record], out: str) -> dict[str, bytes]:
        write_site(partial(RecordResults, records), cases_of(night), tmp_path / out, SITE, options)
        return {str(it.relative_to(tmp_path / out)): it.read_bytes() for it in (tmp_path / out).rglob("*.html")}

    first = build(night, "one")
    drawn = {path: path.read_bytes() for path in (tmp_path / "charts").rglob("*.svg")}
    assert drawn
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", None)
    assert build(night, "two") == first


def test_a_drawing_is_kept_by_its_specification_and_a_damaged_one_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    draw = vl_convert.vegalite_to_svg

    def counted(spec: Spec, **options: Any) -> str:
        drawn.append(spec["width"])
        return str(draw(spec, **options))

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", counted)
    one, other = (
        layered([layer([{"x": 1}], "circle", {"x": number("x")}, color=ink("ink"))], it, 20) for it in (50, 60)
    )
    charts = ChartCache(tmp_path / "charts")
    first = charts.svg(one, "name", "A <title>", "words")
    assert first == to_svg(one, "name", "A <title>", "words") and drawn == [50, 50]
    assert "words" in charts.svg(one, "name", "Another title", "words") and drawn == [50, 50]
    charts.svg(other, "name", "A title", "words")
    assert drawn == [50, 50, 60]
    for path in (tmp_path / "charts").rglob("*.svg"):
        path.write_bytes(path.read_bytes()[:-1])
    assert charts.svg(one, "name", "A <title>", "words") == first and drawn == [50, 50, 60, 50]
    charts.forget_old()
    assert len(list((tmp_path / "charts").rglob("*.svg"))) == 2


def test_a_made_up_year_says_so_on_every_page(tmp_path: Path) -> None:
    cases = cases_of([make_record(), make_record(case="other", category="training")])
    records = [it for it in example_year(cases) if it.started >= "2026-10"]
    options = SiteOptions(title=TITLE, example=ABOUT, most_pages=20)
    write_site(partial(RecordResults, records), cases, tmp_path / "site", SITE, options)
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) < 60
    assert all("Made-up results." in page.read_text() for page in pages)
    assert [it.to_line() for it in example_year(cases)][:50] == [it.to_line() for it in example_year(cases)][:50]
