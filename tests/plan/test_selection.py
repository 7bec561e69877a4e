"""From what is asked for to cells: nothing is left out or doubled silently."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.base.errors import UserError
from bench.base.foreign_git import commit_of
from bench.base.install import DataFolders
from bench.plan.selection import Request, cells_of, make_plan
from tests.helpers.cells import ROOT, make_agent, make_case, write_files


@pytest.fixture
def places(tmp_path: Path) -> DataFolders:
    for name in ("one", "two", "three"):
        make_case(tmp_path / "cases", id=name)
    make_case(tmp_path / "cases", id="big", profiles=["full"])
    for name, models in (("a", {"main": "openai/x"}), ("b", {}), ("c", {"main": "openai/x", "critic": "openai/y"})):
        make_agent(tmp_path / "agents", "pass", name, models=models)
    suite(tmp_path, "plain", cases=["one", "two"])
    suite(tmp_path, "shown", cases=["one", "two"], entries=[{"agent": "a"}, {"agent": "b", "cases": ["two"]}])
    return DataFolders(
        cases=tmp_path / "cases", agents=tmp_path / "agents", site=ROOT / "site", cache=tmp_path / "cache"
    )


def suite(root: Path, name: str, **facts: Any) -> None:
    content = {"id": name, "version": "2026.11", "title": name, **facts}
    write_files(root / "cases" / "suites", {f"{name}.yaml": yaml.safe_dump(content)})


def ids(places: DataFolders, **asked: Any) -> list[str]:
    return [cell.id for cell in make_plan(Request(**{"suite": "plain", **asked}), "name", places).cells]


def test_agents_by_cases_by_trials(places: DataFolders) -> None:
    assert ids(places, agents=["a", "b"], trials=2) == [
        "a/openai/x/one/mini/1", "a/openai/x/two/mini/1", "b/none/one/mini/1", "b/none/two/mini/1",
        "a/openai/x/one/mini/2", "a/openai/x/two/mini/2", "b/none/one/mini/2", "b/none/two/mini/2",
    ]  # fmt: skip


def test_a_suite_may_name_its_own_agents(places: DataFolders) -> None:
    assert ids(places, suite="shown") == ["a/openai/x/one/mini/1", "a/openai/x/two/mini/1", "b/none/two/mini/1"]
    assert ids(places, suite="shown", cases=["one"]) == ["a/openai/x/one/mini/1"]
    assert ids(places, suite="shown", cases=["basics/two"]) == ["a/openai/x/two/mini/1", "b/none/two/mini/1"]
    assert ids(places, suite="shown", agents=["b"]) == ["b/none/one/mini/1", "b/none/two/mini/1"]


def test_cases_may_be_named_in_both_ways(places: DataFolders) -> None:
    assert ids(places, agents=["b"], cases=["three", "basics/one"]) == ["b/none/three/mini/1", "b/none/one/mini/1"]


def test_an_agent_by_path(places: DataFolders) -> None:
    assert ids(places, agents=[str(places.agents / "b")], cases=["one"]) == ["b/none/one/mini/1"]


def test_models_replace_the_agents_own_by_role(places: DataFolders) -> None:
    def models(*asked: str) -> dict[str, str]:
        return make_plan(Request("plain", ["c"], ["one"], list(asked)), "name", places).cells[0].models

    assert models("openai/z") == {"main": "openai/z", "critic": "openai/y"}
    assert models("critic=openai/z", "openai/w") == {"main": "openai/w", "critic": "openai/z"}
    assert ids(places, agents=["b"], cases=["one"], models=["openai/z"]) == ["b/none/one/mini/1"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"suite": "absent", "agents": ["a"]}, "known: plain, shown"),
        ({}, "does not name agents"),
        ({"agents": ["absent"]}, "known: a, b, c"),
        ({"agents": ["a"], "cases": ["on"]}, "did you mean 'one'"),
        ({"agents": ["a"], "cases": ["big"]}, "does not have the profile 'mini'"),
        ({"agents": ["a"], "profile": "full"}, "does not have the profile 'full'"),
        ({"agents": ["a", "a"]}, "asked for twice"),
        ({"agents": ["a"], "cases": ["one", "basics/one"]}, "asked for twice"),
        ({"agents": ["a"], "models": ["gpt"]}, "is not a model"),
        ({"agents": ["a"], "models": ["critic=openai/z"]}, "does not have a role 'critic'"),
        ({"agents": ["a"], "models": ["open ai/z"]}, "is not a model"),
        ({"agents": ["a"], "models": ["openai/z\nx"]}, "is not a model"),
        ({"agents": ["a"], "models": ["openai/"]}, "is not a model"),
        ({"suite": "shown", "cases": ["three"]}, "nothing to run"),
        ({"suite": "shown", "cases": ["one", "tow"]}, "did you mean 'two'"),
    ],
)
def test_what_does_not_fit_is_one_line(places: DataFolders, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        ids(places, **asked)
    assert "\n" not in str(caught.value)


def test_the_stored_plan_gives_the_same_cells(places: DataFolders) -> None:
    plan = make_plan(Request("plain", ["a", str(places.agents / "c")], trials=2), "name", places)
    stored = plan.plan("process")
    again = cells_of(stored, places)
    assert [(cell.id, cell.models, cell.trial) for cell in again] == [
        (cell.id, cell.models, cell.trial) for cell in plan.cells
    ]


@pytest.mark.parametrize(
    ("path", "said"), [("cases/basics/one/check.py", "case 'one'"), ("agents/a/main.py", "agent 'a'")]
)
def test_a_plan_whose_parts_have_changed_is_refused(places: DataFolders, tmp_path: Path, path: str, said: str) -> None:
    plan = make_plan(Request("plain", ["a"]), "name", places)
    stored = plan.plan("process")
    with (tmp_path / path).open("a") as file:
        file.write("\n# changed\n")
    with pytest.raises(UserError, match=f"{said} has changed"):
        cells_of(stored, places)


def test_slugs_are_file_names_and_keep_cells_apart(places: DataFolders) -> None:
    models = [f"openai/{'x' * 150}{end}" for end in ("/1", "_1", ":1")]
    cells = [make_plan(Request("plain", ["a"], ["one"], [model]), "name", places).cells[0] for model in models]
    slugs = {cell.slug for cell in cells}
    assert len(slugs) == 3
    assert all("/" not in slug and len(slug) < 200 for slug in slugs)


def test_the_commit_of_a_folder(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == ("", False)
    assert commit_of(tmp_path / "absent") == ("", False)
    write_files(tmp_path, {"a": "1"})
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", "-C", str(tmp_path)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *arguments], check=True)
    commit, dirty = commit_of(tmp_path)
    assert (len(commit), dirty) == (40, False)
    write_files(tmp_path, {"b": "1"})
    assert commit_of(tmp_path) == (commit, True)
