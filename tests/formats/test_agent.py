"""An agent is described wholly by its folder; nobody else's agent is shown a solution."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.formats.agent import load_agent
from bench.formats.agent_lookup import find_agent, load_agents
from tests.helpers.cells import ROOT, make_agent, write_files


def test_a_sound_agent_by_file_and_by_folder(tmp_path: Path) -> None:
    agent = make_agent(tmp_path, "pass", models={"main": "openai/gpt-5-mini"})
    assert (agent.id, agent.trusted, agent.sees_solution) == ("tester", False, False)
    assert load_agent(agent.folder / "agent.yaml") == agent
    assert find_agent(str(agent.folder), ROOT / "agents") == agent
    assert agent.folder.is_absolute()


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_agent(tmp_path, "pass")
    monkeypatch.chdir(agent.folder)
    for name in (".", "./agent.yaml", "agent.yaml"):
        assert find_agent(name, ROOT / "agents").folder == agent.folder


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"id": "Bad Name"}, "`id`"),
        ({"command": []}, "`command`"),
        ({"command": "python main.py"}, "`command`"),
        ({"models": {"main": "gpt"}}, "`models.main`"),
        ({"models": {"Main": "a/b"}}, "`models"),
        ({"capabilities": ["root"]}, "`capabilities.0`"),
        ({"capabilities": ["solution"]}, "oracle"),
        ({"capabilities": ["wrong_answer"]}, "oracle"),
        ({"environment": {"requirements": "absent.txt"}}, "absent.txt"),
        ({"environment": {"variables": {"lower": "x"}}}, "`environment.variables"),
        ({"secrets": {}}, "unknown field"),
        ({"shared": ["../_shared/absent"]}, "`shared`: '../_shared/absent' is not a folder"),
        ({"shared": ["../_shared/../../etc"]}, "is not of the form ../_shared/NAME"),
        ({"shared": ["../_shared/a\n"]}, "is not of the form"),
        ({"shared": ["../_shared/.."]}, "is not of the form"),
        ({"shared": ["../_shared"]}, "is not of the form"),
        ({"shared": ["../other"]}, "is not of the form"),
        ({"shared": ["../../_shared/a"]}, "is not of the form"),
        ({"shared": ["_shared/a"]}, "is not of the form"),
        ({"shared": ["/etc"]}, "is not of the form"),
        ({"shared": ["../_shared/" + "a" * 65]}, "is not of the form"),
        ({"schema": 2}, "`schema`"),
    ],
)
def test_a_wrong_fact_is_named(tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        make_agent(tmp_path, "pass", **facts)
    assert "agent.yaml" in str(caught.value)


def test_a_copy_of_the_oracle_does_not_see_solutions(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "agents" / "oracle", tmp_path / "oracle")
    with pytest.raises(UserError, match="oracle"):
        find_agent(str(tmp_path / "oracle"), ROOT / "agents")
    assert find_agent("oracle", ROOT / "agents").sees_solution
    with pytest.raises(UserError, match="oracle"):
        find_agent(f"{ROOT}/agents/oracle", ROOT / "agents")


def test_the_agent_that_is_wrong_lays_its_answer_as_the_oracle_does() -> None:
    agents = ROOT / "agents"
    wrong, oracle = (find_agent(name, agents) for name in ("wrong", "oracle"))
    assert wrong.spec.command == oracle.spec.command
    assert wrong.spec.shared == oracle.spec.shared == ["../_shared/answer"]
    assert (wrong.sees_wrong_answer, wrong.sees_solution) == (True, False)
    assert (oracle.sees_wrong_answer, oracle.sees_solution) == (False, True)
    assert not wrong.spec.ranked


@pytest.mark.parametrize("name", ["absent", "..", "", "./absent", "absent.yaml"])
def test_an_unknown_agent_is_one_line(name: str) -> None:
    with pytest.raises(UserError) as caught:
        find_agent(name, ROOT / "agents")
    assert "\n" not in str(caught.value)


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    agent = make_agent(tmp_path, "pass")
    digest = agent.digest
    write_files(agent.folder, {"__pycache__/main.pyc": "x", ".git/HEAD": "x", ".venv/x": "x", "node_modules/x": "x"})
    assert load_agent(agent.folder).digest == digest
    write_files(agent.folder, {"main.py": "pass  # better"})
    assert load_agent(agent.folder).digest != digest


def test_a_shared_folder_belongs_to_the_agent(tmp_path: Path) -> None:
    write_files(tmp_path / "_shared", {"a/x.py": "x = 1", "b/y.py": "y = 1", "agent.yaml": "this is not an agent"})
    alone = make_agent(tmp_path, "pass").digest
    both = make_agent(tmp_path, "pass", shared=["../_shared/a", "../_shared/b"])
    assert both.shared == {"../_shared/a": tmp_path / "_shared" / "a", "../_shared/b": tmp_path / "_shared" / "b"}
    digests = {alone, both.digest}
    for change in ({"a/x.py": "x = 2"}, {"b/z.py": ""}):
        write_files(tmp_path / "_shared", change)
        digests.add(load_agent(both.folder).digest)
    assert len(digests) == 4
    write_files(tmp_path / "_shared", {"a/__pycache__/x.pyc": "", "agent.yaml": "", "c/unused.py": ""})
    assert load_agent(both.folder).digest in digests
    assert [agent.id for agent in load_agents(tmp_path)] == ["tester"]


@pytest.mark.parametrize("link", ["_shared", "_shared/a", "_shared/loop"])
def test_a_shared_folder_is_not_a_link(tmp_path: Path, link: str) -> None:
    write_files(tmp_path, {"elsewhere/a/secret": "s", "agents/other/main.py": ""})
    place = tmp_path / "agents" / link
    place.parent.mkdir(exist_ok=True)
    targets = {"_shared": tmp_path / "elsewhere", "_shared/a": tmp_path / "elsewhere" / "a", "_shared/loop": place}
    place.symlink_to(targets[link])
    with pytest.raises(UserError, match=r"field `shared`: .* is a link"):
        make_agent(tmp_path / "agents", "pass", shared=["../_shared/loop" if place.name == "loop" else "../_shared/a"])


@pytest.mark.parametrize("link", ["cassettes", "cassettes/demo", "cassettes/demo/hello_world.yaml"])
def test_no_cassette_is_a_link(tmp_path: Path, link: str) -> None:
    """Its digest would be that of an agent whose model says something else; and a link can lead anywhere."""
    agent = make_agent(tmp_path, "pass")
    write_files(tmp_path / "talks", {"demo/hello_world.yaml": "turns: []"})
    whole = agent.folder / "cassettes"
    shutil.copytree(tmp_path / "talks", whole)
    load_agent(agent.folder)
    place = agent.folder / link
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(tmp_path / "talks" / place.relative_to(whole))
    with pytest.raises(UserError, match=f"{link} is a link") as caught:
        load_agent(agent.folder)
    assert "replace it by the cassettes" in str(caught.value)


def test_what_is_outside_a_repository_is_not_shared(tmp_path: Path) -> None:
    write_files(tmp_path, {"_shared/a/x.py": "", "tester/.git": "gitdir: elsewhere\n"})
    with pytest.raises(UserError, match="outside the agent's repository"):
        make_agent(tmp_path, "pass", shared=["../_shared/a"])


def test_the_agents_of_the_benchmark_load() -> None:
    agents = load_agents(ROOT / "agents")
    assert {"nop", "oracle"} <= {agent.id for agent in agents}
    assert [agent.id for agent in agents if agent.sees_solution] == ["oracle"]
    assert all(agent.trusted for agent in agents)
