"""The documentation says what is so: links resolve, commands exist, names agree with the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from bench.formats.agent import AgentSpec, load_agent
from bench.formats.failures import FAILURES
from bench.judge import Workspace

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("agents/*/README.md")])


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_project_resolve(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_examples_exist(page: Path) -> None:
    from bench.cli.main import cli

    lines = [
        line[2:]
        for block in blocks(page.read_text(encoding="utf-8"), "console")
        for line in block.splitlines()
        if line.startswith("$ ml-dev-bench")
    ]
    for line in [part.strip() for whole in lines for part in whole.split("&&")]:
        words = shlex.split(line, comments=True)[1:]
        command: click.Command = cli
        context = click.Context(cli)
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(context, words.pop(0))
            assert found is not None, line
            command = found
        known = {option for parameter in command.params for option in parameter.opts}
        assert [word for word in words if word.startswith("--") and word.split("=")[0] not in known] == [], line


def test_every_agent_example_is_valid(tmp_path: Path) -> None:
    found = 0
    for page in PAGES:
        for block in blocks(page.read_text(encoding="utf-8"), "yaml"):
            if "\ncommand:" in block:
                (tmp_path / "agent.yaml").write_text(block)
                (tmp_path / "requirements.txt").touch()
                assert isinstance(load_agent(tmp_path).spec, AgentSpec)
                found += 1
    assert found >= 2


def test_every_method_of_the_workspace_that_is_documented_exists() -> None:
    text = (ROOT / "docs" / "adding-a-case.md").read_text(encoding="utf-8")
    table = text[text.index("| `ws.` | gives |") : text.index("Rules that keep")]
    names = {
        name
        for cell in re.findall(r"^\| (`.*?`) \|", table, flags=re.MULTILINE)
        for name in re.findall(r"`([a-z_0-9]+)", cell)
    } - {"ws"}
    attributes = {"rng", "seed", "profile"}
    assert names >= {"call", "drive", "run", "hidden", "json", "journal", "claim", "scale"}
    assert [name for name in names - attributes if not hasattr(Workspace, name)] == []


def test_every_outcome_of_the_failure_table_is_explained() -> None:
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    for outcome in {failure.outcome for failure in FAILURES.values()} | {"graded"}:
        assert f"| `{outcome}` |" in text


def test_readme_names_the_two_commands_that_the_makefile_has() -> None:
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"$ make {target}" in readme
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text()
