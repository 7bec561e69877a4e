"""The paper's plots: on the board without scripts, and as files; each with the numbers that it was drawn from."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import altair
import pytest
import vl_convert
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.cli.results import results
from bench.formats.case_metric import Headline
from bench.formats.record import Metric, Record
from bench.pages.board import CaseInfo, make_board
from bench.pages.build import write_site
from bench.pages.drawing import ChartCache
from bench.pages.news import trends_of
from bench.pages.plot_files import write_plots
from bench.pages.plots import groups_of, plots_of
from bench.pages.views import details_of
from bench.stats import RecordResults
from bench.store.branch import ResultsBranch
from tests.helpers.pages import HOSTILE, SITE
from tests.helpers.records import GPT, SONNET, START, make_check, make_note, make_record
from tests.helpers.store import bundle_of

MAE = Headline(
    name="mae", direction="lower", baseline=29500, target=15000, bar=0.1, unit="dollars",
    measured={"seeds": 12, "baseline_se": 375}, trivial={"median price": 39400},
)  # fmt: skip
SPEED = Headline(name="speedup", direction="higher", baseline=1, target=200, bar=0.1)
KINDS = ["success", "improvement", "bars", "tokens", "time", "failures"]
CASES = [
    CaseInfo("house_price", "tabular", "House prices", (), "mlagentbench", "house-price", headlines={"mini": MAE}),
    CaseInfo("vectorization", "code", "Loops", (), "mlagentbench", "vectorization", headlines={"mini": SPEED}),
    CaseInfo("parse_logs", "data", "Parse logs", (), "ml-dev-bench", "parse_logs"),
]  # fmt: skip


def night() -> list[Record]:
    found = []
    for number, (agent, model, mae) in enumerate((("react", SONNET, 16000.0), ("aide", GPT, 28000.0))):
        for trial in (1, 2, 3):
            facts: dict[str, Any] = {
                "trial": trial,
                "started": START + timedelta(minutes=10 * number + trial),
                "agent": agent,
            }
            good = mae < 20000
            check = make_check("better", 1.0 if good else 0.0)
            modes = [] if good else [make_note("no_improvement", "x"), make_note("bad_plan", "y")][: trial % 3 + 1]
            house = mae + 400 * trial
            found += [
                make_record(case="house_price", model=model, checks=[check], failure_modes=modes, headline=MAE.scale,
                            steps=5 + trial, metrics=[Metric(name="mae", value=house, unit="dollars")], **facts),
                make_record(case="vectorization", model=model, headline=SPEED.scale,
                            metrics=[Metric(name="speedup", value=150.0 + trial)], **facts),
                make_record(case="parse_logs", model=model, **facts),
            ]  # fmt: skip
    return found


def test_each_plot_has_the_numbers_that_it_was_drawn_from() -> None:
    board = make_board(stored := RecordResults(night()), CASES, "")
    dev, paper = groups_of(board, details_of(stored, board, trends_of(stored, board.cases)))
    assert (dev.title, paper.title) == ("ML-Dev-Bench", "MLAgentBench")
    plots = {plot.name: plot for plot in plots_of(paper, ChartCache(None).svg)}
    assert list(plots) == KINDS
    success = {(row[0], row[1]): row[2:] for row in plots["success"].rows}
    assert success["react", "house_price"][0] == 1.0 and success["aide", "house_price"][0] == 0.0
    improved = {(row[0], row[1]): row[2:] for row in plots["improvement"].rows}
    mean, low, high, n = improved["react", "house_price"]
    assert mean == pytest.approx((29500 - 16800) / 29500) and n == 3
    assert isinstance(low, float) and isinstance(mean, float) and isinstance(high, float) and low < mean < high
    assert improved["react", "vectorization"][0] == pytest.approx(151.0)
    bars = {(row[0], row[1]): row[2] for row in plots["bars"].rows}
    assert [bars["aide", f"> {bar}%"] for bar in (5, 10, 15, 20, 30)] == [0.5, 0.5, 0.5, 0.5, 0.5]
    assert bars["react", "> 30%"] == 1.0
    tokens = {row[0]: row[1:] for row in plots["tokens"].rows}
    assert tokens["react"][1] == 1.0 and tokens["aide"][1] == 0.5
    assert tokens["aide"][0] == pytest.approx(5250 * (6 + 7 + 8 + 8 * 3) / 6)
    failures = {row[1]: row[2] for row in plots["failures"].rows}
    assert failures == {"no improvement": 1.0, "bad plan": pytest.approx(2 / 3)}
    assert [it.name for it in plots_of(dev, ChartCache(None).svg)] == ["success", "tokens", "time"]


def test_the_page_is_whole_without_scripts_and_says_what_is_drawn(tmp_path: Path) -> None:
    write_site(partial(RecordResults, night()), CASES, tmp_path / "site", SITE)
    page = (tmp_path / "site" / "plots.html").read_text(encoding="utf-8")
    assert page.count('class="plot"') == 9 and page.count("The numbers of this chart") == 9
    assert "<svg" in page and "MLAgentBench" in page and "MLAgentBench: bad plan" in page
    assert "no interval" in page and "+15100.0%" in page
    house = (tmp_path / "site" / "cases" / "house_price.html").read_text(encoding="utf-8")
    for words in ("± 375 standard error, 12 seeds", ">26550<", "median price", "more than 10% better, strictly",
                  "\u221233.6%", "+43.1%", "3 of 3", "+2.4%"):  # fmt: skip
        assert words in house, words
    speed = (tmp_path / "site" / "cases" / "vectorization.html").read_text(encoding="utf-8")
    assert "not measured over seeds" in speed
    agent = (tmp_path / "site" / "agents" / "react--anthropic--claude-sonnet-4-5.html").read_text(encoding="utf-8")
    assert "Improvement on baselines" in agent and "+43.1%" in agent and "Over 2 cases" in agent
    plain = (tmp_path / "site" / "cases" / "parse_logs.html").read_text(encoding="utf-8")
    assert "Improvement" not in plain and "The bar" not in plain


def test_files_stand_alone_and_a_hostile_name_does_nothing(tmp_path: Path) -> None:
    records = [it.model_copy(update={"agent": it.agent.model_copy(update={"id": "evil"}), "models": {"main": HOSTILE}})
               if it.agent.id == "aide" else it for it in night()]  # fmt: skip
    hostile = make_note("<script>\x00\x1b[31m\u202e", "x")
    records = [it.model_copy(update={"failure_modes": [hostile]}) if it.agent.id == "evil" else it for it in records]
    both = [*records, *(it for it in night() if it.agent.id == "aide")]
    files = write_plots(RecordResults(both), CASES, tmp_path / "out", SITE)
    names = [path.name for path in files]
    assert names[-2:] == ["failures-mini-mlagentbench.svg", "failures-mini-mlagentbench.csv"]
    assert len(names) == 18 and sorted(names) == sorted(path.name for path in (tmp_path / "out").iterdir())
    for path in files:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".svg":
            root = ET.fromstring(text)
            assert root.tag == "{http://www.w3.org/2000/svg}svg" and "var(" not in text
            assert not [it for it in root.iter() if it.tag.endswith(("script", "image", "foreignObject"))]
            used = {name for it in root.iter() for name in it.get("class", "").split()}
            assert used and all(f".{name}{{" in text for name in used)
        else:
            rows = list(csv.reader(text.splitlines()))
            assert len({len(row) for row in rows}) == 1 and len(rows) > 1
            assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@"))]


def test_without_a_graded_cell_there_is_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no cell of these cases was graded"):
        write_plots(RecordResults([make_record(case="house_price", outcome="infra")]), CASES, tmp_path, SITE)


def test_the_commands_answer_from_a_branch(tmp_path: Path) -> None:
    branch = ResultsBranch(tmp_path / "results.git")
    branch.ensure()
    branch.commit(bundle_of(night(), "night-1"))
    source = str(tmp_path / "results.git")
    done = CliRunner().invoke(results, ["improvement", source], catch_exceptions=False)
    assert done.exit_code == 0 and "over cases: each with the same weight" in done.output, done.output
    assert ">30%" in done.output and "house_price" in done.output
    document = json.loads(CliRunner().invoke(results, ["improvement", source, "--json"]).output)
    assert [it["case"] for it in document["cases"]] == ["house_price", "vectorization"] * 2
    (aide,) = [it for it in document["cases"] if (it["agent"], it["case"]) == ("aide", "house_price")]
    assert aide["over"] == {"0.05": 0.0, "0.1": 0.0, "0.15": 0.0, "0.2": 0.0, "0.3": 0.0}
    (react,) = [it for it in document["agents"] if it["agent"] == "react"]
    assert react["over"]["0.3"]["mean"] == 1.0 and react["cases"] == 2
    made = CliRunner().invoke(results, ["plots", source, "--out", str(tmp_path / "out"), "--json"])
    assert made.exit_code == 0, made.output
    assert len(json.loads(made.stdout)["files"]) == 18


def test_every_chart_is_valid_vega_lite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build does not check them, since that takes longer than the drawing."""
    seen: list[dict[str, Any]] = []
    draw = vl_convert.vegalite_to_svg

    def checked(spec: dict[str, Any], **options: Any) -> str:
        altair.LayerChart.validate(spec)
        seen.append(spec)
        return str(draw(spec, **options))

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", checked)
    records = [*night(), *map(a_night_later, night())]
    write_site(partial(RecordResults, records), CASES, tmp_path / "site", SITE)
    titles = {json.dumps(spec) for spec in seen}
    for words in ("cost per cell", "night (UTC)", "share of trials", "day (UTC)", "improvement on", "tokens per trial"):
        assert any(words in title for title in titles), words
    with pytest.raises(Exception, match="wide"):
        altair.LayerChart.validate({**seen[0], "width": "wide"})


def a_night_later(record: Record) -> Record:
    started = (datetime.fromisoformat(record.started) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    provenance = record.provenance.model_copy(update={"run": "the-night-after"})
    return record.model_copy(update={"started": started, "provenance": provenance})
