"""A scripted model that solves cases: the same commands, said the way each agent wants to hear them.

script = worker("mini_swe_agent", "hello_world")
with ScriptedUpstream(script, prices=PRICE) as upstream: ...
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cell.context import CellContext
from bench.cell.run import run_cell
from bench.formats.case import load_cases
from bench.formats.plan import Cell
from bench.formats.record import Record
from tests.helpers.cells import ROOT
from tests.helpers.provider import CANARY, Reply, ScriptedUpstream, ToolCall, Usage

Json = dict[str, Any]
MODEL = "openai/gpt-4o-mini"
PRICE = {"input": 0.15, "output": 0.6, "cache_read": 0.075}
"""US dollars per million tokens of MODEL."""
CASES = ("hello_world", "parse_logs", "nan_loss_debug")


def commands(case: str) -> list[str]:
    """Shell commands that solve the case; the last one of nan_loss_debug needs the case's torch."""
    folder = load_cases(ROOT / "cases", [case])[0].folder / "solution"
    (script,) = folder.iterdir()
    write = f"cat > {script.name} <<'END_OF_FILE'\n{script.read_text()}END_OF_FILE"
    after = {"hello_world": "python hello.py", "parse_logs": "python solve.py && rm solve.py",
             "nan_loss_debug": "python test_model.py"}  # fmt: skip
    return ["ls -la; cat *.py", write, after[case]]


def script_of_aide(case: str) -> str:
    """One Python script that does the same below ./working, and prints a metric."""
    folder = load_cases(ROOT / "cases", [case])[0].folder / "solution"
    (script,) = folder.iterdir()
    run = {
        "hello_world": "copy('hello.py')",
        "parse_logs": "(work / 'training').mkdir()\n"
        "shutil.copy('input/training/training_logs.txt', work / 'training')\n"
        "copy('solve.py')\nsubprocess.run([sys.executable, 'solve.py'], cwd=work, check=True)\n"
        "(work / 'solve.py').unlink()",
        "nan_loss_debug": "copy('train.py')\nshutil.copy('input/test_model.py', work)\n"
        "import torch\nsubprocess.run([sys.executable, 'test_model.py'], cwd=work, check=True)",
    }[case]
    return (
        "import shutil, subprocess, sys\nfrom pathlib import Path\nwork = Path('working')\n"
        f"TEXT = {script.read_text()!r}\ndef copy(name):\n    (work / name).write_text(TEXT)\n"
        f"{run}\nprint('metric', 0.5)\n"
    )


def worker(agent: str, case: str) -> Callable[[Json, str], Reply]:
    """The model of one conversation: each answer costs other tokens, so that a lost one is noticed."""
    steps = commands(case)
    count = 0
    lock = threading.Lock()

    def answer(request: Json, protocol: str) -> Reply:
        nonlocal count
        assert protocol == "chat", protocol
        with lock:
            count += 1
            number = count
        usage = Usage(input=1000 + 7 * number, output=50 + number, cache_read=300 * (number % 2), reasoning=3)
        if agent == "aideml":
            return _aide(request, case, usage, number)
        command = steps[number - 1] if number <= len(steps) else None
        return _SPEAKERS[agent](command, usage)

    return answer


def _aide(request: Json, case: str, usage: Usage, number: int) -> Reply:
    if not request.get("tools"):
        # The first script fails, so that the search has something to choose from.
        code = "raise ValueError('first try')" if number == 1 else script_of_aide(case)
        return Reply(f"A plain plan in a few words.\n\n```python\n{code}\n```", usage=usage)
    failed = "first try" in json.dumps(request["messages"])
    review = {"is_bug": failed, "summary": "It ran.", "metric": 0.5, "lower_is_better": True}
    return Reply(tool_calls=[ToolCall("submit_review", review)], usage=usage)


def _shell(command: str | None, usage: Usage) -> Reply:
    return Reply("DONE" if command is None else f"Next.\n\n```bash\n{command}\n```", usage=usage)


def _calls_run(command: str | None, usage: Usage) -> Reply:
    calls = [] if command is None else [ToolCall("run", {"command": command})]
    return Reply("It is done." if command is None else "Next.", tool_calls=calls, usage=usage)


def _mini(command: str | None, usage: Usage) -> Reply:
    last = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    return Reply("Next.", tool_calls=[ToolCall("bash", {"command": command or last})], usage=usage)


def _openhands(command: str | None, usage: Usage) -> Reply:
    if command is None:
        return Reply("", tool_calls=[ToolCall("finish", {"message": "It is done."})], usage=usage)
    return Reply("Next.", tool_calls=[ToolCall("terminal", {"command": command})], usage=usage)


def _react(command: str | None, usage: Usage) -> Reply:
    if command is None:
        return Reply("", tool_calls=[ToolCall("submit", {"summary": "It is done."})], usage=usage)
    return Reply("Next.", tool_calls=[ToolCall("run", {"command": command})], usage=usage)


_SPEAKERS: dict[str, Callable[[str | None, Usage], Reply]] = {
    "example-shell": _shell,
    "example-openai": _calls_run,
    "example-langgraph": _calls_run,
    "mini_swe_agent": _mini,
    "openhands": _openhands,
    "react": _react,
}


def solve(cell: Cell, context: CellContext, monkeypatch: pytest.MonkeyPatch) -> tuple[Record, ScriptedUpstream]:
    """Run the cell with the scripted model behind the gateway's live backend."""
    with ScriptedUpstream(worker(cell.agent.id, cell.case.id), prices=dict(PRICE)) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        record = run_cell(cell, context)
    return record, upstream


def assert_counted(record: Record, upstream: ScriptedUpstream) -> None:
    """The record says what the provider would put on its bill, to the token."""
    (usage,) = record.usage
    totals = upstream.usage_totals
    assert (usage.calls, usage.failed_calls, usage.refused_calls, usage.retries) == (totals.calls, 0, 0, 0)
    assert totals.calls == len(upstream.requests) == record.steps
    tokens = usage.tokens
    counted = (tokens.input_uncached, tokens.cache_read, tokens.output, tokens.reasoning)
    assert counted == (totals.input, totals.cache_read, totals.output, totals.reasoning)
    assert record.cost_status == "exact"
    assert record.cost_usd == pytest.approx(totals.cost_usd, abs=1e-7)


def assert_no_key(folder: Path) -> None:
    """The provider's key is in no file below `folder`."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert CANARY.encode() not in path.read_bytes(), path


def log_of(cell: Cell, context: CellContext) -> str:
    """What the agent printed, for messages of assertions."""
    path = context.trace(cell) / "agent.log"
    return path.read_text(errors="replace")[-3000:] if path.is_file() else "no agent.log"
