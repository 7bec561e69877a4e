"""Small agents that fail as the papers say: a real loop of tools, with the model's turns written by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.helpers.cells import CHECK
from tests.helpers.gateway import turn

Json = dict[str, Any]

LOOP = r"""
import json, os, subprocess, urllib.error, urllib.request

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
         for name in ("run", "edit_file", "submit")]


def ask(messages):
    body = {"model": os.environ["BENCH_MODEL"], "messages": messages, "max_tokens": 50, "tools": TOOLS}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), headers
    )
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]


def run(command):
    try:
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=2)
    except subprocess.TimeoutExpired:
        return "[timed out after 2 s]"
    return done.stdout + "[status %d]" % done.returncode


def edit_file(path, old, new):
    text = open(path).read()
    if old not in text:
        return "error: no match for the text in " + path
    open(path, "w").write(text.replace(old, new))
    return "replaced"


said = [{"role": "user", "content": open(os.environ["BENCH_TASK_FILE"]).read()}]
over = False
while not over:
    try:
        answer = ask(said)
    except urllib.error.HTTPError:
        break
    said.append(answer)
    over = not answer.get("tool_calls")
    for call in answer.get("tool_calls") or []:
        name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
        over = over or name == "submit"
        brought = "" if name == "submit" else {"run": run, "edit_file": edit_file}[name](**given)
        said.append({"role": "tool", "tool_call_id": call["id"], "content": brought})
"""
MEASURED = (
    CHECK
    + '''

@check()
def measured(ws):
    """Measures."""
    ws.metric("accuracy", 0.7)
    return 0.5
'''
)
_METRIC = {"name": "accuracy", "direction": "higher", "baseline": 0.7, "target": 0.9}


def ran(*commands: str, said: str = "On.") -> list[Json]:
    return [turn(said, ("run", {"command": command})) for command in commands]


def edited(*pairs: tuple[str, str]) -> list[Json]:
    return [turn("Edit.", ("edit_file", {"path": "answer.py", "old": old, "new": new})) for old, new in pairs]


@dataclass(frozen=True)
class Fixture:
    """The turns of a model that fails in one way, and of one that comes near and does not."""

    turns: list[Json]
    says: str
    """Of the evidence."""
    sound: list[Json]
    """Almost the same, and not this failure."""
    case: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


_STUB = ("raise NotImplementedError", "return x")
_BUG = ("raise NotImplementedError", "return y")
_TESTS = [f"python -c 'import answer; print({n})' # test_answer.py" for n in range(5)]
FIXTURES: dict[str, Fixture] = {
    "failed_edits": Fixture(
        [*edited(("nothing", "x"), _STUB, ("none", "y"), ("no such text", "z")), turn("I end here.")],
        "3 of 4 edits failed; the last: error: no match",
        [*edited(("nothing", "x"), ("none", "y"), _STUB), turn("I end here.")],
    ),
    "excessive_verification": Fixture(
        [*edited(_STUB), *ran(*_TESTS), turn("Done.")],
        "5 tests passed in a row with no change to a file between them",
        [*edited(_STUB), *ran(*_TESTS[:4]), *edited(("return x", "return 1 * x")), *ran(*_TESTS[:2]), turn("Done.")],
    ),
    "debugging_failure": Fixture(
        [*edited(_BUG), *ran(*["python -c 'import answer; answer.double(1)'"] * 3), turn("It does not work.")],
        "the last 3 runs failed: NameError",
        [*edited(_BUG), *ran(*["python -c 'import answer; answer.double(1)'"] * 2, "echo well"), turn("It works now.")],
    ),
    "bad_plan": Fixture(
        [
            *edited(_STUB), *ran("echo a"), *edited(("return x", "return +x")), *ran("echo b", "echo c", "echo d"),
            turn("That is it."),
        ],
        "2 changes and 4 runs without an error",
        [*edited(_STUB), *ran("echo a", "echo b"), turn("That is it.")],
        {"metric": _METRIC}, {"check.py": MEASURED},
    ),
    "hallucination": Fixture(
        [*edited(_STUB), *ran("echo accuracy 0.71"), turn("The model now has an accuracy of 97.3 %.")],
        "accuracy of 97.3 %",
        [*edited(_STUB), *ran("echo accuracy 0.7134"), turn("The model now has an accuracy of 71.3 %.")],
    ),
    "asked_user": Fixture(
        [*edited(_STUB), turn("I have a first version. Should I proceed with the rest?")],
        "Should I proceed with the rest?",
        [*edited(_STUB), turn("Why was it slow? The loop was. That is fixed.")],
    ),
    "ended_before_job": Fixture(
        [*edited(_STUB), *ran("echo epoch 1; sleep 9"), turn("The training will take its time.")],
        "timed out after 2 s",
        [*edited(_STUB), *ran("echo epoch 1; sleep 9", "echo trained"), turn("The training is over.")],
    ),
    "job_left_running": Fixture(
        [*edited(_STUB), *ran("nohup sleep 30 > train.log 2>&1 &"), turn("The training runs.")],
        "started and not looked after again: run nohup sleep 30",
        [*edited(_STUB), *ran("nohup sleep 0 > train.log 2>&1 &", "wait; cat train.log"), turn("It is over.")],
    ),
}  # fmt: skip
"""By failure mode. `context_overflow` needs a provider that refuses, and is not among them."""
OVERFLOW = json.dumps(
    {
        "error": {
            "code": "context_length_exceeded",
            "type": "invalid_request_error",
            "message": "This model's maximum context length is 128000 tokens. Your messages have 131072 tokens.",
        }
    }
).encode()
