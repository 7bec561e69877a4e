"""The trace of a cell as steps: thought, tool calls, observations and usage, whatever the protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.formats.model_usage import Tokens
from bench.gateway.call_log import CallLine, Sent, TracedCall, read_trace
from bench.gateway.steps import Said, ToolUse, read_steps, words
from tests.helpers.gateway_live import live
from tests.helpers.provider import Reply, ScriptedUpstream, ToolCall, Usage

PROTOCOLS = ["chat", "responses", "messages"]
TALK = [
    Reply("I look.", [ToolCall("run", {"command": "ls"})], Usage(100, 20), thinking="Where am I?"),
    Reply("Dönë.", usage=Usage(150, 10, 90)),
]


def second_request(protocol: str, result: str) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    if protocol == "chat":
        call = {"id": "call_0_0", "type": "function", "function": {"name": "run", "arguments": '{"command": "ls"}'}}
        turn = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
        return [
            *said,
            turn,
            {"role": "tool", "tool_call_id": "call_0_0", "content": [{"type": "text", "text": result}]},
        ]
    if protocol == "responses":
        call = {"type": "function_call", "call_id": "call_0_0", "name": "run", "arguments": '{"command": "ls"}'}
        return [*said, call, {"type": "function_call_output", "call_id": "call_0_0", "output": result}]
    use = {"type": "tool_use", "id": "toolu_0_0", "name": "run", "input": {"command": "ls"}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_0_0", "content": [{"type": "text", "text": result}]}
    return [*said, {"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_step_has_thought_call_observation_and_usage_in_every_protocol(
    tmp_path: Path, protocol: str, stream: bool
) -> None:
    name = "input" if protocol == "responses" else "messages"
    with ScriptedUpstream(TALK) as upstream, live(tmp_path, upstream, calls=2) as through:
        through.post(protocol, stream=stream)
        through.post(protocol, stream=stream, **{name: second_request(protocol, "a.py, 0.3 s")})
        assert through.post(protocol, stream=stream).status_code == 402
    acting, ending, refused = read_steps(read_trace(tmp_path / "calls.jsonl"))
    assert acting.said == [Said("user", "hello")]
    assert acting.text == "I look."
    assert acting.thought == ("Where am I?" if protocol == "messages" else "")
    (tool,) = acting.tools
    assert (tool.name, json.loads(tool.arguments), tool.observations) == ("run", {"command": "ls"}, ["a.py, 0.3 s"])
    assert (ending.said, ending.text, ending.tools) == ([], "Dönë.", [])
    assert acting.tokens is not None and ending.tokens is not None
    assert (acting.tokens.input_uncached, acting.tokens.output, ending.tokens.cache_read) == (100, 20, 90)
    assert acting.cost_usd is not None and acting.cost_usd > 0
    assert [(step.call, step.number, step.status) for step in (acting, ending, refused)] == [
        (1, 1, "ok"),
        (2, 2, "ok"),
        (3, 0, "refused"),
    ]
    assert refused.code == "budget_exceeded"
    assert refused.error


def traced(seq: int, items: list[Any], kept: int, answer: Any = None, **changes: Any) -> TracedCall:
    frame = changes.pop("frame", {})
    facts = {
        "seq": seq, "time": "2026-11-20T02:00:00Z", "role": "main", "alias": "bench-main", "model": "openai/x",
        "status": "ok", "http": 200, "sent": Sent(frame="f"), "tokens": Tokens(input_uncached=3, output=2),
        "answer": answer, **changes,
    }  # fmt: skip
    return TracedCall(CallLine(**facts), frame, items, kept)


def tool_turn(identity: str, name: str = "run") -> dict[str, Any]:
    return {"tool_calls": [{"id": identity, "function": {"name": name, "arguments": "not JSON"}}]}


def result(identity: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": text}


def test_history_that_is_sent_again_is_marked_and_observed_once() -> None:
    task, old = {"role": "user", "content": "task"}, result("c0", "one")
    calls = [
        traced(1, [{"role": "system", "content": "be good"}, task], 0, tool_turn("c0")),
        traced(2, [{"role": "system", "content": "be good"}, task, {"role": "assistant"}, old], 2, tool_turn("c0")),
        # The agent sums its history up, and its tool calls have all the same id.
        traced(3, [task, {"role": "user", "content": "so far: one"}, old, result("c0", "two")], 0, tool_turn("c1")),
        traced(4, [result("lost", "of no known call")], 0, {"content": "end"}),
    ]
    first, second, third, fourth = read_steps(calls)
    assert first.said == [Said("system", "be good"), Said("user", "task")]
    assert first.tools == [ToolUse("c0", "run", "not JSON", ["one"])]
    assert second.tools[0].observations == ["two"]
    assert third.said == [Said("user", "task", True), Said("user", "so far: one")]
    assert (fourth.said, fourth.text) == ([Said("tool", "of no known call")], "end")


def test_roles_are_apart_and_what_is_not_of_the_conversation_is_left_out() -> None:
    asked = [{"role": "user", "content": "x"}]
    calls = [
        traced(1, asked, 0, tool_turn("same"), frame={"system": [{"type": "text", "text": "S"}]}),
        traced(2, asked, 0, tool_turn("same", "other"), role="judge"),
        traced(3, [*asked, result("same", "mine")], 1, frame={"system": [{"type": "text", "text": "S"}]}),
        traced(4, asked, 0, status="probe"),
        traced(5, asked, 0, protocol="count_tokens"),
        traced(6, ["a text"], 0, protocol="embeddings"),
    ]
    first, judge, third, embedding = read_steps(calls)
    assert [it.text for it in first.said] == ["S", "x"]
    assert [it.observations for it in (first.tools[0], judge.tools[0])] == [["mine"], []]
    assert third.said == [], "the same system prompt is said once"
    assert (embedding.number, embedding.said) == (0, [])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:"}], "a\n[input_image]"),
        ([{"type": "thinking", "thinking": "secret"}, {"type": "text", "text": "b"}], "b"),
        ({"type": "output_text", "text": "c"}, "c"),
        ({"type": {"odd": 1}}, ""),
        (None, ""),
        (7, ""),
    ],
)
def test_words_of_a_content(content: object, text: str) -> None:
    assert words(content) == text


def many_parts(count: int) -> list[TracedCall]:
    """A tool call, and as many results and words after it."""
    asked = {"tool_calls": [{"id": "a", "function": {"name": "run", "arguments": "{}"}}]}
    line = {"time": "2026-11-01T00:00:00Z", "role": "main", "alias": "m", "model": "m", "status": "ok", "http": 200}
    results = [{"type": "tool_result", "tool_use_id": "a", "content": f"r{it}"} for it in range(count)]
    said = [{"type": "text", "text": f"t{it}"} for it in range(count)]
    lines = [CallLine.model_validate({**line, "seq": 1, "answer": asked}), CallLine.model_validate({**line, "seq": 2})]
    return [TracedCall(lines[0], {}, [], 0), TracedCall(lines[1], {}, [{"role": "user", "content": results + said}], 0)]


def test_a_message_of_many_parts_is_read_in_time_in_proportion_to_them() -> None:
    """A site is built of the traces of all agents: one agent must not hold it for hours by one message."""
    compared = 0

    class Text(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    calls = many_parts(500)
    for part in calls[1].items[0]["content"]:
        part.update({name: Text(it) for name, it in part.items()})
    acting, telling = read_steps(calls)
    assert acting.tools[0].observations == [f"r{it}" for it in range(500)]
    assert telling.said == [Said("user", "\n".join(f"t{it}" for it in range(500)))]
    assert compared < 20 * 1000, "each part is compared with a few others, not with all"
