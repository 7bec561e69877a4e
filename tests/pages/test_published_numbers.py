"""The two tables of MLAgentBench that the site quotes, number by number against a transcript of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.pages.board import CaseInfo
from bench.pages.sheets import Published
from tests.helpers.pages import SITE

DOCUMENT: dict[str, Any] = json.loads((SITE / "published.json").read_bytes())
TABLES: dict[str, dict[str, Any]] = {table["title"]: table for table in DOCUMENT["tables"]}
SUCCESS = """
cifar10 25 25 12.5 25 62.5 12.5 25 0
imdb 25 12.5 0 0 25 0 0 0
ogbn-arxiv 87.5 62.5 37.5 62.5 87.5 37.5 0 0
house-price 12.5 87.5 75 87.5 100 100 12.5 0
spaceship-titanic 12.5 50 12.5 75 100 87.5 0 0
parkinsons-disease 0 0 0 0 0 0 0 0
fathomnet 0 0 0 0 0 0 0 0
feedback 12.5 37.5 0 37.5 87.5 0 0 0
identify-contrails 25 62.5 12.5 25 0 0 0 40
llama-inference 0 0 12.5 25 0 0 12.5 0
vectorization 0 0 0 0 0 0 0 0
CLRS 50 0 50 0 25 0 0 42.9
BabyLM 0 0 0 0 0 0 0 0
average 19.2 26.0 16.3 26.0 37.5 18.3 3.8 10.4
"""
IMPROVEMENT = """
cifar10 9.2 5.3 -3.1 5.1 18.5 -36.4 6.5
imdb 86.4 86.2 0 0 82.0 0 0
ogbn-arxiv 48.9 38.6 10.7 19.8 49.5 7.3 -2.2
house-price 100 100 100 100 100 100 100
spaceship-titanic 45.8 45.0 48.4 40.5 44.8 45.4 0
parkinsons-disease 0 0 -0.1 -13.3 -0.1 -0.2 -0.1
fathomnet 0 0 0 0 0 0 0
feedback 78.0 68.1 0 32.8 74.5 0 0
identify-contrails 143.3 114.9 -48.9 24.1 0 -98.8 0
llama-inference -1.3 -0.3 8.1 18.5 0.8 -23.0 10.7
vectorization 0 -6.8 0 -10.0 -18.7 -11.9 -3.9
CLRS 26.5 -24.2 0.6 -22.1 -11.6 -28.7 -6.6
BabyLM 0 0 0 0 -0.5 0 0
average 41.3 32.8 8.9 15.0 26.1 -3.6 8.0
"""
IDS = {
    "cifar10", "imdb", "ogbn-arxiv", "house-price", "spaceship-titanic",
    "amp-parkinsons-disease-progression-prediction", "fathomnet", "feedback", "identify-contrails", "llama-inference",
    "vectorization", "CLRS", "babylm",
}  # fmt: skip
"""Of the tasks in the original's repository."""


def rows_of(text: str) -> dict[str, list[float]]:
    return {name: [float(value) for value in values] for name, *values in map(str.split, text.strip().splitlines())}


def number(text: str) -> float:
    return float(text.rstrip("%").replace("\u2212", "-"))


@pytest.mark.parametrize(
    ("title", "text"),
    [("MLAgentBench: success by task", SUCCESS), ("MLAgentBench: improvement by task", IMPROVEMENT)],
)
def test_each_number_is_that_of_the_paper(title: str, text: str) -> None:
    wanted = rows_of(text)
    wanted.pop("average")
    found = {row[0]: [number(value) for value in row[1 : len(wanted["cifar10"]) + 1]] for row in TABLES[title]["rows"]}
    assert found == wanted


@pytest.mark.parametrize(("measure", "text"), [("Success", SUCCESS), ("Improvement", IMPROVEMENT)])
def test_the_row_of_averages_is_the_papers_and_follows_from_the_tasks(measure: str, text: str) -> None:
    rows = rows_of(text)
    averages = rows.pop("average")
    shown = {row[0]: row[1:] for row in TABLES["MLAgentBench: mean over 13 tasks"]["rows"]}[measure]
    assert [number(value) for value in shown if value != "-"] == averages
    for column, average in enumerate(averages[:7]):
        assert average == pytest.approx(sum(values[column] for values in rows.values()) / 13, abs=0.11)


def test_the_average_of_the_baseline_is_over_eight_tasks_alone() -> None:
    """What the notes say of it: 82.9 / 8 and not 82.9 / 13, which is why it is not compared with the others."""
    rows = rows_of(SUCCESS)
    total = sum(values[7] for name, values in rows.items() if name != "average")
    assert total == pytest.approx(82.9) and rows["average"][7] == pytest.approx(total / 8, abs=0.05)
    assert round(total / 13, 1) == 6.4


@pytest.mark.parametrize("source", sorted(IDS))
def test_every_task_of_the_paper_finds_its_rows_by_the_id_of_its_original(source: str) -> None:
    published = Published(**DOCUMENT)
    found = published.of_case(CaseInfo("here", "x", "Here", (), "mlagentbench", source))
    assert [table["title"] for table in found] == ["MLAgentBench: success by task", "MLAgentBench: improvement by task"]
    assert all(len(table["rows"]) == 1 for table in found)
    assert found[0]["rows"][0][0].lower() in (source.lower(), DOCUMENT["names"].get(source, "").lower())
