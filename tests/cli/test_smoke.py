"""What a smoke says of agents that were written for it: real processes, a real gateway, and no key."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench.base.install import find_data_folders
from bench.cli.smoke import CASE, Finding, Stage, as_markdown, prove
from bench.runs import RunObserver
from bench.sandbox import choose_sandbox
from tests.helpers.cells import as_settings, write_files

pytestmark = pytest.mark.slow

TASK = find_data_folders().cases / "basics" / CASE / "task.md"
# One request with the task, on whose answer it writes it down; `{prompt}` is what a pull request may change.
ASKS = """
import json, os, sys, urllib.error, urllib.request
def ask():
    task = open(os.environ["BENCH_TASK_FILE"], encoding="utf-8").read()
    body = {"model": os.environ["BENCH_MODEL"], "messages": [{"role": "user", "content": "PROMPT" + task}]}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
"""
GOOD = (
    ASKS + "try:\n    open('hello.py', 'w').write(ask())\nexcept urllib.error.HTTPError as error:\n    print(error)\n"
)


def agent(folder: Path, script: str, **changes: object) -> str:
    facts = {"id": folder.name, "command": ["python", "{agent}/main.py"], "models": {"main": "openai/any"}, **changes}
    write_files(folder, {"mldb-agent.yml": as_settings(facts), "main.py": script})
    return str(folder / "mldb-agent.yml")


def cassette(folder: Path, answer: str) -> None:
    content = {
        "schema": 1, "model": "openai/gpt-4o-mini", "prices": {"input": 1.0, "output": 1.0, "cache_read": 1.0},
        "task_sha256": hashlib.sha256(TASK.read_bytes()).hexdigest(),
        "turns": [{"content": answer, "usage": {"input": 10, "output": 5}}],
    }  # fmt: skip
    write_files(folder, {f"cassettes/smoke/{CASE}.yaml": as_settings(content)})


def smoked(tmp_path: Path, *agents: str) -> dict[tuple[str, str], Finding]:
    stage = Stage(tmp_path / "runs", find_data_folders(), lambda: choose_sandbox("process"), RunObserver())
    found = prove(agents, stage)
    assert (found[0].what, found[0].state) == ("set-up", "proven"), found[0].line
    return {(it.agent, it.what): it for it in found}


def test_what_a_sound_agent_proves_and_what_a_changed_prompt_leaves_open(tmp_path: Path) -> None:
    sound = agent(tmp_path / "sound", GOOD.replace("PROMPT", ""))
    changed = agent(tmp_path / "changed", GOOD.replace("PROMPT", "Think hard. "))
    for name in ("sound", "changed"):
        cassette(tmp_path / name, "print('Hello, World!')\n")
    found = smoked(tmp_path, sound, changed)
    for name in ("sound", "changed"):
        states = [found[name, what].state for what in ("start", "task", "gateway", "exit", "limits")]
        assert states == ["proven"] * 5, [it.line for it in found.values()]
    assert found["sound", "work"].state == "proven" and "is solved" in found["sound", "work"].why
    assert found["changed", "work"].state == "needs re-recording"
    assert "mldb-record" in found["changed", "work"].why
    page = as_markdown(list(found.values()))
    assert "needs re-recording" in page and "No model was called" in page


def test_what_is_broken_fails_and_says_where(tmp_path: Path) -> None:
    dies = agent(tmp_path / "dies", "raise SystemExit('no such module: planted')\n")
    deaf = agent(tmp_path / "deaf", "print('done')\n")
    other = agent(tmp_path / "other", GOOD.replace('os.environ["BENCH_MODEL"]', '"gpt-4o"'))
    breaks = agent(tmp_path / "breaks", ASKS + "import json\njson.loads(ask())\n")
    found = smoked(tmp_path, dies, deaf, other, breaks)
    assert found["dies", "start"].state == "failed" and "planted" in found["dies", "start"].why
    assert found["deaf", "gateway"].state == "failed" and "OPENAI_BASE_URL" in found["deaf", "gateway"].why
    assert found["other", "gateway"].state == "failed" and "BENCH_MODEL" in found["other", "gateway"].why
    assert found["breaks", "exit"].state == "failed" and "JSONDecodeError" in found["breaks", "exit"].why


def test_an_agent_without_a_model_and_one_that_reads_its_task_with_a_tool(tmp_path: Path) -> None:
    quiet = agent(tmp_path / "quiet", "print('done')\n", models={})
    reads = agent(tmp_path / "reads", GOOD.replace('"PROMPT" + task', '"Read " + os.environ["BENCH_TASK_FILE"]'))
    found = smoked(tmp_path, quiet, reads)
    assert found["quiet", "exit"].state == "proven" and found["quiet", "gateway"].state == "not proven"
    assert found["reads", "task"].state == "not proven" and found["reads", "limits"].state == "proven"
    assert found["reads", "work"].state == "not proven", "nothing was recorded"


@pytest.mark.nightly
def test_an_agent_that_asks_for_ever_is_ended_and_said_so(tmp_path: Path) -> None:
    tries = "try:\n        ask()\n    except urllib.error.HTTPError:\n        time.sleep(0.2)\n"
    again = f"{ASKS}import time\nwhile True:\n    {tries}"
    found = smoked(tmp_path, agent(tmp_path / "again", again))
    assert found["again", "limits"].state == "not proven" and "30 seconds" in found["again", "limits"].why
