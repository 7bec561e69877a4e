"""What papers report beside what is measured: figures add up, name their source, and are told from measured ones."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.base.install import find_data_folders
from bench.cli.pages import _info
from bench.formats.case import load_one_case
from bench.formats.suite import load_suite
from bench.pages.build import SiteOptions, write_site
from bench.stats import RecordResults
from tests.helpers.pages import SITE
from tests.helpers.paper import BESIDE, PAPER

PUBLISHED = json.loads((SITE / "published.json").read_bytes())
TABLES: dict[str, dict[str, Any]] = {table["title"]: table for table in PUBLISHED["tables"]}
MLAGENTBENCH = """
cifar10 imdb ogbn-arxiv house-price spaceship-titanic parkinsons-disease fathomnet feedback identify-contrails
llama-inference vectorization CLRS BabyLM
"""


def test_every_table_has_a_source_and_whole_rows() -> None:
    for table in TABLES.values():
        assert table["source"] and table["about"] and table["of"] in ("suite", "case")
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}
        assert len({row[0] for row in table["rows"]}) == len(table["rows"])
    assert len(TABLES) == len(PUBLISHED["tables"])
    named = {row[0] for table in TABLES.values() if table["of"] == "case" for row in table["rows"]}
    assert named <= {*PAPER, *BESIDE, *MLAGENTBENCH.split()}


def test_the_categories_of_the_paper_add_up() -> None:
    *rows, total = TABLES["ML-Dev-Bench: 30 cases, by category"]["rows"]
    sizes = [int(re.search(r"\((\d+)\)", row[0])[1]) for row in [*rows, total]]  # type: ignore[index]
    assert sum(sizes[:-1]) == sizes[-1] == len(PAPER)
    for column in range(1, len(total)):
        solved = sum(int(row[column]) for row in rows)
        assert total[column] == f"{solved} ({solved / 30:.0%})"


@pytest.mark.parametrize(("measure", "title"), [("Success", "success by task"), ("Improvement", "improvement by task")])
def test_the_means_of_mlagentbench_are_those_of_its_tasks(measure: str, title: str) -> None:
    means = {row[0]: row for row in TABLES["MLAgentBench: mean over 13 tasks"]["rows"]}[measure]
    table = TABLES[f"MLAgentBench: {title}"]
    for column in range(1, 8):
        values = [float(row[column].replace("\u2212", "-")) for row in table["rows"]]
        assert float(means[column].rstrip("%").replace("\u2212", "-")) == pytest.approx(sum(values) / 13, abs=0.11)


def test_the_two_agents_costs_are_of_the_25_tasks_of_the_first_version() -> None:
    names = {row[0] for row in TABLES["ML-Dev-Bench, first version: cost and tokens by case"]["rows"]}
    later = {"vit_debugging", "cifar100_performance", *load_suite(find_data_folders().cases, "ml-dev-bench").guessed}
    assert names == set(PAPER) - later


def test_the_pages_tell_them_from_what_is_measured(tmp_path: Path) -> None:
    infos = [
        _info(load_one_case(find_data_folders().cases, name)) for name in ("house_price", "parse_logs", "hello_world")
    ]
    suite = load_suite(find_data_folders().cases, "ml-dev-bench")
    options = SiteOptions(suite=suite.id, suite_about=suite.explained())
    write_site(partial(RecordResults, []), infos, tmp_path / "site", SITE, options)
    front, house, logs, hello = (
        (tmp_path / "site" / page).read_text(encoding="utf-8")
        for page in ("index.html", *(f"cases/{info.id}.html" for info in infos))
    )
    assert "published, not reproduced" in front and "contradict its tables" in front
    assert all(table["source"] in front for table in TABLES.values())
    assert all(name in front for name in suite.guessed) and "Best guesses" in front
    assert "published, not reproduced" in house and "MLAgentBench: success by task" in house and "87.5" in house
    assert "87.5" not in logs and "$0.185" in logs and "114,903" in logs
    assert "published, not reproduced" not in hello
    assert "Every file with two columns succeeds" in house and "Here:" in house
