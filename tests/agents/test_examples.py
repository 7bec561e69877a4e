"""The examples for strangers' agents: complete, small, and solving cases through the real gateway."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from bench.base.install import find_data_folders
from bench.cell.run import run_cell
from bench.formats.agent import load_agent
from bench.formats.agent_lookup import load_agents
from bench.formats.case import load_cases
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, make_cell, make_context, not_here
from tests.helpers.provider import ScriptedUpstream
from tests.helpers.sampling import on_push
from tests.helpers.workers import CASES, PRICE, assert_counted, assert_no_key, log_of, solve, worker

EXAMPLES = ROOT / "agents" / "examples"
FOLDERS = ("shell", "openai_client", "langgraph")


def programs_for(folder: str) -> None:
    if folder == "shell" and not all(shutil.which(name, path="/usr/bin:/bin") for name in ("curl", "jq")):
        not_here("curl and jq: the shell example needs them in /usr/bin (apt-get install curl jq)")


def test_examples_are_valid_and_documented() -> None:
    assert sorted(path.parent.name for path in EXAMPLES.glob("*/agent.yaml")) == sorted(FOLDERS)
    for folder in FOLDERS:
        agent = load_agent(EXAMPLES / folder)
        assert not agent.spec.ranked
        text = (EXAMPLES / folder / "README.md").read_text()
        assert f"--agent agents/examples/{folder} " in text
        assert "never run against a paid model" in text
    assert len((EXAMPLES / "shell" / "agent.sh").read_text().splitlines()) <= 30
    assert len((EXAMPLES / "openai_client" / "agent.py").read_text().splitlines()) <= 66


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "case"),
    on_push(product(FOLDERS, CASES), list(product(FOLDERS, ["parse_logs"]))),
)
def test_examples_solve_cases_and_every_token_is_counted(
    folder: str, case: str, tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs_for(folder)
    cell = make_cell(load_agent(EXAMPLES / folder), load_cases(ROOT / "cases", [case])[0])
    context = make_context(tmp_path, bubblewrap)
    # The real cache: these environments come from PyPI and are large.
    context = replace(context, folders=replace(context.folders, cache=find_data_folders().cache))
    record, upstream = solve(cell, context, monkeypatch)
    assert record.success, (record.error, log_of(cell, context), [check for check in record.checks if check.value < 1])
    assert record.stop_reason == "finished"
    assert upstream.usage_totals.calls == 4
    assert_counted(record, upstream)
    assert_no_key(context.folder)


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_examples_stop_at_the_limit_that_the_gateway_tells(
    folder: str, tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs_for(folder)
    agent = load_agent(EXAMPLES / folder)
    case = load_cases(ROOT / "cases", ["hello_world"])[0]
    few = replace(case, spec=case.spec.model_copy(update={"limits": case.spec.limits.model_copy(update={"steps": 2})}))
    cell, context = make_cell(agent, few), make_context(tmp_path, bubblewrap)
    context = replace(context, folders=replace(context.folders, cache=find_data_folders().cache))
    with ScriptedUpstream(worker(agent.id, case.id), prices=dict(PRICE)) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        record = run_cell(cell, context)
    assert (record.outcome, record.stop_reason) == ("graded", "step_limit"), log_of(cell, context)
    assert record.success, "what is in the workspace is judged all the same"
    assert (record.usage[0].calls, record.usage[0].refused_calls) == (2, 1)
    assert os.path.exists(context.trace(cell) / "calls.jsonl")


def test_examples_are_listed_only_when_asked_for() -> None:
    shipped = {agent.id for agent in load_agents(ROOT / "agents")}
    assert not [name for name in shipped if name.startswith("example-")]
    command = [sys.executable, "-m", "bench", "agents", "list", "--agents"]
    listed = subprocess.run([*command, EXAMPLES], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"^example-", listed, flags=re.MULTILINE)) == 3


@pytest.mark.parametrize("page", sorted(EXAMPLES.glob("**/README.md")))
def test_links_of_their_pages_resolve(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []
