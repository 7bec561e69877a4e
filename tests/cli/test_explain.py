"""`results explain` and `results trace`: why a cell did not succeed, on real runs of every failure mode."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.cell.run import run_cell
from bench.cli.results import results
from bench.formats.failures import FAILURE_MODES
from bench.formats.record import Record
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import CHECK, FILES, RIGHT, WRONG, make_agent, make_case, make_cell, make_context
from tests.helpers.command import mldb
from tests.helpers.failing import FIXTURES
from tests.helpers.gateway import turn, write_cassette
from tests.helpers.terminal import on_terminal

_SOLVE = f"open('answer.py', 'w').write({WRONG!r})\n"
_ASK = """
import json, os, urllib.request
def ask(messages):
    body = {"model": os.environ["BENCH_MODEL"], "messages": messages, "max_tokens": 50}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), headers
    )
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]
said = [{"role": "user", "content": open(os.environ["BENCH_TASK_FILE"]).read()}]
said.append({"role": "user", "content": "go \\x1b[31mon\\x1b[0m \\x1b]0;title\\x07"})
"""
_TALK = (
    _ASK
    + """
for _ in range(5):
    answer = ask(said)
    said.append(answer)
    for call in answer.get("tool_calls") or []:
        said.append({"role": "tool", "tool_call_id": call["id"], "content": "nothing here\\n::error::no"})
"""
)
_CLAIMS = (
    CHECK
    + '''

@check()
def measured(ws):
    """Measures."""
    ws.metric("accuracy", 0.7)
    ws.claim("accuracy", ws.json("claim.json"), 0.7, 0.05)
    return 0.5
'''
)
_METRIC = {"name": "accuracy", "direction": "higher", "baseline": 0.7, "target": 0.9}


@dataclass(frozen=True)
class Way:
    """How a cell comes to its failure mode, and what the answer must name."""

    script: str
    says: str
    case: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    model: str = ""
    loop: bool = False


WAYS: dict[str, Way] = {
    "out_of_time": Way("import time; time.sleep(20)", "seconds: 1", {"limits": {"agent_s": 1}}),
    "out_of_budget": Way(_ASK + "ask(said)", "stopped by its", model="replay/@refuses"),
    "out_of_resources": Way("while True: print('x' * 100000)", "output MB: all of 1", {"limits": {"output_mb": 1}}),
    "crashed": Way("raise RuntimeError('out of ideas')", "RuntimeError: out of ideas"),
    "no_artifact": Way("import os; os.remove('answer.py')", "missing: answer.py"),
    "tampered": Way(
        _SOLVE + "open('fixed.py', 'w').write('x = 2')", "fixed.py", {"protected": ["fixed.py"]},
        {"workspace/fixed.py": "x = 1"},
    ),
    "overclaimed": Way(
        "open('claim.json', 'w').write('0.99')", "claimed 0.99, measured 0.7", files={"check.py": _CLAIMS}
    ),
    "error_loop": Way(_SOLVE + _TALK, "asked 4 times running for", model="replay/demo", loop=True),
    "ended_early": Way("pass", "workspace unchanged"),
    "no_improvement": Way(
        "open('claim.json', 'w').write('0.7')", "accuracy 0.7 is not better than the baseline 0.7",
        {"metric": _METRIC}, {"check.py": _CLAIMS},
    ),
    "small_improvement": Way(
        "open('claim.json', 'w').write('0.7')", "accuracy 0.7 is 4.5% better than the baseline, and the bar is more",
        {"metric": {**_METRIC, "baseline": 0.67, "bar": 0.1}}, {"check.py": _CLAIMS},
    ),
    "invalid_submission": Way(
        "open('answer.py', 'w').write('def double(x: return x')", "invalid_submission: the files are there",
        {"metric": _METRIC},
    ),
}  # fmt: skip


def test_there_is_a_way_to_every_failure_mode() -> None:
    # The others are explained where they are made: tests/cell/test_trace_modes.py.
    assert set(WAYS) | set(FIXTURES) | {"context_overflow", "format_failure"} == set(FAILURE_MODES)


def run_one(root: Path, way: Way) -> Record:
    """A real cell, in a run folder below `root`."""
    case = make_case(root / "cases", way.files, **way.case)
    facts: dict[str, Any] = {"models": {"main": way.model}} if way.model else {}
    agent = make_agent(root, way.script, **facts)
    if way.loop:
        same = [turn("Again.", ("run", {"command": "ls"})) for _ in range(5)]
        write_cassette(agent.folder / "cassettes", same, case.id, FILES["task.md"])
    record = run_cell(make_cell(agent, case), make_context(root, ProcessSandbox()))
    (root / "run" / "run.json").write_text("{}")
    return record


def told(*arguments: str) -> str:
    done = CliRunner().invoke(results, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("mode", sorted(WAYS))
def test_explain_says_why_for_every_failure_mode(tmp_path: Path, mode: str) -> None:
    way = WAYS[mode]
    record = run_one(tmp_path, way)
    assert mode in [note.name for note in record.failure_modes]
    said = told("explain", str(tmp_path / "run"))
    why = said[said.index("\nwhy\n") : said.index("\nchecks\n")]
    assert f"{mode}: {FAILURE_MODES[mode]}" in why
    assert way.says in said
    failed = next(check for check in record.checks if not check.passed and (check.required or check.guard))
    assert f"failed check: {failed.id}: " in why
    assert failed.message.splitlines()[0][:60] in said
    assert f"✗ {failed.id}  (" in said
    assert "the agent's log" in said
    (facts,) = json.loads(told("explain", str(tmp_path / "run"), record.cell, "--json"))["cells"]
    assert facts["log"].endswith("agent.log")
    assert mode in [note["name"] for note in facts["failure_modes"]]
    assert facts["why"]


@pytest.mark.parametrize(
    ("way", "cause", "says"),
    [
        (Way(_SOLVE, "", {}, {"check.py": CHECK.replace("x = ws.rng", "1 / 0\n    x = ws.rng", 1)}), "judge_error",
         "a check of the case is broken"),
        (Way(_SOLVE, "", {"needs": {"gpu": True}}), "needs_missing", "this machine lacks what the case needs"),
        (Way(_ASK + "ask(said)", "", model="replay/nowhere"), "setup_error", "settings of the run do not fit"),
    ],
)  # fmt: skip
def test_explain_says_why_a_cell_has_no_verdict(tmp_path: Path, way: Way, cause: str, says: str) -> None:
    record = run_one(tmp_path, way)
    assert record.cause == cause, f"this machine brings {record.cause or record.outcome}"
    said = told("explain", str(tmp_path / "run"))
    assert says in said
    assert "this does not count against the agent" in said


def test_a_success_is_explained_when_it_is_named(tmp_path: Path) -> None:
    run_one(tmp_path, Way(f"open('answer.py', 'w').write({RIGHT!r})", ""))
    run = str(tmp_path / "run")
    assert "1 success and no failure" in told("explain", run)
    said = told("explain", run, "double_it")
    assert "success, score 1.00" in said
    assert "✓ doubles  (weight 2, required)" in said
    assert "why" not in said
    done = CliRunner().invoke(results, ["explain", run, "another"])
    assert "no finished cell has 'another' in its id" in str(done.exception)


def test_a_trace_shows_each_step_and_nothing_of_it_acts(tmp_path: Path) -> None:
    run_one(tmp_path, WAYS["error_loop"])
    said = told("trace", str(tmp_path / "run"))
    assert next(line for line in said.splitlines() if line.startswith("step ")).startswith("step 1  ")
    assert said.count("calls    │ run  command: ls") == 5
    assert said.count("result   │ nothing here") == 4
    assert "says     │ Again." in said
    assert "user     │ go on \\x1b]0;title\\x07" in said
    assert "100 tokens in, 20 out  $0.0006" in said
    assert "5 steps, 500 tokens in, 100 out, $0.0030" in said
    assert "\x1b" not in said and "\n::error" not in said
    document = json.loads(told("trace", str(tmp_path / "run"), "--json"))
    assert [step["number"] for step in document["steps"]] == [1, 2, 3, 4, 5]
    assert document["steps"][0]["tools"][0]["observations"] == ["nothing here\n::error::no"]
    out = tmp_path / "trace.txt"
    told("trace", str(tmp_path / "run"), "tester", "--out", str(out))
    assert "step 5" in out.read_text()
    # Of a terminal's own codes there are colours alone, and no line is wider than it.
    code = (
        "from bench.cli.results import results\n"
        f"results.main(['explain', {str(tmp_path / 'run')!r}], standalone_mode=False)"
    )
    shown = on_terminal(code, width=80)
    assert "\x1b[91m" in shown and "\x1b]" not in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert "\x1b" not in on_terminal(code, width=80, NO_COLOR="1")


def test_a_stored_run_is_explained_and_traced_as_its_folder_is(tmp_path: Path) -> None:
    way = WAYS["error_loop"]
    case = make_case(tmp_path / "cases", way.files, **way.case)
    agent = make_agent(tmp_path, way.script, models={"main": way.model})
    same = [turn("Again.", ("run", {"command": "ls"})) for _ in range(5)]
    write_cassette(agent.folder / "cassettes", same, case.id, FILES["task.md"])
    done = mldb(
        "run", "--agent", agent.folder, "--case", case.id, "--cases", tmp_path / "cases", "--sandbox", "process",
        "--results", "results.git", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    stored = [folder.name, "--results", str(tmp_path / "results.git")]
    for command in ("explain", "trace"):
        here, there = (
            [line for line in told(command, *place).splitlines() if "log" not in line and "every step:" not in line]
            for place in ([str(folder)], stored)
        )
        # The place of the log, and the command for more, are all that may differ.
        assert there == here and len(there) > 10
    assert told("trace", *stored).count("calls    │ run  command: ls") == 5
    unknown = CliRunner().invoke(results, ["explain", "night-9", *stored[1:]])
    assert f"has no run night-9 (name one of its runs: {folder.name})" in str(unknown.exception)
