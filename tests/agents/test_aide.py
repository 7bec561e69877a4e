"""The aide agent: its policy against a table, its runs as a process, and whole cells against a scripted model."""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bench.cell.run import run_cell
from bench.formats.agent import load_agent
from bench.formats.case import load_case
from bench.formats.record import Record
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, make_cell, make_context, new_token, wait_until_gone, write_files
from tests.helpers.provider import Reply, ScriptedUpstream, ToolCall, Usage
from tests.helpers.sampling import on_push
from tests.helpers.workers import assert_no_key

AIDE = ROOT / "agents" / "aide"
MODEL = "openai/gpt-4o-mini"
PRICES = {"input": 0.15, "output": 0.6, "cache_read": 0.075}
"""Of that model, in litellm's table; US dollars per million tokens."""
TASK = "# A task\n\nWrite the number 7 into `seven.txt`. Grüße.\n"
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(AIDE))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "aide_agent"]:
        del sys.modules[name]


def part(name: str) -> Any:
    """A module of the agent."""
    return importlib.import_module(f"aide_agent.{name}")


# --- policy ---------------------------------------------------------------------------------------------------------

BAD = None
REPAIRS, IMPROVES = 1, 2
"""Seeds whose first number is 0.13 and 0.96."""

POLICY = [
    # (parent, metric or BAD) of each node; drafts wanted; seed; expected stage and parents that may be chosen
    ([], 5, REPAIRS, "draft", [None]),
    ([(None, BAD)] * 4, 5, REPAIRS, "draft", [None]),
    ([(None, 0.5), (0, 0.6), (1, 0.7)], 5, IMPROVES, "draft", [None]),
    ([(None, BAD)] * 5, 5, REPAIRS, "debug", [0, 1, 2, 3, 4]),
    ([(None, BAD)] * 5, 5, IMPROVES, "draft", [None]),
    ([(None, 0.5), (None, BAD)], 2, REPAIRS, "debug", [1]),
    ([(None, 0.5), (None, BAD)], 2, IMPROVES, "improve", [0]),
    ([(None, 0.5), (None, 0.7)], 2, REPAIRS, "improve", [1]),
    ([(None, 0.7), (None, 0.7)], 2, IMPROVES, "improve", [0]),
    ([(None, 0.0), (None, BAD)], 2, IMPROVES, "improve", [0]),
    ([(None, -3), (None, 1)], 2, IMPROVES, "improve", [1]),
    ([(None, BAD), (0, BAD)], 1, REPAIRS, "debug", [1]),
    ([(None, BAD), (0, 0.4)], 1, REPAIRS, "improve", [1]),
    ([(None, BAD), (0, BAD), (1, BAD), (2, BAD)], 1, REPAIRS, "debug", [3]),
    # The leaf at depth 4 is beyond repair, and nothing works: a new draft.
    ([(None, BAD), (0, BAD), (1, BAD), (2, BAD), (3, BAD)], 1, REPAIRS, "draft", [None]),
    # A failed improvement of a good node begins a chain of its own.
    ([(None, 0.5), (0, BAD), (1, BAD), (2, BAD), (3, BAD)], 1, REPAIRS, "debug", [4]),
    ([(None, 0.5), (0, BAD), (1, BAD), (2, BAD), (3, BAD), (4, BAD)], 1, REPAIRS, "improve", [0]),
]


def journal_of(nodes: list[tuple[int | None, float | None]], lower: bool = False) -> Any:
    journal = part("journal").Journal()
    for parent, metric in nodes:
        node = journal.add(None if parent is None else journal.nodes[parent], "plan", "code")
        node.buggy, node.metric, node.lower_is_better, node.status = metric is None, metric, lower, int(metric is None)
    return journal


@pytest.mark.parametrize(("nodes", "drafts", "seed", "stage", "parents"), POLICY)
def test_the_policy_follows_the_table(
    nodes: list[tuple[int | None, float | None]], drafts: int, seed: int, stage: str, parents: list[int | None]
) -> None:
    search = part("settings").Search(drafts=drafts)
    move = part("policy").next_move(journal_of(nodes), search, random.Random(seed))
    assert move.stage == stage
    assert (None if move.parent is None else move.parent.number) in parents


def test_the_policy_spreads_repairs_and_is_the_same_for_the_same_seed() -> None:
    journal, search = journal_of([(None, BAD)] * 5 + [(None, 0.5)]), part("settings").Search()
    choose = part("policy").next_move

    def moves(seed: int) -> list[tuple[str, int]]:
        generator = random.Random(seed)
        return [(move.stage, move.parent.number) for move in (choose(journal, search, generator) for _ in range(400))]

    chosen = moves(5)
    assert chosen == moves(5) != moves(6)
    assert {number for stage, number in chosen if stage == "debug"} == {0, 1, 2, 3, 4}
    assert 150 < sum(stage == "debug" for stage, _ in chosen) < 250, "half of them"


def test_the_defaults_are_those_of_aide() -> None:
    search = part("settings").Search.read({})
    assert (search.steps, search.drafts, search.debug_probability, search.deepest_debug) == (20, 5, 0.5, 3)
    assert (search.folds, search.script_s) == (5, 3600)
    assert part("settings").Search.read({"AIDE_STEPS": "7", "AIDE_DIRECTION": "lower"}).lower_is_better is True
    with pytest.raises(ValueError, match="AIDE_DIRECTION"):
        part("settings").Search.read({"AIDE_DIRECTION": "up"})


def test_one_direction_holds_for_all_nodes() -> None:
    journal = journal_of([(None, 3.0), (None, 1.0), (None, 2.0)], lower=True)
    journal.nodes[2].lower_is_better = False
    assert journal.lower_is_better
    assert journal.best().number == 1, "two of three say that lower is better"
    journal.nodes[1].lower_is_better = False
    assert journal.best().number == 0
    draw = journal_of([(None, 3.0), (None, 1.0)], lower=True)
    draw.nodes[1].lower_is_better = False
    assert draw.best().number == 1, "at a draw the first counts"
    assert journal_of([(None, BAD)]).best() is None


def test_a_later_search_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    new_folder = part("journal").new_folder
    assert [new_folder(tmp_path).name for _ in range(3)] == ["search-1", "search-2", "search-3"]
    (tmp_path / "search-10").mkdir()
    (tmp_path / "search-x").mkdir()
    assert new_folder(tmp_path).name == "search-11"


# --- answers and verdicts -------------------------------------------------------------------------------------------

ANSWERS = [
    ("Plan.\n```python\nx = 1\n```", ("Plan.", "x = 1\n")),
    ("Plan.\n```py\nx = 1\n```\nand\n```python\ny = 2\n```\nbye", ("Plan.", "x = 1\n\ny = 2\n")),
    ("Plan.\n```\nx = 1\n```", ("Plan.", "x = 1\n")),
    ("Plan.\n```text\noutput\n```\n```python\nx = 1\n```", ("Plan.", "x = 1\n")),
    ("Plan.\n```python\nx = (\n```\n```python\ny = 2\n```", ("Plan.", "y = 2\n")),
    ("Plan.\n```python\nx = '''\n```\ny\n```\n'''\n```", ("Plan.", "x = '''\n```\ny\n```\n'''\n")),
    ("```python\nx = 1\n```", None),
    ("Plan.\n```python\nx = (\n```", None),
    ("Plan.\n```python\nx = 1", None),
    ("Only words.", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "expected"), ANSWERS)
def test_plan_and_program_are_read(text: str, expected: tuple[str, str] | None) -> None:
    program = part("answers").read_program(text)
    assert (program and (program.plan, program.code)) == expected


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("# file: train.py\nx = 1\n", "train.py"), ("#!/usr/bin/env python\n# File: a/b.py\n", "a/b.py"),
        ("x = 1\n# file: train.py\n", None), ("# file: ../train.py\n", None), ("# file: /etc/x.py\n", None),
        ("# file: notes.txt\n", None), ("# file:\n", None),
    ],
)  # fmt: skip
def test_the_name_of_a_program_stays_inside(code: str, name: str | None) -> None:
    assert part("answers").file_name(code) == name


VERDICTS = [
    ({"is_bug": False, "metric": 0.0}, 0, 0.0),
    ({"is_bug": False, "metric": 1}, 0, 1.0),
    ({"is_bug": False, "metric": "0.25"}, 0, 0.25),
    ({"is_bug": False, "metric": None}, 0, None),
    ({"is_bug": False, "metric": True}, 0, None),
    ({"is_bug": False, "metric": "NaN"}, 0, None),
    ({"is_bug": False, "metric": 10**400}, 0, None),
    ({"is_bug": False}, 0, None),
    ({"is_bug": True, "metric": 0.9}, 0, None),
    ({"is_bug": False, "metric": 0.9}, 1, None),
    ({"is_bug": False, "metric": 0.9}, None, None),
    ({"is_bug": "no", "metric": 0.9}, 0, None),
    ([], 0, None),
]


@pytest.mark.parametrize(("said", "status", "metric"), VERDICTS)
def test_a_verdict_is_a_number_and_no_bug(said: object, status: int | None, metric: float | None) -> None:
    node = journal_of([(None, BAD)]).nodes[0]
    node.status = status
    for answer in (
        part("shared.chat_model").Answer("", json.dumps(said), False, None),
        part("shared.chat_model").Answer(f"Here it is:\n{json.dumps(said)}", None, False, None),
    ):
        part("review").apply(part("review").read_verdict(answer), node)
        assert (node.buggy, node.metric) == (metric is None, metric)


# --- the preview ----------------------------------------------------------------------------------------------------


def test_the_preview_tells_of_tables_texts_and_programs(tmp_path: Path) -> None:
    rows = "".join(f"{number},{'ab'[number % 2]},\n" for number in range(50))
    write_files(tmp_path, {
        "data/t.csv": f"id,kind,empty\n{rows}", "c.json": '{"a": [1, 2], "b": {"c": "x"}}', "note.md": "short\n",
        "train.py": "print('starter')\n", "bad.json": "{", "big.txt": "line\n" * 100,
    })  # fmt: skip
    (tmp_path / "link").symlink_to("/etc/passwd")
    text = part("preview").data_preview(tmp_path)
    assert "data/\n    t.csv (" in text
    assert "data/t.csv: 50 rows, 3 columns\n- id: numbers from 0 to 49, 50 different\n- kind: 2 different" in text
    assert "- empty: empty, 50 missing" in text
    assert "a: list of 2, the first: int" in text
    assert "note.md:\nshort" in text
    assert "bad.json cannot be read: JSONDecodeError" in text
    assert "print('starter')" in part("preview").starters(tmp_path)
    for number in range(60):
        write_files(tmp_path, {f"many/{number}.csv": f"{','.join(f'column{i}' for i in range(50))}\n{',' * 49}\n"})
    assert len(part("preview").data_preview(tmp_path)) < 6_100
    assert part("preview").data_preview(tmp_path / "data") != ""
    empty = tmp_path / "none"
    empty.mkdir()
    assert part("preview").data_preview(empty) == "The workspace is empty."


# --- the process ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finished:
    status: int
    stderr: str
    journal: Json
    events: list[Json]
    workspace: Path
    scratch: Path

    @property
    def nodes(self) -> list[Json]:
        nodes: list[Json] = self.journal["nodes"]
        return nodes


def run_agent(folder: Path, url: str, files: dict[str, str] | None = None, **environment: str) -> Finished:
    """The agent as the runner starts it, in a new workspace with `files`."""
    workspace, out, scratch = folder / "workspace", folder / "out", folder / "scratch"
    for place in (workspace, out, scratch):
        place.mkdir()
    write_files(workspace, dict(files or {}))
    (folder / "task.md").write_text(TASK, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(AIDE / "main.py")],
        cwd=workspace, capture_output=True, text=True, check=False, timeout=120,
        env={
            "PATH": os.environ["PATH"], "BENCH_TASK_FILE": str(folder / "task.md"), "BENCH_MODEL": "bench-main",
            "BENCH_OUT_DIR": str(out), "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "sk-of-this-cell",
            "BENCH_DEADLINE": str(time.time() + 100), "TMPDIR": str(scratch), **environment,
        },
    )  # fmt: skip
    events = [json.loads(line) for line in (out / "trace.jsonl").read_text().splitlines()]
    journal = json.loads((out / "search-1" / "journal.json").read_text())
    return Finished(done.returncode, done.stderr, journal, events, workspace, scratch)


def prompt_of(request: Json) -> str:
    return str(request["messages"][0]["content"])


def verdict(metric: float | None, lower: bool = False, bug: bool | None = None) -> Reply:
    said = {
        "is_bug": metric is None if bug is None else bug, "summary": "a finding", "metric": metric,
        "lower_is_better": lower,
    }  # fmt: skip
    return Reply(tool_calls=[ToolCall("submit_review", said)])


def program(code: str, plan: str = "A plan.") -> Reply:
    return Reply(f"{plan}\n\n```python\n{code}\n```")


def by_output(request: Json) -> Reply:
    """A reviewer that believes the last `metric X` of the output, and no run that failed."""
    output = prompt_of(request).partition("# What it printed")[2]
    found = re.findall(r"^metric (\S+)$", output, re.M)
    return verdict(float(found[-1]) if found and "ended with status 0" in output else None)


def scripted(programs: list[str]) -> Callable[[Json, str], Reply]:
    """Programs in order, reviewed by their output."""
    waiting = iter(programs)
    return lambda request, protocol: by_output(request) if "tools" in request else program(next(waiting))


def test_runs_of_every_kind_are_told_apart(tmp_path: Path) -> None:
    token = new_token()
    hidden = (
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)', '{token}']"
    )
    programs = [
        "print('metric 0.1')\nraise RuntimeError('boom')",
        "import sys\nprint('metric 0.3')\nsys.exit(0)",
        "print('metric 0.4')\nfor i in range(200_000): print('flood', i)\nprint('metric 0.4')",
        f"{hidden}, start_new_session=True)\nprint('metric 0.5')",
        "import os\nprint('metric 0.6', flush=True)\nos._exit(0)",
        "def main():\n    print('metric 0.0')\nif __name__ == '__main__':\n    main()",
        "import os, signal\nprint('metric 0.8', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)",
        "import os\nfor _ in range(3000):\n    os.mkdir('deep')\n    os.chdir('deep')\nprint('metric 9')",
        "import os\nprint(sorted(n for n in os.environ if 'KEY' in n or 'OPENAI' in n), input())",
    ]
    count = str(len(programs))
    with ScriptedUpstream(scripted(programs)) as upstream:
        finished = run_agent(tmp_path, upstream.url, AIDE_STEPS=count, AIDE_DRAFTS=count, AIDE_SEED="1")
    assert finished.status == 0, finished.stderr
    facts = [(node["status"], node["buggy"], node["metric"]) for node in finished.nodes]
    assert facts == [
        (1, True, None), (0, False, 0.3), (0, False, 0.4), (0, False, 0.5), (0, False, 0.6), (0, False, 0.0),
        (-9, True, None), (0, True, None), (1, True, None),
    ]  # fmt: skip
    assert "RuntimeError: boom" in finished.nodes[0]["output"]
    flood = finished.nodes[2]["output"]
    assert len(flood) < 5_100 and flood.startswith("metric 0.4\nflood 0") and flood.endswith("metric 0.4")
    assert "characters cut" in flood
    assert "EOFError" in finished.nodes[8]["output"]
    assert "files it left cannot be kept" in finished.nodes[7]["fault"]
    assert "sk-of-this-cell" not in json.dumps(finished.journal)
    assert not wait_until_gone(token, 2)
    assert finished.journal["best"] == 4
    assert not list(finished.scratch.iterdir()), "nothing is left behind"


def test_runs_are_ended_by_the_time_limit_whether_they_heed_it_or_not(tmp_path: Path) -> None:
    programs = [
        "import time\nprint('metric 0.2', flush=True)\ntime.sleep(600)",
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('metric 0.9')\ntime.sleep(600)",
    ]
    with ScriptedUpstream(scripted(programs)) as upstream:
        finished = run_agent(
            tmp_path, upstream.url, AIDE_STEPS="2", AIDE_DRAFTS="2", AIDE_SCRIPT_SECONDS="5", AIDE_SEED="1"
        )
    assert [(node["status"], node["buggy"], node["metric"]) for node in finished.nodes] == [(None, True, None)] * 2
    assert "KeyboardInterrupt" in finished.nodes[0]["output"], "it says where it was"


def test_the_best_nodes_files_are_exported_and_not_the_last_ones(tmp_path: Path) -> None:
    files = {"seven.txt": "6", "kept.txt": "kept", "gone.txt": "x", "deep/old.txt": "old", "train.py": "old\n"}
    absolute = tmp_path / "workspace" / "stray.txt"
    best = (
        "# file: train.py\nimport os, pathlib\npathlib.Path('seven.txt').write_text('7')\nos.remove('gone.txt')\n"
        "pathlib.Path('new').mkdir()\npathlib.Path('new/made.txt').write_text('made')\nos.symlink('kept.txt', 'link')\n"
        "print('metric 1')"
    )
    last = f"import shutil, pathlib\nshutil.rmtree('deep')\npathlib.Path('seven.txt').write_text('8')\n\
pathlib.Path('later.txt').write_text('x')\npathlib.Path({str(absolute)!r}).write_text('x')\nprint('metric 0.5')"
    first = "import pathlib\npathlib.Path('seven.txt').write_text('5')\npathlib.Path('first.txt').write_text('x')\n\
print('metric 0')"
    with ScriptedUpstream(scripted([first, best, last])) as upstream:
        finished = run_agent(tmp_path, upstream.url, files, AIDE_STEPS="3", AIDE_DRAFTS="3")
    assert finished.status == 0, finished.stderr
    workspace = finished.workspace
    found = {str(path.relative_to(workspace)) for path in workspace.rglob("*") if not path.is_dir()}
    assert found == {"seven.txt", "kept.txt", "deep/old.txt", "train.py", "new/made.txt", "link"}
    assert (workspace / "seven.txt").read_text() == "7"
    assert (workspace / "train.py").read_text().startswith("# file: train.py\n")
    assert os.readlink(workspace / "link") == "kept.txt"
    assert finished.nodes[1]["files"] == [
        "gone.txt (deleted)", "link (made)", "new/made.txt (made)", "seven.txt (changed)", "train.py (changed)",
    ]  # fmt: skip
    exports = [event["number"] for event in finished.events if event["event"] == "export"]
    assert exports[:2] == [0, 1], "a better one is put in place at once, and zero is a metric"


def test_a_kill_at_any_moment_does_not_lose_the_best(tmp_path: Path) -> None:
    best = "open('seven.txt', 'w').write('7')\nprint('metric 1')"
    kill = "import os, signal\nopen('seven.txt', 'w').write('8')\nos.kill(os.getppid(), signal.SIGKILL)"
    with ScriptedUpstream(scripted([best, kill])) as upstream:
        finished = run_agent(tmp_path, upstream.url)
    assert finished.status == -9
    assert (finished.workspace / "seven.txt").read_text() == "7"
    assert finished.journal["best"] == 0


def test_without_a_metric_the_latest_that_ended_is_left(tmp_path: Path) -> None:
    code = "import pathlib\npathlib.Path('seven.txt').write_text('7')"
    with ScriptedUpstream(scripted([code, "raise SystemExit(3)"])) as upstream:
        finished = run_agent(tmp_path, upstream.url, AIDE_STEPS="2", AIDE_DRAFTS="2")
    assert finished.status == 4
    assert (finished.workspace / "seven.txt").read_text() == "7"
    assert "nothing worked" in finished.stderr


def test_a_refused_limit_is_asked_once_and_what_was_found_stays(tmp_path: Path) -> None:
    answers = [program("open('seven.txt', 'w').write('7')\nprint('metric 1')"), verdict(1), Reply(status=402)]
    with ScriptedUpstream(answers) as upstream:
        finished = run_agent(tmp_path, upstream.url)
    assert finished.status == 3
    assert len(upstream.requests) == 3, "402 is never tried again"
    assert (finished.workspace / "seven.txt").read_text() == "7"


def test_a_limit_before_the_review_keeps_what_ran(tmp_path: Path) -> None:
    with ScriptedUpstream([program("open('seven.txt', 'w').write('7')"), Reply(status=402)]) as upstream:
        finished = run_agent(tmp_path, upstream.url)
    assert finished.status == 3
    assert (finished.workspace / "seven.txt").read_text() == "7"
    assert not finished.nodes[0]["reviewed"]


def test_calls_and_time_end_the_search_by_themselves(tmp_path: Path) -> None:
    cases = (("calls", "BENCH_MAX_STEPS", "5", 2), ("time", "BENCH_DEADLINE", str(time.time() + 3), 0))
    for name, variable, value, steps in cases:
        folder = tmp_path / name
        folder.mkdir()
        with ScriptedUpstream(scripted(["print('metric 1')"] * 20)) as upstream:
            finished = run_agent(folder, upstream.url, None, **{variable: value})
        assert (len(finished.nodes), finished.status) == (steps, 0 if steps else 4)
        assert f"used up after {steps}" in finished.stderr or f"over after {steps}" in finished.stderr


def test_odd_answers_cost_tries_and_nothing_more(tmp_path: Path) -> None:
    answers = [
        Reply("no code"), Reply(raw=b"{}"), Reply("print('metric 1')"), Reply("no call"), Reply(raw=b"[]"), Reply("{}"),
        program("print('metric 1')"), Reply('{"is_bug": false, "summary": "s", "metric": 1, "lower_is_better": false}'),
    ]  # fmt: skip
    with ScriptedUpstream(answers) as upstream:
        finished = run_agent(tmp_path, upstream.url, AIDE_STEPS="2")
    assert finished.status == 0, finished.stderr
    first, second = finished.nodes
    assert (first["plan"], first["code"], first["status"], first["buggy"]) == ("", "print('metric 1')", 0, True)
    assert (second["metric"], second["buggy"]) == (1.0, False)


def test_a_model_that_refuses_a_field_is_asked_without_it(tmp_path: Path) -> None:
    def script(request: Json, protocol: str) -> Reply:
        for field in ("temperature", "tool_choice"):
            if field in request:
                return Reply(status=400, error=f"unsupported value: {field}")
        return by_output(request) if "tools" in request else program("print('metric 1')")

    with ScriptedUpstream(script) as upstream:
        finished = run_agent(tmp_path, upstream.url, AIDE_STEPS="3", BENCH_MODEL_FEEDBACK="bench-feedback")
    assert finished.status == 0, finished.stderr
    assert len(upstream.requests) == 6 + 3, "each refusal is met once a model"
    assert {seen.body["model"] for seen in upstream.requests if "tools" in seen.body} == {"bench-feedback"}


def test_refusals_and_silence_end_it_without_a_traceback(tmp_path: Path) -> None:
    with ScriptedUpstream([Reply(status=401, error="no such key")]) as upstream:
        finished = run_agent(tmp_path, upstream.url)
    assert (finished.status, len(upstream.requests)) == (1, 1)
    assert finished.stderr == "aide: 401 no such key; nothing worked\n"
    nobody = tmp_path / "nobody"
    nobody.mkdir()
    finished = run_agent(nobody, upstream.url)
    assert finished.status == 1
    assert "no connection to the model" in finished.stderr


def test_prompts_hold_what_each_stage_needs(tmp_path: Path) -> None:
    programs = ["raise ValueError('first')", "print('metric 0.5')", *["print('metric 0.6')"] * 4]
    files = {"train.py": "print('the starter')\n", "t.csv": "a,b\n1,2\n"}
    with ScriptedUpstream(scripted(programs)) as upstream:
        finished = run_agent(tmp_path, upstream.url, files, AIDE_STEPS="6", AIDE_DRAFTS="2", BENCH_MAX_STEPS="50")
    stages = [node["stage"] for node in finished.nodes]
    assert stages[:2] == ["draft", "draft"]
    assert set(stages[2:]) == {"debug", "improve"}
    writing = [prompt_of(seen.body) for seen in upstream.requests if "tools" not in seen.body]
    for stage, prompt in zip(stages, writing, strict=True):
        assert TASK.strip() in prompt
        assert "print('the starter')" in prompt
        assert ("# Data overview" in prompt) == (stage != "improve")
        assert ("# Earlier attempts" in prompt) == (stage != "debug")
        assert ("# Packages" in prompt) == (stage == "draft")
        assert ("ValueError: first" in prompt) == (stage == "debug")
        assert ("# The program so far" in prompt) == (stage == "improve")
        assert str(tmp_path) not in prompt, "no path of this machine"
    assert "What is left for the whole search, this attempt included: 6 attempts" in writing[0]
    tools = upstream.requests[1].body["tools"][0]["function"]["parameters"]
    assert tools["required"] == ["is_bug", "summary", "metric", "lower_is_better"]


# --- whole cells ----------------------------------------------------------------------------------------------------

CRASH = "raise RuntimeError('not finished')"
CELLS: dict[str, tuple[str, str, str]] = {
    # case -> a program that does part of the task, and one that does all of it, and one that does harm
    "basics/hello_world": (
        "# file: hello.py\nprint('hello world')\n",
        "# file: hello.py\nprint('Hello, World!')\n",
        "# file: hello.py\nprint('Hello!')\n",
    ),
    "training/parse_logs": (
        "import pathlib\npathlib.Path('training/training_analysis.json').write_text('{}')",
        "{solution:solve.py}",
        "import os\nos.remove('training/training_logs.txt')",
    ),
    "debugging/nan_loss_debug": (
        "import pathlib\nfile = pathlib.Path('train.py')\nfile.write_text(file.read_text().replace('0.01', '1e-7'))",
        "# file: train.py\n{solution:train.py}",
        "# file: train.py\n",
    ),
    "code_optimization/vectorization": (
        "import pathlib\npathlib.Path('submission.csv').write_text('1.0')\n",
        "# file: train.py\n{solution:train.py}",
        "# file: train.py\nprint('nothing')\n",
    ),
}


class Competent:
    """A model that fails first, then does part, then all of it, and then spoils it: only the best may be kept."""

    def __init__(self, folder: Path, texts: tuple[str, str, str]) -> None:
        self._partly, self._right, self._harm = (
            re.sub(r"\{solution:(.*)\}", lambda found: (folder / "solution" / found[1]).read_text(), text)
            for text in texts
        )
        self._drafts = 0
        self._solved = False

    def __call__(self, request: Json, protocol: str) -> Reply:
        prompt = prompt_of(request)
        if "tools" in request:
            return self._review(prompt)
        if "# The program so far" in prompt:
            code = self._harm if self._solved else self._right
            self._solved = True
            return program(code, "Do the rest.")
        if "# The program that failed" in prompt:
            return program(self._partly, "It raised an error; take another way.")
        self._drafts += 1
        return program(CRASH if self._drafts == 1 else self._partly)

    def _review(self, prompt: str) -> Reply:
        code = prompt.partition("# The program")[2].partition("# What it printed")[0]
        if "ended with status 0" not in prompt.rpartition("# What it printed")[2]:
            return verdict(None)
        if self._right.strip() in code:
            return verdict(1)
        return verdict(0.5 if self._partly.strip() in code else 0.0)


def run_case(
    folder: Path, sandbox: Sandbox, case: str, model: Callable[[Json, str], Reply]
) -> tuple[Record, ScriptedUpstream, Path]:
    agent = load_agent(AIDE, trusted=True)
    variables = {"AIDE_STEPS": "6", "AIDE_DRAFTS": "2", "AIDE_SEED": "3"}
    spec = agent.spec.model_copy(
        update={
            "models": {"main": MODEL},
            "environment": agent.spec.environment.model_copy(update={"variables": variables}),
        }
    )
    cell = make_cell(replace(agent, spec=spec), load_case(ROOT / "cases" / case))
    context = make_context(folder, sandbox)
    with ScriptedUpstream(model, prices=PRICES) as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        return run_cell(cell, context), upstream, context.trace(cell)


@pytest.mark.slow
@pytest.mark.parametrize("case", on_push(CELLS, ["training/parse_logs"]))
def test_a_whole_cell_is_solved(case: str, tmp_path: Path, bubblewrap: Sandbox) -> None:
    model = Competent(ROOT / "cases" / case, CELLS[case])
    record, upstream, trace = run_case(tmp_path, bubblewrap, case, model)
    log = (trace / "agent.log").read_text()
    assert (record.outcome, record.stop_reason) == ("graded", "finished"), log
    journal = json.loads((trace / "out" / "search-1" / "journal.json").read_text())
    assert record.success, f"{log}\n{[(node['stage'], node['metric'], node['output']) for node in journal['nodes']]}"
    stages = [node["stage"] for node in journal["nodes"]]
    assert stages[:2] == ["draft", "draft"]
    assert {"debug", "improve"} <= set(stages)
    assert journal["best"] < len(stages) - 1, "something worse came after the best"
    assert_counted(record, upstream)
    assert_no_key(tmp_path)


def assert_counted(record: Record, upstream: ScriptedUpstream) -> None:
    """Calls, tokens and cost of the record are the provider's own."""
    (usage,) = record.usage
    total = upstream.usage_totals
    assert (usage.calls, record.steps) == (total.calls, total.calls)
    assert (usage.tokens.input_uncached, usage.tokens.output) == (total.input, total.output)
    assert record.cost_usd == pytest.approx(total.cost_usd, rel=1e-9)
    assert record.cost_status == "exact"


def test_a_used_up_budget_ends_it_and_the_best_is_judged(tmp_path: Path, bubblewrap: Sandbox) -> None:
    case = load_case(ROOT / "cases" / "basics" / "hello_world")
    limits = case.spec.limits.model_copy(update={"cost_usd": 0.02})
    case = replace(case, spec=case.spec.model_copy(update={"limits": limits}))
    dear = replace(verdict(1), usage=Usage(input=1000, output=30_000))
    answers = [program(CELLS["basics/hello_world"][1]), dear]
    with ScriptedUpstream(answers, prices=PRICES) as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        record = run_cell(make_cell(load_agent(AIDE, trusted=True), case), make_context(tmp_path, bubblewrap))
    assert (record.outcome, record.stop_reason, record.success) == ("graded", "cost_limit", True)
    assert len(upstream.requests) == 2, "what is refused is not sent, and not asked for again"
    assert_counted(record, upstream)
