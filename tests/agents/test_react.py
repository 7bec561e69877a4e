"""The react agent as a process against a scripted model over real HTTP, and its tools on real files and processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.gateway.launch import open_gateway
from bench.guest.forwarding import forward
from tests.helpers.gateway import (
    TASK,
    Json,
    Scripted,
    Upstream,
    completion,
    ledger_lines,
    replaying,
    spec_in,
    turn,
    write_cassette,
)  # fmt: skip
from tests.helpers.provider import Reply, ScriptedUpstream, ToolCall

LAY_OVER = "_shared/answer/lay_over.py"
AGENTS = Path(__file__).resolve().parents[2] / "agents"
SUBMIT = ("submit", {"summary": "done"})


@dataclass(frozen=True)
class Finished:
    status: int
    events: list[Json]
    stderr: str
    workspace: Path

    def observations(self) -> list[str]:
        return [str(event["text"]) for event in self.events if event["event"] == "observation"]


def run_agent(folder: Path, base_url: str, key: str, task: str = TASK, **environment: str) -> Finished:
    """The agent as the runner starts it, in a new workspace: `python` is the benchmark's own."""
    workspace, out = folder / "workspace", folder / "out"
    workspace.mkdir(exist_ok=True)
    out.mkdir()
    (folder / "task.md").write_text(task, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(AGENTS / "react" / "react_agent.py")],
        cwd=workspace, capture_output=True, text=True, check=False, timeout=120,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "BENCH_TASK_FILE": str(folder / "task.md"), "BENCH_MODEL": "bench-main",
            "BENCH_OUT_DIR": str(out), "OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": key,
            "BENCH_DEADLINE": str(time.time() + 100), "PYTHONDONTWRITEBYTECODE": "1", **environment,
        },
    )  # fmt: skip
    events = [json.loads(line) for line in (out / "trace.jsonl").read_text().splitlines()]
    return Finished(done.returncode, events, done.stderr, workspace)


def on_loopback(path: Path) -> int:
    """The port on which the socket at `path` can be reached, as inside a sandbox."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    forward(listener, str(path))
    return int(listener.getsockname()[1])


def replay_turns(folder: Path, turns: list[Json], max_calls: int = 60, **environment: str) -> Finished:
    """The agent against the gateway with a cassette."""
    with replaying(folder, turns, calls=max_calls) as gateway:
        url = f"http://127.0.0.1:{on_loopback(folder / 'g.sock')}/v1"
        finished = run_agent(folder, url, gateway.key, **environment)
        assert gateway.state().error is None, gateway.state().error
    return finished


def use(folder: Path, *calls: tuple[str, object]) -> list[str]:
    """What the model is shown for each of `calls`, one a turn."""
    finished = replay_turns(folder, [*(turn("", call) for call in calls), turn("", SUBMIT)])
    assert finished.status == 0, finished.stderr
    return finished.observations()


def test_a_task_is_worked_on_and_submitted(tmp_path: Path) -> None:
    turns = [
        turn("First I write.", ("write_file", {"path": "a/b.py", "content": "print(1)\nprint(2)\n"})),
        turn("Then two at once.", ("run", {"command": "python a/b.py"}), ("read_file", {"path": "a/b.py", "start": 2})),
        turn("Done.", SUBMIT),
    ]
    finished = replay_turns(tmp_path, turns)
    assert finished.status == 0
    wrote, ran, read = finished.observations()
    assert wrote == "wrote 2 lines"
    assert ran.startswith("1\n2\n[status 0, ")
    assert "s of the run left]" in ran
    assert read == "    2  print(2)"
    assert finished.events[0]["event"] == "start"
    assert finished.events[-1] == finished.events[-1] | {"event": "end", "status": 0, "reason": "done"}
    first = ledger_lines(tmp_path / "calls.jsonl")[0]["new_messages"]
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[1]["content"] == TASK, "word for word"
    assert str(tmp_path) not in json.dumps(first), "no path of this machine"


def test_malformed_answers_are_explained_to_the_model_and_survived(tmp_path: Path) -> None:
    turns = [
        turn("", ("run", "{broken")),
        turn("", ("run", "[]")),
        turn("", ("fly", {})),
        turn("", ("run", {"cmd": "ls"})),
        turn("", ("run", {})),
        turn("", ("run", {"command": 5})),
        turn("", ("run", {"command": "true", "timeout": True})),
        turn("", ("read_file", {"path": "nowhere.txt"})),
        turn("", ("run", {"command": "a\x00b"})),
        turn("I only think."),
        turn("", SUBMIT),
    ]
    finished = replay_turns(tmp_path, turns)
    assert finished.status == 0, finished.stderr
    said = finished.observations()
    for text, expected in zip(
        said,
        ["not valid JSON", "one JSON object", "there is no tool 'fly'", "unknown arguments cmd; known: command",
         "missing arguments: command", "command must be of type string", "timeout must be of type number",
         "No such file or directory: 'nowhere.txt'", "null byte"],
        strict=True,
    ):  # fmt: skip
        assert text.startswith("error: ")
        assert expected in text
    assert [event["event"] for event in finished.events].count("nudge") == 1


@pytest.mark.parametrize(
    "message",
    [None, {}, [], "text", {"content": None, "tool_calls": None}, {"content": 5, "tool_calls": "run"},
     {"content": "", "tool_calls": [None, 5, {}, {"function": None}]}],
)  # fmt: skip
def test_answers_without_sense_count_as_silence(tmp_path: Path, message: object) -> None:
    odd = Scripted(200, {"choices": [{"message": message}]})
    with Upstream([], always=odd) as upstream:
        finished = run_agent(tmp_path, upstream.url, "k")
    assert finished.status == 4
    assert "3 answers in a row without a tool call" in finished.stderr
    assert len(upstream.requests) == 3


def test_calls_with_odd_shapes_are_answered_under_their_id(tmp_path: Path) -> None:
    calls: list[Json] = [{"function": {"name": "run", "arguments": {"command": "echo hi"}}}]
    calls.append({"id": "x", "function": {"name": 7}})
    answer = {"role": "assistant", "content": "\ud800", "tool_calls": calls}
    last = {"id": "z", "type": "function", "function": {"name": "submit", "arguments": '{"summary": "ok"}'}}
    script = [Scripted(200, {"choices": [{"message": sent}]}) for sent in (answer, {"tool_calls": [last]})]
    with Upstream(script) as upstream:
        finished = run_agent(tmp_path, upstream.url, "k")
    assert finished.status == 0, finished.stderr
    assert finished.observations()[0].startswith("hi\n")
    history = upstream.requests[1][1]["messages"]
    asked = [call["id"] for call in history[2]["tool_calls"]]
    assert [message["tool_call_id"] for message in history[3:]] == asked
    assert asked[1] == "x"
    assert len(set(asked)) == 2


def test_a_used_up_limit_ends_it_with_three(tmp_path: Path) -> None:
    turns = [turn("", ("run", {"command": "true"}))] * 5
    for number, turn_ in enumerate(turns):
        turns[number] = {**turn_, "content": f"step {number}"}
    finished = replay_turns(tmp_path, turns, max_calls=3, BENCH_MAX_STEPS="3")
    assert finished.status == 3
    assert "402" in finished.stderr
    assert ledger_lines(tmp_path / "calls.jsonl")[-1]["error"].startswith("step_limit")
    assert "[2 more answers; submit before they are used up]" in finished.observations()[0]


def test_fifty_steps_are_the_most(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "list_processes", "arguments": "{}"}}
    always = Scripted(200, {"choices": [{"message": {"content": "", "tool_calls": [call]}}]})
    with Upstream([], always=always) as upstream:
        finished = run_agent(tmp_path, upstream.url, "k", BENCH_MAX_STEPS="1000")
    assert finished.status == 4
    assert len(upstream.requests) == 50


def test_the_deadline_ends_it(tmp_path: Path) -> None:
    with Upstream([]) as upstream:
        finished = run_agent(tmp_path, upstream.url, "k", BENCH_DEADLINE=str(time.time() - 1))
    assert finished.status == 4
    assert not upstream.requests


def test_refusals_and_silence_end_it_without_a_traceback(tmp_path: Path) -> None:
    with Upstream([Scripted(401, {"error": {"message": "no such key"}})]) as upstream:
        finished = run_agent(tmp_path, upstream.url, "k")
    assert (finished.status, len(upstream.requests)) == (1, 1)
    assert finished.stderr == "react: 401 no such key\n"
    nobody = tmp_path / "nobody"
    nobody.mkdir()
    finished = run_agent(nobody, upstream.url, "k")
    assert finished.status == 1
    assert "no connection to the model" in finished.stderr


def test_long_output_keeps_its_head_and_tail(tmp_path: Path) -> None:
    command = "python -c \"print('a' * 50 + 'ü' * 3_000_000 + 'z' * 50)\"; exit 7"
    (text,) = use(tmp_path, ("run", {"command": command}))
    assert len(text) < 8_200
    assert text.startswith("a" * 50 + "ü")
    assert "characters cut ...]" in text
    assert "z" * 50 + "\n[status 7, " in text


def test_a_command_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    command = "(trap '' TERM; while true; do sleep 0.1; echo x >> alive; done) & echo started; sleep 60"
    slow, quick, alive = use(
        tmp_path,
        ("run", {"command": command, "timeout": 1}),
        ("run", {"command": "sleep 300 & echo left"}),
        ("run", {"command": "a=$(wc -c < alive); sleep 1; b=$(wc -c < alive); echo $((b - a))"}),
    )
    assert slow.startswith("started\n[ended by the time limit of 1 s")
    assert quick.startswith("left\n[status 0, ")
    assert alive.startswith("0\n"), "nothing writes any more"


def test_commands_have_no_input_and_not_the_models_key(tmp_path: Path) -> None:
    (text,) = use(tmp_path, ("run", {"command": "cat; env | grep -c -e OPENAI -e ANTHROPIC"}))
    assert text.startswith("0\n[status 1, ")


def test_background_work_is_started_watched_and_ended(tmp_path: Path) -> None:
    started, waited, listed, killed, missing, none = use(
        tmp_path,
        ("spawn", {"command": "echo epoch 1; sleep 300"}),
        ("wait_and_run", {"seconds": 0.3, "command": 'tail "$BENCH_OUT_DIR/spawn-1.log"'}),
        ("list_processes", {}),
        ("kill_process", {"number": 1}),
        ("kill_process", {"number": 9}),
        ("read_file", {"path": "$BENCH_OUT_DIR/spawn-1.log"}),
    )
    assert started.startswith("started; 1: running")
    assert "log $BENCH_OUT_DIR/spawn-1.log" in started
    assert waited.startswith("[waited 0 s")
    assert "epoch 1" in waited
    assert "1: running" in listed
    assert "1: ended with status -15" in killed
    assert missing.startswith("error: there is no process 9")
    assert none == "    1  epoch 1"


def test_nothing_it_spawned_outlives_it(tmp_path: Path) -> None:
    forever = "while true; do echo x >> alive; sleep 0.05; done"
    use(tmp_path, ("spawn", {"command": forever}), ("wait_and_run", {"seconds": 0.3}))
    size = (tmp_path / "workspace" / "alive").stat().st_size
    time.sleep(0.3)
    assert (tmp_path / "workspace" / "alive").stat().st_size == size > 0


def test_lines_are_edited_with_both_ends_included(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    file = tmp_path / "workspace" / "f.py"
    file.write_bytes(b"one = 1\r\ntwo = 2\nthree = '\x0c'\nfour = 4")
    said = use(
        tmp_path,
        ("edit_file", {"path": "f.py", "start": 2, "end": 3, "text": "TWO = 2\n"}),
        ("edit_file", {"path": "f.py", "start": 4, "end": 3, "text": "five = 5"}),
        ("edit_file", {"path": "f.py", "start": 1, "end": 0, "text": "zero = (\n"}),
        ("edit_file", {"path": "f.py", "start": 1, "end": 1, "text": ""}),
        ("edit_file", {"path": "f.py", "start": 9, "end": 9, "text": ""}),
    )
    assert file.read_bytes() == b"one = 1\r\nTWO = 2\nfour = 4\nfive = 5"
    assert said[0].startswith("replaced 2 lines by 1\n")
    assert "    2  TWO = 2" in said[0]
    assert "this is not valid Python" in said[2]
    assert said[3].startswith("replaced 1 lines by 0\n")
    assert said[4] == "error: no lines 9 to 9; the file has 4 lines"


def test_files_and_folders(tmp_path: Path) -> None:
    said = use(
        tmp_path,
        ("tree", {}),
        ("run", {"command": "mkdir -p a/b/c/d && touch a/b/c/d/deep $(seq 1 30) && mkfifo pipe && printf 'é' > text"}),
        ("tree", {"depth": 2}),
        ("change_directory", {"path": "a/b"}),
        ("write_file", {"path": "new.txt", "content": "x"}),
        ("run", {"command": "ls"}),
        ("change_directory", {"path": "missing"}),
        ("change_directory", {"path": ".."}),
        ("read_file", {"path": "../pipe"}),
        ("read_file", {"path": "../1"}),
        ("read_file", {"path": "../text"}),
        ("read_file", {"path": "../text", "start": 5}),
    )
    assert said[0] == "[the folder is empty]"
    assert said[2].splitlines()[:3] == ["1 (0 bytes)", "10 (0 bytes)", "11 (0 bytes)"]
    assert "[and 13 more]" in said[2]
    assert said[3] == "now in a/b"
    assert said[5].startswith("c\nnew.txt\n")
    assert said[6] == "error: 'missing' is not a folder"
    assert said[7] == "now in a"
    assert "not a regular file" in said[8]
    assert said[9] == "[the file is empty]"
    assert said[10] == "    1  é"
    assert said[11] == "error: no lines 5 to None; the file has 1 lines"
    assert str(tmp_path) not in "".join(said), "no path of this machine"


@pytest.fixture
def live_react(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Upstream, Path]]:
    call = {"id": "c", "type": "function", "function": {"name": "submit", "arguments": '{"summary": "ok"}'}}
    answer = completion(choices=[{"message": {"role": "assistant", "content": "x", "tool_calls": [call]}}])
    with Upstream([Scripted(500, {}), answer]) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        yield upstream, tmp_path


def test_the_same_agent_works_live_behind_the_gateway(live_react: tuple[Upstream, Path]) -> None:
    upstream, folder = live_react
    spec = spec_in(folder, models={"main": "openai/real-name"}, cassettes=None, cost_usd=None)
    with open_gateway(spec) as gateway:
        url = f"http://127.0.0.1:{on_loopback(folder / 'g.sock')}/v1"
        finished = run_agent(folder, url, gateway.key)
    assert finished.status == 0, finished.stderr
    assert {request["model"] for _, request in upstream.requests} == {"real-name"}
    (usage,) = gateway.state().usage
    assert (usage.calls, usage.retries, usage.cost_status) == (1, 1, "unknown")


def test_a_missed_cassette_is_told_by_the_agent_too(tmp_path: Path) -> None:
    write_cassette(tmp_path / "cassettes", [turn("", SUBMIT)])
    with open_gateway(spec_in(tmp_path)) as gateway:
        url = f"http://127.0.0.1:{on_loopback(tmp_path / 'g.sock')}/v1"
        finished = run_agent(tmp_path, url, gateway.key, task="another task")
        assert [note.name for note in gateway.state().notes] == ["cassette_miss"]
    assert finished.status == 1
    assert "424 cassette demo/demo_case.yaml, turn 0" in finished.stderr


def run_plain(folder: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "task.md").write_text(TASK, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-I", str(AGENTS / program)],
        cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "BENCH_TASK_FILE": str(folder / "task.md"), **environment},
    )  # fmt: skip


def test_nop_reads_the_task_and_leaves_no_trace(tmp_path: Path) -> None:
    done = run_plain(tmp_path, "nop/nop.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["task.md"]
    (tmp_path / "task.md").unlink()
    missing = subprocess.run(
        [sys.executable, "-I", str(AGENTS / "nop" / "nop.py")], env={"BENCH_TASK_FILE": str(tmp_path / "task.md")},
        capture_output=True, check=False,
    )  # fmt: skip
    assert missing.returncode == 1, "it does read the task"


def test_oracle_lays_the_solution_over_and_runs_it(tmp_path: Path) -> None:
    solution, workspace = tmp_path / "solution", tmp_path / "workspace"
    (solution / "deep" / "__pycache__").mkdir(parents=True)
    (solution / "deep" / "tool.sh").write_text("#!/bin/sh\necho ran > result; exit 3\n")
    (solution / "deep" / "tool.sh").chmod(0o700)
    (solution / "deep" / "__pycache__" / "x.pyc").write_text("x")
    (solution / "train.py").write_text("new")
    workspace.mkdir()
    (workspace / "train.py").write_text("old")
    (workspace / "train.py").chmod(0o444)
    (workspace / "kept.txt").write_text("kept")
    (workspace / "linked").write_text("")
    (solution / "linked").symlink_to("/etc/passwd")
    place = {"BENCH_SOLUTION_DIR": str(solution)}
    assert run_plain(workspace, LAY_OVER, **place).returncode == 0
    assert run_plain(workspace, LAY_OVER, **place, BENCH_SOLUTION_RUN="[]").returncode == 0
    assert (workspace / "train.py").read_text() == "new"
    assert (workspace / "kept.txt").read_text() == "kept"
    assert not (workspace / "linked").is_symlink()
    assert not (workspace / "deep" / "__pycache__").exists()
    done = run_plain(workspace, LAY_OVER, **place, BENCH_SOLUTION_RUN='["deep/tool.sh"]')
    assert done.returncode == 3
    assert (workspace / "result").read_text() == "ran\n"
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "result").write_text("laid over it")
    more = {"BENCH_SOLUTION_REMOVED": '["kept.txt"]', "BENCH_SOLUTION_LAST": str(tmp_path / "last")}
    assert run_plain(workspace, LAY_OVER, **place, **more, BENCH_SOLUTION_RUN='["deep/tool.sh"]').returncode == 3
    assert not (workspace / "kept.txt").exists()
    assert (workspace / "result").read_text() == "laid over it"
    killed = run_plain(workspace, LAY_OVER, **place, BENCH_SOLUTION_RUN='["sh", "-c", "kill -9 $$"]')
    assert killed.returncode == 137


def test_cache_marks_stand_at_the_head_and_move_with_the_end(tmp_path: Path) -> None:
    """Marked only when asked for: providers that do not know the marks refuse them."""
    script = [Reply("", tool_calls=[ToolCall("run", {"command": "ls"})]), Reply("", tool_calls=[ToolCall(*SUBMIT)])]
    for name, asked in (("plain", {}), ("marked", {"REACT_CACHE_MARKS": "1"})):
        folder = tmp_path / name
        folder.mkdir()
        with ScriptedUpstream(list(script)) as upstream:
            finished = run_agent(folder, f"{upstream.url}/v1", "key", **asked)
        assert finished.status == 0, finished.stderr
        marks = [
            [number for number, message in enumerate(seen.body["messages"]) if "cache_control" in json.dumps(message)]
            for seen in upstream.requests
        ]
        lengths = [len(seen.body["messages"]) for seen in upstream.requests]
        assert marks == ([[], []] if name == "plain" else [[0, length - 1] for length in lengths])
        assert "".join(part["text"] for part in parts(upstream.requests[0].body["messages"][1])) == TASK


def parts(message: Json) -> list[Json]:
    """The text parts of a message, marked or not."""
    content = message["content"]
    return content if isinstance(content, list) else [{"text": content}]
