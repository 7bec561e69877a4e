"""What official clients do beyond a plain call, through the gateway: each gets what it would get from the provider."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.gateway.config import Patience
from tests.helpers.gateway_live import ALL_MODELS, NO_TLS, Live, asked_by_agent, live
from tests.helpers.provider import Reply, ScriptedUpstream, ToolCall

CALLING = Reply("I look.", [ToolCall("get_weather", {"city": "Köln"})])


def test_the_tool_runner_of_anthropic_goes_on_without_a_thread(tmp_path: Path) -> None:
    """It has the provider keep the conversation, and sends it whole to one that says that it cannot."""
    import anthropic

    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"sunny in {city}"

    with ScriptedUpstream([CALLING, Reply("It is sunny.")]) as upstream, live(tmp_path, upstream) as through:
        client = anthropic.Anthropic(base_url=through.url, api_key=through.gateway.key, max_retries=0)
        runner = client.beta.messages.tool_runner(
            model="bench-claude",
            max_tokens=100,
            tools=[anthropic.beta_tool(get_weather)],
            messages=[{"role": "user", "content": "hi"}],
        )
        (block,) = runner.until_done().content
        assert block.type == "text"
        assert block.text == "It is sunny."
        assert through.gateway.state().usage[1].calls == 2
    first, second = asked_by_agent(upstream)
    assert [len(seen.body["messages"]) for seen in (first, second)] == [1, 3], "the conversation is sent whole"
    assert "sunny in Köln" in str(second.body["messages"][2])


@pytest.mark.parametrize("field", ["inline_data", "inlineData"])
def test_a_picture_of_googles_client_is_read_in_the_letters_that_it_writes(tmp_path: Path, field: str) -> None:
    """It writes base64 for addresses, with - and _ for + and /."""
    from google import genai
    from google.genai import types

    picture = _png(300, 200)
    assert {"+", "/"} & set(base64.b64encode(picture).decode())
    with (
        ScriptedUpstream([Reply("a picture"), Reply("a picture")]) as upstream,
        live(tmp_path, upstream, models=ALL_MODELS) as through,
    ):
        client = genai.Client(
            api_key=through.gateway.key, http_options=types.HttpOptions(base_url=through.url, api_version="v1beta")
        )
        part: Any = types.Part.from_bytes(data=picture, mime_type="image/png")
        if field == "inline_data":
            written = base64.urlsafe_b64encode(picture).decode()
            part = {"inline_data": {"mime_type": "image/png", "data": written}}
        assert client.models.generate_content(model="bench-gemini", contents=["what is it?", part]).text == "a picture"
    (seen,) = asked_by_agent(upstream)
    (sent,) = [part["inlineData"] for part in seen.body["contents"][0]["parts"] if "inlineData" in part]
    assert base64.b64decode(sent["data"], validate=True) == picture


def _png(width: int, height: int) -> bytes:
    """A picture of noise, whose base64 has every letter."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = b"".join(b"\0" + bytes((x * y * 7) % 251 for x in range(width)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def _event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def _said(finish: str | None) -> bytes:
    return _event(id="c", choices=[{"index": 0, "delta": {"content": "hello"}, "finish_reason": finish}])


CHAT_USAGE = _event(id="c", choices=[], usage={"prompt_tokens": 70, "completion_tokens": 20})
DONE = b"data: [DONE]\n\n"
RESPONSE = {
    "id": "r", "object": "response", "output": [], "usage": {"input_tokens": 70, "output_tokens": 20},
}  # fmt: skip
COMPLETED = _event(type="response.completed", response={**RESPONSE, "status": "completed"})
CANDIDATE = {"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP", "index": 0}
GOOGLE = _event(candidates=[CANDIDATE], usageMetadata={"promptTokenCount": 70, "candidatesTokenCount": 20})


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        ("chat", (_said("stop") + CHAT_USAGE).rstrip()),
        ("chat", (_said("stop") + CHAT_USAGE + DONE).rstrip()),
        ("chat", _said(None) + CHAT_USAGE + DONE),
        ("responses", COMPLETED.rstrip()),
        ("generate", GOOGLE[:-1]),
    ],
    ids=["no blank line after the usage", "none after the end", "no reason to end", "responses", "google"],
)
def test_a_stream_that_ends_in_its_own_way_is_whole(tmp_path: Path, protocol: str, body: bytes) -> None:
    """No blank line after the last event, or no reason why the answer ends: some servers that speak the protocols."""
    with live_stream(tmp_path, body) as through:
        assert "hello" in stream_of(through, protocol) or protocol == "responses"
    (line,) = through.lines
    assert (line["status"], line["faults"], line["estimated"]) == ("ok", [], False)
    assert (line["tokens"]["input_uncached"], line["tokens"]["output"]) == (70, 20)


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        ("chat", _said(None) + _event(error={"message": "overloaded", "code": 500})),
        ("chat", _said(None) + _event(error={"message": "overloaded", "code": 500}) + DONE),
        ("responses", _event(type="response.failed", response={**RESPONSE, "status": "failed", "usage": None})),
        ("responses", _event(type="error", code="server_error", message="overloaded", param=None)),
        ("messages", _event(type="error", error={"type": "overloaded_error", "message": "overloaded"})),
        ("generate", _event(error={"code": 503, "message": "overloaded", "status": "UNAVAILABLE"})),
    ],
)
def test_a_stream_that_tells_its_fault_and_ends_is_not_cut_besides(tmp_path: Path, protocol: str, body: bytes) -> None:
    """A client that reads the fault and goes on to the end would meet a broken connection in place of it."""
    with live_stream(tmp_path, body) as through:
        assert stream_of(through, protocol) == body.decode()
    (line,) = through.lines
    assert (line["status"], line["code"], line["estimated"]) == ("failed", "stream_broken", True)


@pytest.mark.parametrize("kind", ["Text/Event-Stream", "text/plain; charset=utf-8", "application/octet-stream"])
def test_a_stream_that_was_asked_for_is_one_by_whatever_type(tmp_path: Path, kind: str) -> None:
    """Small servers do not say that events come, and clients do not ask."""
    with live_stream(tmp_path, _said("stop") + CHAT_USAGE + DONE, **{"Content-Type": kind}) as through:
        assert stream_of(through, "chat") == (_said("stop") + DONE).decode()
    (line,) = through.lines
    assert (line["status"], line["tokens"]["output"]) == ("ok", 20)


@pytest.mark.parametrize("stream", [False, True])
def test_gemini_may_say_nothing_and_is_paid_once(tmp_path: Path, stream: bool) -> None:
    body = json.dumps({"usageMetadata": {"promptTokenCount": 70, "totalTokenCount": 70}, "modelVersion": "g"}).encode()
    kind = {"Content-Type": "text/event-stream" if stream else "application/json"}
    with live_stream(tmp_path, b"data: " + body + b"\n\n" if stream else body, **kind) as through:
        assert json.loads(stream_of(through, "generate", stream).removeprefix("data: "))["modelVersion"] == "g"
    (line,) = through.lines
    assert (line["status"], line["retries"], line["estimated"]) == ("ok", 0, False)
    assert (line["tokens"]["input_uncached"], line["tokens"]["output"]) == (70, 0)


def test_calls_that_share_a_place_are_told_apart_in_the_record(tmp_path: Path) -> None:
    """Gemini's address for OpenAI's clients gives each call of several the first place."""
    pieces = [{"index": 0, "id": f"c{i}", "function": {"name": "run", "arguments": f'{{"n": {i}}}'}} for i in (1, 2)]
    body = b"".join(_event(id="c", choices=[{"index": 0, "delta": {"tool_calls": [it]}}]) for it in pieces)
    with live_stream(tmp_path, body + _said("tool_calls") + CHAT_USAGE + DONE) as through:
        assert "hello" in stream_of(through, "chat")
    calls = through.lines[0]["answer"]["tool_calls"]
    assert [(it["id"], it["function"]["arguments"]) for it in calls] == [("c1", '{"n": 1}'), ("c2", '{"n": 2}')]


def test_an_error_with_status_200_is_told_to_the_client(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": "no such provider", "code": 502}}).encode()
    with ScriptedUpstream(lambda _, __: Reply(raw=body)) as upstream, live(tmp_path, upstream) as through:
        assert "no such provider [502]" in through.post("chat").json()["error"]["message"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
def test_a_stream_by_way_of_litellm_can_be_refused_and_tried_again(tmp_path: Path) -> None:
    """For Gemini it sends the request when the first part of the stream is asked for."""
    asked = {"model": "bench-gemini", "stream": True}
    script = [Reply(status=400, error="no such word"), Reply(status=503), Reply("hello")]
    with (
        ScriptedUpstream(script) as upstream,
        live(tmp_path, upstream, models=ALL_MODELS, patience=Patience(first_wait_s=0.01)) as through,
    ):
        refused = through.post("chat", **asked)
        assert (refused.status_code, "no such word" in refused.json()["error"]["message"]) == (400, True)
        assert "hello" in through.post("chat", **asked).text
    first, second = through.lines
    assert (first["status"], first["cost_usd"]) == ("failed", None)
    assert (second["status"], second["faults"], second["estimated"]) == ("ok", ["503"], False)


@contextlib.contextmanager
def live_stream(folder: Path, body: bytes, **headers: str) -> Iterator[Live]:
    """A gateway before a provider whose every answer is the stream `body`."""
    reply = Reply(raw=body, headers={"Content-Type": "text/event-stream", **headers})
    with ScriptedUpstream([reply]) as upstream, live(folder, upstream, models=ALL_MODELS) as through:
        yield through


def stream_of(through: Live, protocol: str, stream: bool = True) -> str:
    """What a client gets that asks for a stream and nothing else."""
    if protocol != "generate":
        return through.post(protocol, stream=True).text
    path = f"/v1beta/models/bench-gemini:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"
    asked = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    return httpx.post(through.url + path, json=asked, headers=through.headers, timeout=30, verify=NO_TLS).text
