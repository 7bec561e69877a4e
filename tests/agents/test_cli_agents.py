"""Claude Code, Codex and other command-line agents: the real programs, a scripted model behind the real gateway.

Their environments are built from npm's registry and from PyPI on first use (0.4 to 0.7 GB each) and kept in the cache.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from bench.base.install import find_data_folders
from bench.cell.context import CellContext
from bench.cell.run import run_cell
from bench.formats.plan import Cell
from bench.formats.record import Record
from bench.sandbox.job import Sandbox
from tests.helpers.cells import make_cell, make_context
from tests.helpers.cli_agents import PRICES_OF, Conversation, cli_agent, turns
from tests.helpers.external_agents import case_called
from tests.helpers.provider import ScriptedUpstream
from tests.helpers.sampling import on_push
from tests.helpers.workers import assert_counted, assert_no_key, log_of

pytestmark = pytest.mark.slow
NAMES = ("claude_code", "codex", "opencode", "qwen_code", "gemini_cli", "aider", "mistral_vibe", "mini_swe_agent")
ON_PUSH = ("claude_code", "codex", "mini_swe_agent")
"""Of the eight, those that CI starts; the night starts all."""
CASES = ("hello_world", "nan_loss_debug")


@pytest.fixture
def context(tmp_path: Path, bubblewrap: Sandbox) -> CellContext:
    return with_real_cache(make_context(tmp_path, bubblewrap))


def with_real_cache(found: CellContext) -> CellContext:
    """These environments come from registries and are large."""
    return replace(found, folders=replace(found.folders, cache=find_data_folders().cache))


def answered(
    cell: Cell, context: CellContext, script: Conversation, monkeypatch: pytest.MonkeyPatch
) -> tuple[Record, ScriptedUpstream]:
    with ScriptedUpstream(script, prices=dict(PRICES_OF[cell.models["main"]])) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        return run_cell(cell, context), upstream


def assert_honest(record: Record, upstream: ScriptedUpstream, cell: Cell, context: CellContext) -> None:
    """Solved, counted to the token and the dollar, without a flag, and the key is nowhere."""
    assert record.success, (record.error, log_of(cell, context), [check for check in record.checks if check.value < 1])
    assert record.stop_reason == "finished", log_of(cell, context)
    assert_counted(record, upstream)
    assert record.flags == []
    assert_no_key(context.folder)
    if cell.agent.id != "aider":
        (seen,) = context.folder.rglob("environment.txt")
        assert "OPENAI_API_KEY=" in seen.read_text(), "the shell sees the cell's own key"


@pytest.mark.parametrize(("name", "case"), on_push(product(NAMES, CASES), list(product(ON_PUSH, CASES))))
def test_the_real_program_solves_cases_and_every_token_is_counted(
    name: str, case: str, context: CellContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Conversation(turns(name, case))
    cell = make_cell(cli_agent(name), case_called(case))
    record, upstream = answered(cell, context, script, monkeypatch)
    assert_honest(record, upstream, cell, context)
    assert script.given == len(script.answers), log_of(cell, context)
    assert record.tries == []
