"""Record against a scripted upstream, replay without it: all protocols; the trace and its export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import atif
import pytest
import yaml
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.cli.results import results
from bench.gateway.backends.recorded import load_exchanges
from bench.gateway.call_log import read_trace
from tests.helpers.gateway_live import CANARY, Live, live, request
from tests.helpers.provider import Reply, ScriptedUpstream, ToolCall, Usage

TALK = [
    Reply("I look.", [ToolCall("run", {"command": "ls"})], Usage(100, 20)),
    Reply("Dönë.", usage=Usage(150, 10, 90)),
]
PROTOCOLS = ["chat", "responses", "messages"]


def conversation(protocol: str, result: str = "a.py, 0.3 s") -> list[dict[str, Any]]:
    """The second request's messages, after the first answer of `TALK`."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    if protocol == "chat":
        call = {"id": "call_0_0", "type": "function", "function": {"name": "run", "arguments": '{"command": "ls"}'}}
        turn = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
        return [*said, turn, {"role": "tool", "tool_call_id": "call_0_0", "content": result}]
    if protocol == "responses":
        call = {"type": "function_call", "call_id": "call_0_0", "name": "run", "arguments": '{"command": "ls"}'}
        return [*said, call, {"type": "function_call_output", "call_id": "call_0_0", "output": result}]
    use = {"type": "tool_use", "id": "toolu_0_0", "name": "run", "input": {"command": "ls"}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_0_0", "content": result}
    return [*said, {"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]


def talk(through: Live, protocol: str, stream: bool, result: str = "a.py, 0.3 s") -> list[bytes]:
    name = "input" if protocol == "responses" else "messages"
    first = through.post(protocol, stream=stream)
    second = through.post(protocol, stream=stream, **{name: conversation(protocol, result)})
    assert (first.status_code, second.status_code) == (200, 200), second.text
    return [first.content, second.content]


def record(folder: Path, protocol: str, stream: bool) -> tuple[Path, list[bytes]]:
    """A cassette of the two turns of `TALK`, and what the client got."""
    folder.mkdir(exist_ok=True)
    with ScriptedUpstream(TALK) as upstream, live(folder, upstream, record=folder / "sets" / "demo") as through:
        got = talk(through, protocol, stream)
    return folder / "sets", got


def replayed(folder: Path, sets: Path, **changes: Any) -> Any:
    folder.mkdir(exist_ok=True)
    models = {"main": "replay/demo", "claude": "replay/demo"}
    nobody = ScriptedUpstream([])
    with nobody:
        pass
    return live(folder, nobody, models=models, cassettes=sets, environment={}, **changes)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_what_was_recorded_is_replayed(tmp_path: Path, protocol: str, stream: bool) -> None:
    sets, got = record(tmp_path / "a", protocol, stream)
    with replayed(tmp_path / "b", sets) as through:
        again = talk(through, protocol, stream, "a.py, 7.1 s: tools may say something else")
    if stream:
        assert again == got
    else:
        assert [json.loads(it) for it in again] == [json.loads(it) for it in got]
    usage = through.gateway.state().usage[1 if protocol == "messages" else 0]
    assert (usage.calls, usage.cost_status, usage.tokens.output, usage.tokens.cache_read) == (2, "simulated", 30, 90)
    assert usage.cost_usd == pytest.approx((250 * 3 + 90 * 0.3 + 30 * 15) / 1e6) or protocol != "messages"


def test_a_cassette_is_readable_and_holds_each_message_once(tmp_path: Path) -> None:
    sets, _ = record(tmp_path, "messages", False)
    text = (sets / "demo" / "demo_case.claude.yaml").read_text(encoding="utf-8")
    heading, first, second = yaml.safe_load_all(text)
    assert (heading["schema"], heading["model"]) == (2, "anthropic/scripted")
    assert first["new"] == [{"role": "user", "content": "hello"}]
    assert (second["after"], second["kept"], len(second["new"]), second["frame"]) == (1, 1, 2, "same")
    assert "Dönë." in text
    assert text.count("hello") == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_missing_request_shows_the_nearest(tmp_path: Path, protocol: str) -> None:
    sets, _ = record(tmp_path / "a", protocol, False)
    with replayed(tmp_path / "b", sets) as through:
        name = "input" if protocol == "responses" else "messages"
        missed = through.post(protocol, **{name: [{"role": "user", "content": "something else"}]})
        assert missed.status_code == 424
        assert "nearest is exchange 1; message 0 was sent as" in missed.text
        assert "something else" in missed.text
        assert through.gateway.state().error is None, "what is asked is the agent's choice"
        assert [note.name for note in through.gateway.state().notes] == ["cassette_miss"]
    with replayed(tmp_path / "c", sets) as through:
        assert "field `temperature` was sent as 1, the cassette has null" in through.post(protocol, temperature=1).text
    with replayed(tmp_path / "d", sets) as through:
        other = "messages" if protocol == "chat" else "chat"
        alias = request(protocol)["model"]
        assert "no exchange of this protocol" in through.post(other, model=alias).text


def test_secrets_are_never_written_to_a_cassette(tmp_path: Path) -> None:
    parrot = Reply(f"keys: {CANARY} and ghp_{'a' * 36} and AIza{'b' * 35}")
    with ScriptedUpstream([parrot]) as upstream, live(tmp_path, upstream, record=tmp_path / "sets" / "demo") as through:
        said = f"my key is {through.gateway.key}, sk-ant-{'c' * 40}"
        through.post("chat", messages=[{"role": "user", "content": said}])
    text = (tmp_path / "sets" / "demo" / "demo_case.yaml").read_text(encoding="utf-8")
    for secret in (CANARY, through.gateway.key, "ghp_a", "AIzab", "sk-ant-c", upstream.url):
        assert secret not in text
    with replayed(tmp_path / "b", tmp_path / "sets") as again:
        said = f"my key is {again.gateway.key}, sk-ant-{'d' * 40}"
        got = again.post("chat", messages=[{"role": "user", "content": said}])
        assert got.json()["choices"][0]["message"]["content"] == "keys: [key] and [key] and [key]"


def test_a_faulty_cassette_is_a_user_error(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("---\nschema: 2\nmodel: m\n---\nprotocol: chat\nframe: same\nnew: []\n")
    with pytest.raises(UserError, match="goes on from one that is not before it"):
        load_exchanges(path)
    path.write_text("---\nschema: 2\nmodel: m\n---\nprotocol: telex\nframe: {}\nnew: []\n")
    with pytest.raises(UserError, match=r"exchange 1: field `protocol`"):
        load_exchanges(path)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_trace_holds_each_message_once_and_can_be_read_back(tmp_path: Path, protocol: str) -> None:
    record(tmp_path, protocol, True)
    bodies = (tmp_path / "calls.bodies.jsonl").read_text().splitlines()
    assert len(bodies) == 4, "one frame, and three messages over two requests"
    first, second = read_trace(tmp_path / "calls.jsonl")
    assert (len(first.items), second.kept, second.items) == (1, 1, conversation(protocol))
    assert second.line.answer is not None
    assert "Dönë." in json.dumps(second.line.answer, ensure_ascii=False)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_trace_is_exported_to_atif(tmp_path: Path, protocol: str) -> None:
    record(tmp_path, protocol, False)
    out = tmp_path / "t.json"
    done = CliRunner().invoke(
        results, ["trace", str(tmp_path / "calls.jsonl"), "--format", "atif", "--out", str(out)], catch_exceptions=False
    )
    assert done.exit_code == 0
    made = json.loads(out.read_text())
    assert made["schema_version"] == "ATIF-v1.8"
    read = atif.Trajectory.model_validate(made)
    assert read.to_json_dict(exclude_none=False).keys() >= made.keys(), "the format's own package knows every field"
    assert [step.llm_call_count for step in read.steps] == [None, 1, 1]
    assert [(step["step_id"], step["source"]) for step in made["steps"]] == [(1, "user"), (2, "agent"), (3, "agent")]
    acting, ending = made["steps"][1:]
    assert acting["tool_calls"][0]["function_name"] == "run"
    assert acting["tool_calls"][0]["arguments"] == {"command": "ls"}
    identity = acting["tool_calls"][0]["tool_call_id"]
    assert acting["observation"]["results"] == [{"source_call_id": identity, "content": "a.py, 0.3 s"}]
    assert (ending["message"], ending["metrics"]["cached_tokens"]) == ("Dönë.", 90)
    total = made["final_metrics"]
    prompt = 100 + 150 + 90
    assert (total["total_prompt_tokens"], total["total_completion_tokens"], total["total_steps"]) == (prompt, 30, 3)


def test_the_trace_as_text_names_every_call(tmp_path: Path) -> None:
    record(tmp_path, "chat", False)
    done = CliRunner().invoke(results, ["trace", str(tmp_path), "--format", "calls"], catch_exceptions=False)
    assert [line.split()[:4] for line in done.output.splitlines()] == [
        ["1", "main", "chat", "ok"],
        ["2", "main", "chat", "ok"],
    ]
