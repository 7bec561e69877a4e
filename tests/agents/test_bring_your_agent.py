"""The page "Bring your agent": each block is written to a file, and the agent of each section solves a case."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bench.base.install import find_data_folders
from bench.cell.run import run_cell
from bench.formats.agent import load_agent
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, make_cell, make_context
from tests.helpers.cli_agents import PRICES_OF, Conversation, solution_of, turns
from tests.helpers.external_agents import case_called
from tests.helpers.provider import Reply, ScriptedUpstream, ToolCall
from tests.helpers.sampling import on_push
from tests.helpers.workers import assert_counted, assert_no_key, log_of

PAGE = ROOT / "docs" / "bring-your-agent.md"
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"```\w+\n# ([\w.]+)\n(.*?)```", re.DOTALL)
SECTIONS = {title: dict(_BLOCK.findall(text)) for title, text in _SECTION.findall(PAGE.read_text(encoding="utf-8"))}
KINDS = {title: files for title, files in SECTIONS.items() if files}


def test_the_page_has_a_section_for_every_kind() -> None:
    kinds = ["A command", "A command-line program", "LangGraph", "OpenAI Agents SDK", "Claude Agent SDK"]
    assert list(KINDS) == kinds
    assert all("agent.yaml" in files for files in KINDS.values())
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("```") == 2 * (1 + sum(map(len, KINDS.values()))), "every block but the command to run is a file"


def _answers(kind: str) -> list[Reply]:
    """A model that solves hello_world with the tools that this kind of agent has."""
    known = {"A command-line program": "qwen_code", "Claude Agent SDK": "claude_code"}
    if kind in known:
        return turns(known[kind], "hello_world")
    name, text, _ = solution_of("hello_world")
    write = f"cat > {name} <<'END_OF_FILE'\n{text}END_OF_FILE"
    steps = ['env > "$BENCH_OUT_DIR/environment.txt"', write, f"python {name}"]
    return [*(Reply("Next.", [ToolCall("run", {"command": it})]) for it in steps), Reply("It is done.")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", on_push(KINDS, ["A command"]))
def test_the_agent_of_a_section_solves_a_case(
    kind: str, tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my-agent"
    folder.mkdir()
    for name, content in KINDS[kind].items():
        (folder / name).write_text(content, encoding="utf-8")
    if kind == "A command-line program":
        # What `npm install --package-lock-only` writes.
        shutil.copy(ROOT / "agents" / "qwen_code" / "package-lock.json", folder)
    cell = make_cell(load_agent(folder), case_called("hello_world"))
    context = make_context(tmp_path, bubblewrap)
    context = replace(context, folders=replace(context.folders, cache=find_data_folders().cache))
    with ScriptedUpstream(Conversation(_answers(kind)), prices=dict(PRICES_OF[cell.models["main"]])) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        record = run_cell(cell, context)
    assert record.success, (record.error, log_of(cell, context))
    assert record.stop_reason == "finished", log_of(cell, context)
    assert record.flags == []
    assert_counted(record, upstream)
    assert_no_key(context.folder)
