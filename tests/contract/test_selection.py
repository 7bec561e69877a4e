"""Cases by id, pattern, tag, category and kind, alike in every command and in suites."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.cli.main import cli
from bench.formats.case import load_cases
from tests.helpers.cells import FILES, make_case, write_files

SUITE = {
    "schema": 1,
    "id": "seen",
    "version": "2026.11",
    "title": "What is seen",
    "cases": ["tag:vision", "open-ended"],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four cases in two categories, two of them about pictures, one without an end."""
    root = tmp_path / "cases"
    for category, name, tags, kind in (
        ("debugging", "shape", ["vision"], "canonical"),
        ("debugging", "loss", ["tabular"], "canonical"),
        ("training", "digits", ["vision", "pytorch"], "open-ended"),
        ("training", "prices", ["tabular"], "open-ended"),
    ):
        make_case(root, id=name, category=category, tags=tags, kind=kind)
    write_files(root, {"suites/seen.yaml": json.dumps(SUITE)})
    return root


@pytest.mark.parametrize(
    ("selectors", "wanted"),
    [
        (["debugging/*"], ["loss", "shape"]),
        (["tag:vision"], ["shape", "digits"]),
        (["category:training"], ["digits", "prices"]),
        (["open-ended"], ["digits", "prices"]),
        (["canonical"], ["loss", "shape"]),
        (["*s"], ["loss", "digits", "prices"]),
        (["prices", "tag:tabular"], ["prices", "loss"]),
        (["tag:tabular", "prices"], ["loss", "prices"]),
        (["training/prices", "shape"], ["prices", "shape"]),
    ],
)
def test_a_selector_means_its_cases_once(root: Path, selectors: list[str], wanted: list[str]) -> None:
    assert [case.id for case in load_cases(root, selectors)] == wanted


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("tag:vison", "no case matches 'tag:vison'.*did you mean tag:vision?"),
        ("category:train", "did you mean category:training?"),
        ("debuging/*", "near it: debugging"),
        ("shapes*", "near it: shape"),
        ("domain:vision", "write tag:NAME, category:NAME, canonical, open-ended, a pattern or an id"),
        ("shap", "did you mean 'shape'?"),
    ],
)
def test_a_selector_that_matches_nothing_is_one_error_with_what_is_near(root: Path, selector: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_cases(root, [selector])


@pytest.mark.parametrize("words", [["cases", "list"], ["cases", "verify"], ["run", "--sandbox", "process", "--case"]])
def test_commands_refuse_a_selector_without_cases_alike(root: Path, words: list[str]) -> None:
    done = CliRunner().invoke(cli, [*words, "tag:vison", "--cases", str(root)])
    assert isinstance(done.exception, UserError | SystemExit) and done.exit_code != 0
    assert "tag:vision" in f"{done.output}{done.exception}" or "suite" in f"{done.output}{done.exception}"


def test_the_list_the_plan_and_suites_take_the_same_selectors(root: Path) -> None:
    listed = CliRunner().invoke(cli, ["cases", "list", "tag:vision", "--cases", str(root)]).output
    assert [line.split()[1] for line in listed.splitlines()] == ["shape", "digits"]
    plan = ["plan", "suites=seen", "agents=oracle", "--cases", str(root), "--json"]
    for words, wanted in (([], {"shape", "digits", "prices"}), (["cases=open-ended"], {"digits", "prices"})):
        cells = json.loads(CliRunner().invoke(cli, [*plan, *words]).stdout)["runs"][0]["cells"]
        assert {cell["case"] for cell in cells} == wanted


def test_a_tag_outside_of_the_vocabulary_is_named_by_lint(root: Path) -> None:
    from bench.authoring.lint import lint

    case = make_case(root, FILES, id="odd", category="training", tags=["visoin", "no-such"])
    faults = [fault for fault in lint(case) if "tag" in fault]
    assert faults == [
        "case.yaml: the tag 'no-such' is not in the vocabulary; take one of bench/formats/tags.py, or add it there",
        "case.yaml: the tag 'visoin' is not in the vocabulary; did you mean 'vision'?",
    ]
