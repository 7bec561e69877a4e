"""OpenHands, mini-swe-agent and AIDE: the real packages in bubblewrap, a scripted model behind the real gateway.

Their environments are built from PyPI on first use (about 1.3 GB) and kept in the cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bench.base.install import find_data_folders
from bench.cell.context import CellContext
from bench.cell.run import run_cell
from bench.formats.agent_lookup import load_agents
from bench.formats.plan import Cell
from bench.formats.record import Record
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, make_cell, make_context
from tests.helpers.external_agents import STEPS_OF_AIDE, agent_called, case_called
from tests.helpers.provider import CANARY, Reply, ScriptedUpstream, ToolCall
from tests.helpers.sampling import on_push
from tests.helpers.workers import CASES, PRICE, Json, assert_counted, assert_no_key, log_of, solve, worker

pytestmark = pytest.mark.slow
NAMES = ("openhands", "mini_swe_agent", "aideml")
ON_PUSH = ["aideml"]
"""Its environment takes a third of what that of OpenHands takes to build; the night builds all."""


def _with_real_cache(folder: Path, sandbox: Sandbox) -> CellContext:
    """These environments come from PyPI and are large."""
    found = make_context(folder, sandbox)
    return replace(found, folders=replace(found.folders, cache=find_data_folders().cache))


@pytest.fixture
def context(tmp_path: Path, bubblewrap: Sandbox) -> CellContext:
    return _with_real_cache(tmp_path, bubblewrap)


@dataclass(frozen=True)
class Solved:
    """A cell of hello_world at its end, with its workspace, and what the provider saw."""

    name: str
    cell: Cell
    context: CellContext
    record: Record
    upstream: ScriptedUpstream

    @property
    def trace(self) -> Path:
        return self.context.trace(self.cell)


@pytest.fixture(scope="module")
def solved_by(tmp_path_factory: pytest.TempPathFactory, bubblewrap: Sandbox) -> Callable[[str], Solved]:
    """Has a package solve the case, once: it takes ten seconds and more of a processor."""
    made: dict[str, Solved] = {}

    def find(name: str) -> Solved:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            context = replace(_with_real_cache(folder, bubblewrap), keep_workspaces=True)
            cell = make_cell(agent_called(name), case_called("hello_world"))
            with pytest.MonkeyPatch.context() as patch:
                made[name] = Solved(name, cell, context, *solve(cell, context, patch))
        return made[name]

    return find


def answered(
    cell: Cell, context: CellContext, script: Callable[[Json, str], Reply], monkeypatch: pytest.MonkeyPatch
) -> tuple[Record, ScriptedUpstream]:
    with ScriptedUpstream(script, prices=dict(PRICE)) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        return run_cell(cell, context), upstream


def assert_solved(name: str, cell: Cell, context: CellContext, record: Record, upstream: ScriptedUpstream) -> None:
    """Every token is counted, and the key is nowhere."""
    assert record.success, (record.error, log_of(cell, context), [check for check in record.checks if check.value < 1])
    assert record.stop_reason == "finished", log_of(cell, context)
    assert upstream.usage_totals.calls == (2 * STEPS_OF_AIDE if name == "aideml" else 4)
    assert_counted(record, upstream)
    assert_no_key(context.folder)
    assert record.tries == []


@pytest.mark.parametrize("name", on_push(NAMES, ON_PUSH))
def test_the_real_package_solves_a_case_and_every_token_is_counted(
    name: str, solved_by: Callable[[str], Solved]
) -> None:
    it = solved_by(name)
    assert_solved(it.name, it.cell, it.context, it.record, it.upstream)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", [case for case in CASES if case != "hello_world"])
def test_the_real_package_solves_the_other_cases(
    name: str, case: str, context: CellContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = make_cell(agent_called(name), case_called(case))
    assert_solved(name, cell, context, *solve(cell, context, monkeypatch))


@pytest.mark.parametrize("name", on_push(NAMES, ON_PUSH))
def test_what_it_asks_for_is_neutral(name: str, solved_by: Callable[[str], Solved]) -> None:
    """The provider sees its own model's name, whole answers asked for, and no wish of the package's beyond them."""
    upstream = solved_by(name).upstream
    for seen in upstream.requests:
        assert seen.body["model"] == "gpt-4o-mini"
        assert not seen.body.get("stream")
        assert not {"reasoning_effort", "reasoning", "prompt_cache_retention", "thinking"} & set(seen.body)
        assert seen.headers["authorization"] == f"Bearer {CANARY}"
    first = json.dumps(upstream.requests[0].body["messages"])
    assert "Hello, World!" in first, "the task"


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_a_limit_of_calls_ends_it_and_the_work_is_judged(
    name: str, context: CellContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    # AIDE's first script fails and its second one works, each with a review.
    calls = 4 if name == "aideml" else 3
    cell = make_cell(agent_called(name), case_called("hello_world", steps=calls))
    record, upstream = answered(cell, context, worker(name, "hello_world"), monkeypatch)
    assert (record.outcome, record.stop_reason) == ("graded", "step_limit"), log_of(cell, context)
    assert record.success
    (usage,) = record.usage
    assert usage.calls == calls == upstream.usage_totals.calls
    assert usage.refused_calls >= 1


@pytest.mark.parametrize("name", on_push(NAMES, ON_PUSH))
def test_a_model_that_talks_nonsense_ends_in_a_verdict(
    name: str, context: CellContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = make_cell(agent_called(name), case_called("hello_world", steps=8))
    record, upstream = answered(cell, context, lambda request, protocol: Reply("I would rather not."), monkeypatch)
    assert record.outcome == "graded", record.error
    assert record.success is False
    assert record.stop_reason in ("gave_up", "step_limit", "crashed")
    assert record.usage[0].calls == upstream.usage_totals.calls > 0


def _dawdles(name: str) -> Callable[[Json, str], Reply]:
    """A model that never comes to an end: every answer asks for a little waiting, and then another."""
    command = {"command": "sleep 2; date"}
    if name != "aideml":
        tool = "terminal" if name == "openhands" else "bash"
        return lambda request, protocol: Reply("Let us wait.", tool_calls=[ToolCall(tool, command)])
    review = {"is_bug": True, "summary": "It did not end.", "metric": 0.0, "lower_is_better": True}

    def answer(request: Json, protocol: str) -> Reply:
        if request.get("tools"):
            return Reply(tool_calls=[ToolCall("submit_review", review)])
        return Reply("We wait for a while.\n\n```python\nimport time\ntime.sleep(600)\n```")

    return answer


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_it_ends_by_itself_before_its_time_is_over(
    name: str, context: CellContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The packages take ten seconds and more of it to start where the machine is busy.
    cell = make_cell(agent_called(name), case_called("hello_world", agent_s=70))
    record, upstream = answered(cell, context, _dawdles(name), monkeypatch)
    assert (record.outcome, record.stop_reason) == ("graded", "gave_up"), log_of(cell, context)
    assert record.usage[0].calls == upstream.usage_totals.calls > 1


@pytest.mark.nightly
def test_openhands_leaves_its_events(solved_by: Callable[[str], Solved]) -> None:
    trace = solved_by("openhands").trace
    assert [path.name for path in (trace / "workspace").iterdir()] == ["hello.py"]
    out = trace / "out"
    kinds = [json.loads(line)["kind"] for line in (out / "events.jsonl").read_text().splitlines()]
    assert kinds.count("ActionEvent") == 4
    assert kinds.count("ObservationEvent") == 4
    assert json.loads((out / "openhands.json").read_text())["calls"] == 4


@pytest.mark.nightly
def test_mini_leaves_its_trajectory(solved_by: Callable[[str], Solved]) -> None:
    trace = solved_by("mini_swe_agent").trace
    assert [path.name for path in (trace / "workspace").iterdir()] == ["hello.py"]
    said = json.loads((trace / "out" / "trajectory.json").read_text())
    assert said["info"]["exit_status"] == "Submitted"
    assert said["info"]["model_stats"]["api_calls"] == 4


@pytest.mark.nightly
def test_aide_takes_over_the_best_script_alone(context: CellContext, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = make_cell(agent_called("aideml"), case_called("hello_world"))
    context = replace(context, keep_workspaces=True)
    solve(cell, context, monkeypatch)
    assert [path.name for path in (context.trace(cell) / "workspace").iterdir()] == ["hello.py"]
    journal = json.loads((context.trace(cell) / "out" / "aide" / "journal.json").read_text())
    assert [node["is_buggy"] for node in journal["nodes"]] == [True, False, False]
    assert journal["nodes"][0]["exc_type"] == "ValueError"


@pytest.mark.parametrize("name", NAMES)
def test_it_is_listed_pinned_and_documented(name: str) -> None:
    agent = {it.id: it for it in load_agents(ROOT / "agents")}[name]
    assert agent.spec.environment.locked
    lines = (agent.folder / "requirements.txt").read_text().splitlines()
    assert all("==" in line for line in lines if line and not line.startswith("#"))
    text = (agent.folder / "README.md").read_text()
    assert "never" in text and "scripted" in text, "says what was and was not run"
