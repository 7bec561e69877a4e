"""Claude Code, Codex and other command-line agents: the real programs, a scripted model behind the real gateway.

Their environments are built from npm's registry and from PyPI on first use (0.4 to 0.7 GB each) and kept in the cache.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeAlias

import pytest

from bench.base.install import find_data_folders
from bench.cell.context import CellContext
from bench.cell.run import run_cell
from bench.cell.wanted_packages import NpmLock
from bench.formats.agent_lookup import load_agents
from bench.formats.model_usage import ModelUsage
from bench.formats.plan import Cell
from bench.formats.record import Record
from bench.gateway import Patience
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, make_cell, make_context
from tests.helpers.cli_agents import PRICES_OF, PROGRAMS, Conversation, Delegation, cli_agent, solution_of, turns, wired
from tests.helpers.external_agents import case_called
from tests.helpers.provider import Reply, ScriptedUpstream, Totals
from tests.helpers.sampling import on_push
from tests.helpers.workers import assert_counted, assert_no_key, log_of

pytestmark = pytest.mark.slow
NAMES = ("claude_code", "codex", "opencode", "qwen_code", "gemini_cli", "aider", "mistral_vibe", "mini_swe_agent")
ON_PUSH = ("claude_code", "codex")
"""One of each protocol but Google's, whose own client test_google.py has. CI starts them beside AIDE
(test_external_agents.py); the night starts all."""
SOLVED_ON_PUSH = [(name, "hello_world") for name in ON_PUSH]
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


def assert_said(record: Record) -> None:
    """The program's own figures stand beside the gateway's; with one model and no fault they are the same."""
    said, (usage,) = record.self_reported, record.usage
    assert said is not None, "usage.json"
    tokens = usage.tokens
    metered = [tokens.input_uncached, tokens.cache_read, tokens.cache_write, tokens.output]
    fresh, cached, written, output = (it or 0 for it in metered)
    if record.agent.id == "aider":
        # It rounds to hundreds, and does not tell these cached ones.
        assert said.input_tokens == pytest.approx(fresh + cached, abs=50) and said.output_tokens == output
        return
    assert (said.input_tokens, said.cached_tokens, said.output_tokens) == (fresh + cached + written, cached, output)
    assert said.calls in (None, usage.calls)
    if record.agent.id == "claude_code":
        assert said.cost_usd == pytest.approx(record.cost_usd, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "case"),
    on_push(product(NAMES, CASES), SOLVED_ON_PUSH),
)
def test_the_real_program_solves_cases_and_every_token_is_counted(
    name: str, case: str, context: CellContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Conversation(turns(name, case))
    cell = make_cell(cli_agent(name), case_called(case))
    record, upstream = answered(cell, context, script, monkeypatch)
    assert_honest(record, upstream, cell, context)
    assert_said(record)
    assert script.given == len(script.answers), log_of(cell, context)
    assert record.tries == []


@pytest.mark.docker
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["claude_code", "codex", "qwen_code"])
def test_the_real_program_runs_in_docker(
    name: str, tmp_path: Path, docker: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = with_real_cache(make_context(tmp_path, docker))
    cell = make_cell(cli_agent(name), case_called("hello_world"))
    record, upstream = answered(cell, context, Conversation(turns(name, "hello_world")), monkeypatch)
    assert_honest(record, upstream, cell, context)
    assert_said(record)


def _of(names: Sequence[str]) -> list[object]:
    return on_push(names, [name for name in names if name in ON_PUSH])


@pytest.mark.parametrize("name", _of([name for name in NAMES if name != "aider"]))
def test_a_limit_of_calls_ends_it(name: str, context: CellContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one answer every call is refused; aider makes only one."""
    cell = make_cell(cli_agent(name), case_called("hello_world", steps=1))
    record, upstream = answered(cell, context, Conversation(turns(name, "hello_world")), monkeypatch)
    assert (record.outcome, record.stop_reason) == ("graded", "step_limit"), log_of(cell, context)
    (usage,) = record.usage
    assert usage.calls == 1 == upstream.usage_totals.calls == len(upstream.requests)
    assert 1 <= usage.refused_calls <= 2, "a refusal stops it"
    assert record.flags == []


Counted: TypeAlias = tuple[ModelUsage, Record, Totals]
BUSY = Reply(status=429, headers={"retry-after": "0"}, error="slow down")
CUT = Reply("A long text that is cut off in the middle of it.", cut=0.5)


def _after(faults: dict[int, Reply], name: str, context: CellContext, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """What is counted of a cell whose provider fails, and what the provider has counted."""
    script = Conversation(turns(name, "hello_world"), faults=faults)
    context = replace(context, patience=Patience(first_wait_s=0.01))
    cell = make_cell(cli_agent(name), case_called("hello_world"))
    record, upstream = answered(cell, context, script, monkeypatch)
    # Gemini CLI takes what it has of a broken answer for the whole one, and ends with it.
    assert record.success or (name == "gemini_cli" and CUT in faults.values()), log_of(cell, context)
    assert record.flags == []
    assert_no_key(context.folder)
    (usage,) = record.usage
    # After a fault that was the last thing to happen, the gateway asks the provider once by itself.
    assert usage.calls == record.steps == upstream.usage_totals.calls - (not record.success)
    return usage, record, upstream.usage_totals


@pytest.mark.parametrize("name", _of(NAMES))
def test_a_storm_of_refusals_is_counted(name: str, context: CellContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider is busy again and again: the work is done, and the sums are the provider's."""
    usage, record, totals = _after({1: BUSY, 2: BUSY, 3: BUSY, 5: BUSY}, name, context, monkeypatch)
    assert usage.retries == totals.faults >= 3
    assert usage.faults == {"429": totals.faults}
    tokens = usage.tokens
    assert (tokens.input_uncached, tokens.cache_read, tokens.output) == (totals.input, totals.cache_read, totals.output)
    assert record.cost_usd == pytest.approx(totals.cost_usd, abs=1e-7)


@pytest.mark.parametrize("name", _of(NAMES))
def test_an_answer_that_breaks_off_is_counted(name: str, context: CellContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program asks again. What the broken answer cost, no one has said: it is on record, and never for nothing."""
    usage, record, totals = _after({1 if name == "aider" else 2: CUT}, name, context, monkeypatch)
    assert usage.faults == {"stream_broken": 1} or (name in ("aider", "mini_swe_agent") and usage.faults)
    if not record.success:
        return
    tokens = usage.tokens
    assert tokens.input_uncached is not None and tokens.output is not None
    if record.cost_status == "exact":
        assert (tokens.input_uncached, tokens.output) == (totals.input, totals.output)
    else:
        assert tokens.input_uncached >= totals.input and tokens.output >= totals.output


@pytest.mark.parametrize(
    "name",
    on_push([name for name in NAMES if name in PROGRAMS and PROGRAMS[name].delegate], ["claude_code"]),
)
def test_the_calls_of_subagents_are_counted(name: str, context: CellContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subagent's calls belong to the cell: its prompt arrives in a conversation of its own."""
    delegate = PROGRAMS[name].delegate
    assert delegate is not None
    first, *rest = turns(name, "hello_world")
    start = Reply("A part.", [delegate("SUBAGENT-7: say what you see")])
    script = Delegation([first, start, *rest], report=PROGRAMS[name].report)
    cell = make_cell(cli_agent(name), case_called("hello_world"))
    record, upstream = answered(cell, context, script, monkeypatch)
    assert_honest(record, upstream, cell, context)
    assert script.seen.is_set(), "the subagent has a conversation of its own"
    assert upstream.usage_totals.calls > len(script.answers), log_of(cell, context)


_CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{64}\b|_at_unix_ms\\*\":[0-9]{13}"
    r"|\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?|Chunk ID: [0-9a-f]+|Wall time: [0-9.]+ seconds"
)
"""Ids of sessions, requests, installations and commands, instants, and what a command took."""
_IDS = "client_metadata"
_HEADERS = ("anthropic-beta", "anthropic-version")


def _said(upstream: ScriptedUpstream) -> list[dict[str, str]]:
    """The fields of each request, without what differs between any two runs of the program."""
    return [
        {
            **{header: seen.headers.get(header, "") for header in _HEADERS if seen.protocol == "messages"},
            # Each in the order of its own fields, but for ids alone, whose order changes from run to run.
            **{field: _CHANGING.sub("ID", json.dumps(value)) for field, value in seen.body.items() if field != _IDS},
            _IDS: json.dumps(sorted(seen.body.get(_IDS, []))),
        }
        for seen in upstream.requests
    ]


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_what_it_sends_is_what_it_sends_without_us(
    name: str, tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """System prompt, tools, settings and conversation, byte for byte: once through the gateway, once past it."""
    said = {}
    for way in ("gateway", "direct"):
        context = with_real_cache(make_context(tmp_path / way, bubblewrap))
        cell = make_cell(cli_agent(name), case_called("hello_world"))
        file, text, old = solution_of("hello_world")
        program = PROGRAMS[name]
        answers = [Reply("Next.", [program.write(file, text, old)]), Reply("Next.", [program.shell("python hello.py")])]
        with ScriptedUpstream(Conversation(answers), prices=PRICES_OF[cell.models["main"]]) as upstream:
            for variable, value in upstream.environment().items():
                monkeypatch.setenv(variable, value)
            with monkeypatch.context() as patch:
                if way == "direct":
                    port, model = int(upstream.url.rpartition(":")[2]), cell.models["main"].partition("/")[2]
                    wire = partial(wired, port=port, key="sk-direct", name=model)
                    patch.setattr("bench.cell.agent_phase.open_gateway", wire)
                record = run_cell(cell, context)
        assert record.success, log_of(cell, context)
        said[way] = _said(upstream)
    assert len(said["gateway"]) == 3
    assert sum(map(len, said["direct"][0].values())) > 30_000, "the whole system prompt and all tools"
    for through, past in zip(said["gateway"], said["direct"], strict=True):
        added = {field: through.pop(field) for field in set(through) - set(past)}
        # The most that the model can answer anyway: without it a call could cost more than is left.
        assert set(added) <= {"max_output_tokens"}
        assert through == past


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mini_swe_agent"])
def test_it_is_listed_pinned_and_documented(name: str) -> None:
    agent = {it.id: it for it in load_agents(ROOT / "agents")}[name]
    assert agent.spec.ranked and agent.spec.environment.download_mb
    lines = (agent.folder / "requirements.txt").read_text().splitlines() if agent.spec.environment.locked else []
    assert bool(lines) != bool(agent.spec.environment.npm)
    assert all("==" in line for line in lines)
    if agent.spec.environment.npm:
        assert NpmLock.of(agent, agent.folder).packages
    text = (agent.folder / "README.md").read_text()
    assert "never" in text and "scripted" in text, "says what was and was not run"
    assert subprocess.run(["bash", "-n", agent.folder / "run.sh"], check=False).returncode == 0
