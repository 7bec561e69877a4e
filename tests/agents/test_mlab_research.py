"""The mlab_research agent: its text protocol, its actions as a process, and whole cells against a scripted model."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bench.cell.ask import SOCKET, ScriptedHelper, open_desk
from bench.cell.run import run_cell
from bench.cell.watch import CellWatch
from bench.formats.agent import load_agent
from bench.formats.case import load_case
from bench.formats.help import HELP_LOG, HelpRule, HelpRules, questions_in
from bench.formats.record import Record
from bench.guest.forwarding import forward, listen
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, make_cell, make_context, new_token, wait_until_gone, write_files
from tests.helpers.provider import Reply, ScriptedUpstream
from tests.helpers.sampling import on_push
from tests.helpers.workers import assert_no_key

AGENT = ROOT / "agents" / "mlab_research"
MODEL = "openai/gpt-4o-mini"
PRICES = {"input": 0.15, "output": 0.6, "cache_read": 0.075}
"""Of that model, in litellm's table; US dollars per million tokens."""
TASK = "# A task\n\nWrite the number 7 into `seven.txt`. Grüße.\n"
Json = dict[str, Any]
Script = Callable[[Json, str], Reply]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(AGENT))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "mlab_agent"]:
        del sys.modules[name]


def part(name: str) -> Any:
    """A module of the agent."""
    return importlib.import_module(f"mlab_agent.{name}")


def says(action: str, arguments: object = None, plan: str = "1. do it", thought: str = "so be it") -> str:
    """An answer in the form asked for; text as `arguments` plays broken JSON."""
    given = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return (
        f"Reflection: fine\nResearch Plan and Status: {plan}\nFact Check: nothing new\nThought: {thought}\n"
        f"Action: {action}\nAction Input: {given}\n"
    )


FINAL = says("Final Answer", {"final_answer": "done"})

# --- the text protocol ----------------------------------------------------------------------------------------------

NAMES = ["List Files", "Final Answer"]


def test_the_six_entries_are_read() -> None:
    text = (
        "Some words first.\n**Reflection**: one\nAction: is a word here\n## Research Plan and Status:\n```\n"
        "1. **new**\n```\nFact Check:\n- guessed: x\nThought: two: Action Input: three\nAction: `list files`\n"
        "The listing.\n"
        'Action Input: {"dir_path": "."}\nObservation: made up\nAction: Final Answer\n'
    )
    entries = part("entries").read_entries(text, NAMES)
    assert entries.action == "List Files"
    assert entries.plan == "1. new"
    assert entries.parts["Reflection"] == "one\nAction: is a word here"
    assert entries.parts["Thought"] == "two: Action Input: three"
    assert entries.parts["Action Input"] == '{"dir_path": "."}'
    assert "made up" not in entries.text()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "missing: Reflection, Research Plan"), (FINAL.replace("Thought:", "Think:"), "missing: Thought"),
        (FINAL.replace("Final Answer\n", "Fly\n"), "must be exactly one of: List Files, Final Answer"),
        (FINAL.replace("Action: Final Answer", "Action:"), "must be exactly one of"),
        ("Thought: x\n" + FINAL.replace("Thought: so be it\n", ""), "`Thought` is out of order"),
    ],
)  # fmt: skip
def test_what_an_answer_lacks_is_named(text: str, fault: str) -> None:
    with pytest.raises(part("entries").BadAnswer) as raised:
        part("entries").read_entries(text, NAMES)
    assert fault in str(raised.value)


INPUTS = [
    ('{"a": "x", "b": "y"}', {"a": "x", "b": "y"}),
    ('```json\n{"a": "x", "b": "y"}\n```\nThat is it.', {"a": "x", "b": "y"}),
    ('{"a": "line\nbreak", "b": "tab\there"}', {"a": "line\nbreak", "b": "tab\there"}),
    ('{"a": "\\d+", "b": "C:\\work"}', {"a": "\\d+", "b": "C:\\work"}),
    ('{"a": 5, "b": [1, true]}', {"a": "5", "b": "[1, true]"}),
    ('{"a": "say "hi"", "b": "y"}', {"a": 'say "hi"', "b": "y"}),
    ('{"a": "x"}', "must have exactly these keys: a, b"),
    ('{"a": "x", "b": "y", "c": "z"}', "must have exactly these keys"),
    ("[1]", "not valid JSON"),
    ("x", "not valid JSON"),
    ("", "not valid JSON"),
    ("{" * 5000, "not valid JSON"),
]


def test_wrong_settings_are_named() -> None:
    environment = {
        "BENCH_MODEL": "m", "BENCH_TASK_FILE": str(AGENT / "README.md"), "OPENAI_BASE_URL": "u", "OPENAI_API_KEY": "k",
        "BENCH_OUT_DIR": "o",
    }  # fmt: skip
    read = part("settings").Settings.read
    assert read(environment).models == {"main": "m", "fast": "m", "edit": "m"}
    assert (read(environment).log, read({**environment, "MLAB_LOG": "off"}).log) == (True, False)
    with pytest.raises(ValueError, match="MLAB_LOG"):
        read({**environment, "MLAB_LOG": "maybe"})


@pytest.mark.parametrize(("text", "expected"), INPUTS)
def test_arguments_are_read_or_refused(text: str, expected: dict[str, str] | str) -> None:
    read = part("entries").read_arguments
    if isinstance(expected, dict):
        assert read(text, ["a", "b"]) == expected
        return
    with pytest.raises(part("entries").BadAnswer) as raised:
        read(text, ["a", "b"])
    assert expected in str(raised.value)


def test_blocks_are_whole_lines() -> None:
    text = "a" * 25 + "\n" + "b\n" * 8
    found = part("helpers").blocks(text, 10)
    assert "".join(found) == text
    assert found == ["a" * 10, "a" * 10, "aaaaa\nb\nb\n", "b\nb\nb\nb\nb\n", "b\n"]


# --- the process ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finished:
    status: int
    stderr: str
    events: list[Json]
    workspace: Path
    out: Path
    prompts: list[str]
    """What the main model was asked, in order."""

    @property
    def observations(self) -> list[str]:
        return [str(event["text"]) for event in self.events if event["event"] == "observation"]


def is_main(prompt: str) -> bool:
    return prompt.startswith("You assist in machine-learning research")


def model(answers: list[str], helper: Callable[[str], str] = lambda prompt: "nothing to say") -> Script:
    """The main model answers in order; `helper` plays the fast and the edit model."""
    waiting = iter(answers)

    def script(request: Json, protocol: str) -> Reply:
        prompt = str(request["messages"][0]["content"])
        return Reply(next(waiting)) if is_main(prompt) else Reply(helper(prompt))

    return script


def run_agent(folder: Path, script: Script | list[Reply], files: dict[str, str] | None = None, **env: str) -> Finished:
    """The agent as the runner starts it, in a new workspace with `files`."""
    workspace, out = folder / "workspace", folder / "out"
    workspace.mkdir(parents=True)
    out.mkdir()
    write_files(workspace, dict(files or {}))
    (folder / "task.md").write_text(TASK, encoding="utf-8")
    with ScriptedUpstream(script) as upstream:
        done = subprocess.run(
            [sys.executable, str(AGENT / "main.py")],
            cwd=workspace, capture_output=True, text=True, check=False, timeout=120,
            env={
                "PATH": os.environ["PATH"], "BENCH_TASK_FILE": str(folder / "task.md"), "BENCH_MODEL": "bench-main",
                "BENCH_OUT_DIR": str(out), "OPENAI_BASE_URL": f"{upstream.url}/v1", "OPENAI_API_KEY": "sk-of-this-cell",
                "BENCH_DEADLINE": str(time.time() + 100), "MLAB_LOG": "off", **env,
            },
        )  # fmt: skip
    events = [json.loads(line) for line in (out / "trace.jsonl").read_text().splitlines()]
    asked = [str(seen.body["messages"][0]["content"]) for seen in upstream.requests]
    return Finished(done.returncode, done.stderr, events, workspace, out, [text for text in asked if is_main(text)])


def use(folder: Path, *calls: tuple[str, object], helper: Callable[[str], str] = str, **env: str) -> list[str]:
    """What the model is shown for each of `calls`, one a step."""
    finished = run_agent(folder, model([*(says(*call) for call in calls), FINAL], helper), None, **env)
    assert finished.status == 0, finished.stderr
    return finished.observations


def test_a_task_is_worked_on_and_handed_in(tmp_path: Path) -> None:
    answers = [
        says("List Files", {"dir_path": "."}, plan="1. **look**\n2. write"),
        says("Copy File", {"source": "six.txt", "destination": "deep/seven.txt"}, plan="1. looked"),
        FINAL,
    ]
    finished = run_agent(tmp_path, model(answers), {"six.txt": "7"})
    assert (finished.status, finished.stderr) == (0, "mlab_research: done\n")
    assert (finished.workspace / "deep" / "seven.txt").read_text() == "7"
    assert finished.observations == ["six.txt", "six.txt is copied to deep/seven.txt"]
    first, second, third = finished.prompts
    assert TASK.strip() in first and "Let us begin." in first
    assert 'Action: Execute Script\nAction Input: {\n    "script_name": "[name' in first
    assert "Read File" not in first and "Reflection: Think" not in first
    assert "Research Plan and Status: 1. look\n2. write" in second, "marks of what is new are taken off"
    assert "Observation:\n````\nsix.txt\n````" in second
    assert "left: 48 steps" in third
    assert sorted(path.name for path in finished.workspace.iterdir()) == ["deep", "six.txt"], "notes are kept elsewhere"


def test_help_is_requested_where_the_run_offers_it(tmp_path: Path) -> None:
    rules = HelpRules(rules=[HelpRule(pattern="which * number", answer="Seven.")])
    sockets = tmp_path / "s"
    sockets.mkdir()
    deadline = time.monotonic() + 100
    helper = ScriptedHelper(rules, f"sha256:{'0' * 64}")
    with open_desk(helper, "a/cell", deadline, CellWatch(), tmp_path, sockets) as (desk, paths):
        listener = listen()
        forward(listener, str(paths[SOCKET]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        calls = [("Request Help", {"request": text}) for text in ("Which is the number?", "Why?", "x" * 4001)]
        observations = use(tmp_path / "work", *calls, BENCH_ASK_URL=url)
    assert observations[:2] == ["Seven.", "[there is no answer]"]
    assert observations[2] == "error: the question was refused: a question has 1 to 4000 characters"
    assert desk is not None
    assert (desk.given().questions, desk.given().answered) == (2, 1)
    lines = questions_in((tmp_path / HELP_LOG).read_bytes())
    assert [(line.question, line.answer) for line in lines] == [("Which is the number?", "Seven."), ("Why?", None)]


def test_help_is_not_offered_in_a_run_without_it(tmp_path: Path) -> None:
    finished = run_agent(tmp_path, model([says("Request Help", {"request": "Who?"}), FINAL]))
    assert "Request Help" not in finished.prompts[0]
    assert "must be exactly one of" in finished.prompts[1]


def test_three_steps_are_shown_and_bad_inputs_are_forgotten(tmp_path: Path) -> None:
    answers = [says("List Files", {"dir_path": "."}, thought=f"step {number}") for number in range(5)]
    answers[1:1] = [says("List Files", "{oops", thought="broken"), says("List Files", {"x": 1}, thought="wrong")]
    finished = run_agent(tmp_path, model([*answers, FINAL]))
    assert finished.status == 0
    shown = [[word for word in ("broken", "wrong", "step 0", "step 1", "step 2", "step 3", "step 4") if word in prompt]
             for prompt in finished.prompts]  # fmt: skip
    assert shown == [
        [], ["step 0"], ["broken", "step 0"], ["broken", "wrong", "step 0"], ["step 0", "step 1"],
        ["step 0", "step 1", "step 2"], ["step 1", "step 2", "step 3"], ["step 2", "step 3", "step 4"],
    ]  # fmt: skip
    assert "`Action Input` is not valid JSON; nothing was done" in finished.observations[1]
    assert "must have exactly these keys: dir_path" in finished.observations[2]


def test_answers_without_the_form_are_asked_for_again_with_the_reason(tmp_path: Path) -> None:
    finished = run_agent(tmp_path, model(["hello", FINAL.replace("Thought:", ""), says("Read File"), "", FINAL]))
    assert finished.status == 0
    last = finished.prompts[-1]
    assert last.count("Your answer could not be used") == 4
    assert "could not be used: these entries are missing: Reflection" in last
    assert "could not be used again: these entries are missing: Thought" in last
    assert "must be exactly one of: List Files" in last, "an action that is not offered is not carried out"
    five = run_agent(tmp_path / "five", model(["no"] * 9))
    assert (five.status, len(five.prompts)) == (4, 5)
    assert "5 answers in a row" in five.stderr
    odd = run_agent(tmp_path / "odd", [Reply(raw=b"{}")] * 9)
    assert odd.status == 4


def test_scripts_of_every_kind_are_told_apart(tmp_path: Path) -> None:
    token = new_token()
    spawn = (
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)', '{token}'], \
start_new_session=True)\nprint('spawned')"
    )
    scripts = {
        "ok.py": "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(0)",
        "crash.py": "print('before')\nraise RuntimeError('boom')",
        "flood.py": "print('a' * 50)\nfor i in range(300_000): print('flood')\nprint('z' * 50)",
        "spawn.py": spawn,
        "deep/env.py": "import os\nprint([name for name in os.environ if 'KEY' in name], os.listdir())",
        "main.py": "if __name__ == '__main__':\n    input()",
    }
    answers = [says("Execute Script", {"script_name": name}) for name in [*scripts, "missing.py", "../x.py"]]
    finished = run_agent(
        tmp_path, model([*answers, FINAL], lambda prompt: "[Observation]: summed up"), scripts,
        BENCH_MAX_STEPS="15",
    )  # fmt: skip
    assert finished.status == 0, finished.stderr
    ok, crash, flood, spawned, env, guarded, missing, outside = finished.observations
    assert ok.startswith("The script printed:\nout\nerr\n[it ended with status 0")
    assert "before\nTraceback" in crash and "RuntimeError: boom\n[it ended with status 1" in crash
    assert len(flood) < 31_000 and "a" * 50 in flood and "z" * 50 in flood and "characters cut" in flood
    assert "spawned\n[it ended with status 0" in spawned
    assert not wait_until_gone(token, 2)
    assert "\n[] [" in env and "crash.py" in env, "no key, and the workspace as current folder"
    assert "EOFError" in guarded
    assert missing == "error: there is no script 'missing.py'"
    assert outside == "error: '../x.py' lies outside the workspace"
    assert "[shortened] summed up" in finished.prompts[4]
    assert "sk-of-this-cell" not in (finished.out / "trace.jsonl").read_text()


def test_a_script_is_ended_by_the_time_limit(tmp_path: Path) -> None:
    answers = [says("Execute Script", {"script_name": "sleep.py"}), FINAL]
    script = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
    finished = run_agent(tmp_path, model(answers), {"sleep.py": script}, MLAB_SCRIPT_SECONDS="5")
    assert finished.status == 0, finished.stderr
    (sleep,) = finished.observations
    assert "begun\n" in sleep and "KeyboardInterrupt" in sleep and "[it was ended by the time limit" in sleep


def test_a_long_observation_is_cut_when_calls_are_scarce(tmp_path: Path) -> None:
    answers = [says("Execute Script", {"script_name": "flood.py"}), FINAL]
    finished = run_agent(tmp_path, model(answers), {"flood.py": "print('x' * 9000)"}, BENCH_MAX_STEPS="5")
    assert finished.status == 0
    assert "characters cut" in finished.prompts[1]
    assert "[shortened]" not in finished.prompts[1]


def test_files_are_changed_with_a_way_back_and_never_outside(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    said = use(
        tmp_path,
        ("Write File", {"file_name": "a/x.py", "content": "one = 1\n"}),
        ("Write File", {"file_name": "a/x.py", "content": "two = (\n"}),
        ("Append File", {"file_name": "a/x.py", "content": "2)\n"}),
        ("Read File", {"file_name": "a/x.py"}),
        ("Undo Edit Script", {"script_name": "a/x.py"}),
        ("Undo Edit Script", {"script_name": "a/x.py"}),
        ("Undo Edit Script", {"script_name": "a/x.py"}),
        ("Undo Edit Script", {"script_name": "a/x.py"}),
        ("List Files", {"dir_path": "a"}),
        ("Python REPL", {"command": "import os\nos.symlink('../secret.txt', 'link')"}),
        ("Write File", {"file_name": "lines", "content": "l\n" * 150}),
        ("Read File", {"file_name": "link"}),
        ("Write File", {"file_name": "link", "content": "x"}),
        ("Copy File", {"source": "../secret.txt", "destination": "here"}),
        ("Copy File", {"source": "lines", "destination": "/etc/here"}),
        ("List Files", {"dir_path": "/"}),
        ("Inspect Script Lines", {"script_name": "lines", "start_line_number": "2", "end_line_number": 3}),
        ("Inspect Script Lines", {"script_name": "lines", "start_line_number": 1, "end_line_number": 101}),
        ("Inspect Script Lines", {"script_name": "lines", "start_line_number": 51, "end_line_number": 900}),
        ("Inspect Script Lines", {"script_name": "lines", "start_line_number": "x", "end_line_number": 900}),
        ("Write File", {"file_name": "a", "content": "x"}),
        ("Write File", {"file_name": "lines/x", "content": "x"}),
        ("Read File", {"file_name": "a\x00b"}),
        MLAB_ACTIONS="all",
    )  # fmt: skip
    assert said[:4] == [
        "a/x.py is written", said[1], "the text is added to a/x.py", "two = (\n2)\n",
    ]  # fmt: skip
    assert "warning: this is not valid Python" in said[1]
    assert [text.rpartition("is now:\n")[2] for text in said[4:7]] == ["two = (\n", "one = 1\n", ""]
    assert said[7] == "error: there is no earlier version of 'a/x.py'"
    assert said[8] == "[the folder is empty]"
    for text in said[11:16]:
        assert text.endswith("lies outside the workspace")
    assert said[16] == "lines 2 to 3 of 150:\n    2  l\n    3  l"
    assert said[17] == "error: at most 100 lines at once; the file has 150"
    assert said[18].startswith("lines 51 to 150 of 150")
    assert said[19] == "error: `start_line_number` must be a whole number, is 'x'"
    assert said[20] == "error: 'a' is not a regular file"
    assert said[21].startswith("error: ")
    assert said[22] == "error: a file name is missing"
    assert (tmp_path / "secret.txt").read_text() == "secret"


def fenced(text: str) -> str:
    return f"Here it is:\n```python\n{text}```\nThat is all."


def test_edits_by_a_model_show_the_difference(tmp_path: Path) -> None:
    def helper(prompt: str) -> str:
        assert "Change" in prompt
        if "nothing fenced" in prompt:
            return "I cannot."
        if "no end" in prompt:
            return "```python\nx = 1\n"
        if "the lines 2 to 3 of" in prompt:
            assert "````\nb = 2\nc = 3\n\n````" in prompt and "a = 1" not in prompt
            return fenced("B = 2\nC = '''\n```\nx\n```\n'''\n")
        return fenced("a = 1\nb = 2\nc = 3\n")

    edit, script = "Edit Script (AI)", {"script_name": "new/x.py", "save_name": "new/x.py"}
    lines = {"start_line_number": "2", "end_line_number": "3"}
    said = use(
        tmp_path,
        (edit, {**script, "edit_instruction": "make it"}),
        ("Edit Script Segment (AI)", {**script, **lines, "edit_instruction": "capitals", "save_name": "y.py"}),
        (
            "Edit Script Segment (AI)",
            {**script, "start_line_number": "5", "end_line_number": "6", "edit_instruction": ""},
        ),
        (edit, {**script, "edit_instruction": "nothing fenced"}),
        (edit, {**script, "edit_instruction": "no end"}),
        ("Undo Edit Script", {"script_name": "y.py"}),
        helper=helper,
    )
    assert said[0].startswith("new/x.py is saved. The difference") and "+a = 1\n+b = 2" in said[0]
    assert "-b = 2\n-c = 3\n+B = 2\n+C = '''\n+```\n+x\n+```\n+'''" in said[1]
    assert said[2] == "error: there are no such lines; the file has 3"
    assert "no code block; nothing was changed" in said[3]
    assert "had no end; nothing was changed" in said[4]
    assert said[5].endswith("y.py is now:\n")
    assert (tmp_path / "workspace" / "new" / "x.py").read_text() == "a = 1\nb = 2\nc = 3\n"


def test_a_cut_off_edit_changes_nothing(tmp_path: Path) -> None:
    body = {"choices": [{"message": {"content": fenced("x = 1\n")}, "finish_reason": "length"}]}
    given = {"script_name": "x.py", "save_name": "x.py", "edit_instruction": "make it long"}
    answers = [Reply(says("Edit Script (AI)", given)), Reply(raw=json.dumps(body).encode()), Reply(FINAL)]
    finished = run_agent(tmp_path, answers)
    assert "longer than one answer; nothing was changed" in finished.observations[0]
    assert not (finished.workspace / "x.py").exists()


def test_long_files_are_understood_in_parts(tmp_path: Path) -> None:
    asked: list[str] = []

    def helper(prompt: str) -> str:
        asked.append(prompt)
        return f"part {len(asked)}"

    answers = [
        says("Understand File", {"file_name": name, "things_to_look_for": "the end"})
        for name in ("long", "one", "none")
    ]
    files = {"long": "line of text\n" * 2000, "one": "x", "none": ""}
    finished = run_agent(tmp_path, model([*answers, FINAL], helper), files)
    assert finished.observations == ["part 4", "part 5", "[the file is empty]"]
    assert [
        found for prompt, found in zip(asked, [f"part {n} of 3" for n in (1, 2, 3)], strict=False) if found in prompt
    ] == ["part 1 of 3", "part 2 of 3", "part 3 of 3"]
    assert "Part 1:\npart 1\n\nPart 2:\npart 2" in asked[3]


def test_the_log_is_written_and_looked_up(tmp_path: Path) -> None:
    def helper(prompt: str) -> str:
        if prompt.startswith("Sum up one step"):
            return "[Reasoning]: r\n[Action]: a\n[Observation]: the log says 42"
        assert "the log says 42" in prompt
        return "retrieved 42" if "List briefly" in prompt else "thoughts on 42"

    answers = [says("List Files", {"dir_path": "."}, plan="the plan")] * 4
    answers += [says("Reflection", {"things_to_reflect_on": "why"}), FINAL]
    finished = run_agent(tmp_path, model(answers, helper), MLAB_LOG="on")
    assert finished.status == 0, finished.stderr
    assert "- Reflection: Think" in finished.prompts[0]
    assert [("retrieved 42" in prompt) for prompt in finished.prompts] == [False] * 4 + [True] * 2
    assert finished.observations[-1] == "thoughts on 42"
    assert (finished.out / "research_log.md").read_text().count("the log says 42") == 5
    assert not list(finished.workspace.iterdir())
    scarce = run_agent(tmp_path / "scarce", model(answers, helper), MLAB_LOG="on", BENCH_MAX_STEPS="7")
    assert scarce.status == 0
    assert "[Observation]: [the folder is empty]" in (scarce.out / "research_log.md").read_text(), "without a model"


def test_without_the_log_there_is_none(tmp_path: Path) -> None:
    finished = run_agent(tmp_path, model([says("List Files", {"dir_path": "."})] * 6 + [FINAL]))
    assert finished.status == 0
    assert not (finished.out / "research_log.md").exists()
    assert "Earlier steps are left out" in finished.prompts[-1]


def test_roles_have_models_of_their_own(tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    inner = model(
        [
            says("Understand File", {"file_name": "x.py", "things_to_look_for": "x"}),
            says("Edit Script (AI)", {"script_name": "x.py", "edit_instruction": "y", "save_name": "x.py"}),
            FINAL,
        ],
        lambda prompt: fenced("y = 1\n"),
    )

    def script(request: Json, protocol: str) -> Reply:
        if "stop" in request:
            return Reply(status=400, error="unsupported parameter: stop")
        seen.append((request["model"], request["temperature"]))
        return inner(request, protocol)

    finished = run_agent(tmp_path, script, {"x.py": "x"}, BENCH_MODEL_FAST="bench-fast", BENCH_MODEL_EDIT="bench-edit")
    assert finished.status == 0, finished.stderr
    main, fast, edit = ("bench-main", 0.5), ("bench-fast", 0.01), ("bench-edit", 0.01)
    assert seen == [main, fast, main, edit, main]


def test_ends_without_a_final_answer_have_their_status(tmp_path: Path) -> None:
    look = Reply(says("List Files", {"dir_path": "."}))
    edit = Reply(says("Edit Script (AI)", {"script_name": "x", "edit_instruction": "y", "save_name": "x"}))
    refused = Reply(status=402, error="limit reached")
    cases: list[tuple[str, list[Reply], dict[str, str], int, str]] = [
        ("limit", [look, refused], {}, 3, "402 limit reached"),
        ("limit_in_a_tool", [edit, refused], {}, 3, "402 limit reached"),
        ("steps", [look] * 3, {"MLAB_STEPS": "2"}, 4, "all 2 steps are used"),
        ("time", [look], {"BENCH_DEADLINE": str(time.time())}, 4, "the time is over"),
        ("key", [Reply(status=401, error="no such key")], {}, 1, "401 no such key"),
        ("prompt", [Reply(status=400, error="too long")], {}, 1, "400 too long"),
        ("actions", [], {"MLAB_ACTIONS": "Fly"}, 1, "MLAB_ACTIONS names Fly"),
    ]
    for name, answers, environment, status, reason in cases:
        finished = run_agent(tmp_path / name, answers, None, **environment)
        assert (finished.status, reason in finished.stderr) == (status, True), (name, finished.stderr)
        assert "Traceback" not in finished.stderr


def test_a_refused_prompt_within_a_tool_is_an_observation(tmp_path: Path) -> None:
    given = {"script_name": "x.py", "edit_instruction": "y", "save_name": "x.py"}
    understand = says("Understand File", {"file_name": "a", "things_to_look_for": "x"})
    refused = Reply(status=400, error="context too long")
    answers = [Reply(says("Edit Script (AI)", given)), refused, Reply(understand), refused, Reply(FINAL)]
    finished = run_agent(tmp_path, answers, {"a": "x"})
    assert finished.status == 0, finished.stderr
    assert all("could not be asked: 400 context too long" in text for text in finished.observations)


# --- whole cells ----------------------------------------------------------------------------------------------------


def edit(name: str, instruction: str) -> str:
    return says("Edit Script (AI)", {"script_name": name, "edit_instruction": instruction, "save_name": name})


def execute(name: str) -> str:
    return says("Execute Script", {"script_name": name})


def understand(name: str, wanted: str) -> str:
    return says("Understand File", {"file_name": name, "things_to_look_for": wanted})


CELLS: dict[str, tuple[str, str, list[str]]] = {
    # case -> the file that is edited, the solution's file, and the steps of the main model before its final answer
    "basics/hello_world": (
        "hello.py", "hello.py", [edit("hello.py", "print the line"), execute("hello.py")],
    ),
    "training/parse_logs": (
        "solve.py", "solve.py",
        [
            says("List Files", {"dir_path": "training"}), understand("training/training_logs.txt", "how runs end"),
            edit("solve.py", "parse the log"), execute("solve.py"),
            understand("training/training_analysis.json", "what was found"),
        ],
    ),
    "code_optimization/vectorization": (
        "train.py", "train.py",
        [
            execute("train.py"), understand("train.py", "the loops of forward"), edit("train.py", "vectorise forward"),
            execute("train.py"), "no form at all",
            says("Inspect Script Lines", {"script_name": "train.py", "start_line_number": 1, "end_line_number": 60}),
        ],
    ),
    "tabular/house_price": (
        "train.py", "train.py",
        [
            says("List Files", {"dir_path": "."}), understand("train.py", "what is missing"), execute("train.py"),
            edit("train.py", "a ridge on logarithms"), execute("train.py"),
        ],
    ),
}  # fmt: skip


def run_case(
    folder: Path, sandbox: Sandbox, case: str, yaml: str, models: dict[str, str]
) -> tuple[Record, ScriptedUpstream, Path]:
    _, solution, steps = CELLS[case]
    code = (ROOT / "cases" / case / "solution" / solution).read_text()

    def helper(prompt: str) -> str:
        return fenced(code) if "whole new file" in prompt else "[Reasoning]: r\n[Action]: a\n[Observation]: as expected"

    agent = load_agent(AGENT / yaml, trusted=True)
    agent = replace(agent, spec=agent.spec.model_copy(update={"models": models}))
    context = make_context(folder, sandbox)
    cell = make_cell(agent, load_case(ROOT / "cases" / case))
    script = model([*steps, FINAL], helper)
    with ScriptedUpstream(script, prices=PRICES) as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        return run_cell(cell, context), upstream, context.trace(cell)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "yaml"),
    on_push(
        product(CELLS, ["agent.yaml", "nolog.yaml"]),
        [
            ("basics/hello_world", "agent.yaml"),
            ("basics/hello_world", "nolog.yaml"),
        ],
    ),
)
def test_a_whole_cell_is_solved(case: str, yaml: str, tmp_path: Path, bubblewrap: Sandbox) -> None:
    roles = ["main"] if yaml == "nolog.yaml" else ["main", "fast", "edit"]
    record, upstream, trace = run_case(tmp_path, bubblewrap, case, yaml, dict.fromkeys(roles, MODEL))
    log = (trace / "agent.log").read_text() + (trace / "out" / "trace.jsonl").read_text()
    assert (record.outcome, record.stop_reason) == ("graded", "finished"), log
    assert record.success, log
    assert (trace / "out" / "research_log.md").exists() == (yaml == "agent.yaml")
    assert record.agent.id == ("mlab_research" if yaml == "agent.yaml" else "mlab_research_nolog")
    total = upstream.usage_totals
    assert [usage.role for usage in record.usage] == roles
    assert (sum(usage.calls for usage in record.usage), record.steps) == (total.calls, total.calls)
    assert sum(usage.tokens.input_uncached or 0 for usage in record.usage) == total.input
    assert sum(usage.tokens.output or 0 for usage in record.usage) == total.output
    assert record.cost_usd == pytest.approx(total.cost_usd, rel=1e-9)
    assert record.cost_status == "exact"
    assert_no_key(tmp_path)


def test_used_up_steps_are_on_record(tmp_path: Path, bubblewrap: Sandbox) -> None:
    case = load_case(ROOT / "cases" / "basics" / "hello_world")
    limits = case.spec.limits.model_copy(update={"steps": 3})
    case = replace(case, spec=case.spec.model_copy(update={"limits": limits}))
    agent = load_agent(AGENT / "nolog.yaml", trusted=True)
    script = model([edit("hello.py", "print it"), *[execute("hello.py")] * 5], lambda prompt: fenced("print('no')\n"))
    with ScriptedUpstream(script, prices=PRICES) as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        record = run_cell(make_cell(agent, case), make_context(tmp_path, bubblewrap))
    assert (record.outcome, record.stop_reason, record.success) == ("graded", "step_limit", False)
    assert record.steps == len(upstream.requests) == 3
