"""Google's protocol through the gateway, with the official client: metered, limited, recorded, replayed, translated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from atif import Trajectory
from google import genai
from google.genai import errors, types

from bench.gateway.atif import to_atif
from bench.gateway.backends.google_translation import as_chat
from bench.gateway.call_log import read_trace
from bench.gateway.google import SpelledTwice, find_target, one_spelling
from bench.gateway.policy import apply_policy
from bench.gateway.request import Call, RequestRefused, read_call
from bench.gateway.steps import read_steps
from tests.helpers.gateway import Json
from tests.helpers.gateway_live import ALL_MODELS, CANARY, NO_TLS, Live, asked_by_agent, written_below
from tests.helpers.gateway_live import live as open_live
from tests.helpers.provider import PRICES, Reply, ScriptedUpstream, ToolCall, Usage

USAGE = Usage(input=120, output=40, cache_read=30, reasoning=12)
SAID = "Grüße, a longer answer, so that it comes in pieces."
RUN = types.FunctionDeclaration(name="run", description="d", parameters=types.Schema(type=types.Type.OBJECT))
WITH_TOOL = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[RUN])], system_instruction="be brief", max_output_tokens=100
)
NO_RETRIES = types.HttpRetryOptions(attempts=1)


def script(body: Json, protocol: str) -> Reply:
    return Reply(SAID, [ToolCall("run", {"command": "ls"})], USAGE, thinking="first I look" * (protocol == "generate"))


def live(folder: Path, upstream: ScriptedUpstream, **changes: Any) -> AbstractContextManager[Live]:
    return open_live(folder, upstream, **{"models": ALL_MODELS, **changes})


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(script) as serving:
        yield serving


@pytest.fixture
def through(tmp_path: Path, upstream: ScriptedUpstream) -> Iterator[Live]:
    with live(tmp_path, upstream) as found:
        yield found


def client(url: str, key: str) -> genai.Client:
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url, retry_options=NO_RETRIES))


def talk(url: str, key: str, model: str) -> list[Any]:
    asking = client(url, key)
    made: list[Any] = [asking.models.generate_content(model=model, contents="hi", config=WITH_TOOL)]
    made += asking.models.generate_content_stream(model=model, contents="hi", config=WITH_TOOL)
    # Their own headers differ by nothing but the date.
    said = [it.model_dump(exclude={"sdk_http_response"}) for it in made]
    return [*said, asking.models.count_tokens(model=model, contents="hi").total_tokens]


def ask(through: Live, method: str = "generateContent", model: str = "bench-gemini", **body: Any) -> httpx.Response:
    asked: Json = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}], **body}
    return httpx.post(
        f"{through.url}/v1beta/models/{model}:{method}", json=asked, headers=key_of(through), timeout=30, verify=NO_TLS
    )


def key_of(through: Live) -> dict[str, str]:
    return {"x-goog-api-key": through.gateway.key}


def test_the_google_client_gets_the_same_as_from_the_upstream(through: Live, upstream: ScriptedUpstream) -> None:
    mine = talk(through.url, through.gateway.key, "bench-gemini")
    theirs = talk(upstream.url, CANARY, "scripted")
    assert json.dumps(mine, default=str).replace("resp_0", "#").replace("resp_1", "#").replace("fc_0", "@").replace(
        "fc_1", "@"
    ) == json.dumps(theirs, default=str).replace("resp_2", "#").replace("resp_3", "#").replace("fc_2", "@").replace(
        "fc_3", "@"
    )
    one, other = upstream.requests[0], upstream.requests[2]
    assert (one.path.replace("v1beta", "v1"), one.body) == (other.path, other.body), (
        "nothing but the model's name is altered"
    )
    assert one.headers["x-goog-api-key"] == CANARY
    assert "anthropic-version" not in one.headers


def test_a_conversation_is_metered_priced_and_traced(through: Live, upstream: ScriptedUpstream) -> None:
    talk(through.url, through.gateway.key, "gemini/scripted")
    usage = through.gateway.state().usage[2]
    bill = upstream.usage_totals
    assert (usage.calls, usage.cost_status, usage.asked) == (2, "exact", {"gemini/scripted": 2})
    found = usage.tokens
    assert (found.input_uncached, found.cache_read, found.cache_write) == (240, 60, 0)
    assert (found.output, found.reasoning) == (bill.output, bill.reasoning) == (80, 24)
    assert usage.cost_usd == pytest.approx(bill.cost_usd, abs=1e-12)
    whole, streamed, counted = through.lines
    assert [it["protocol"] for it in through.lines] == ["generate", "generate", "count_generate"]
    assert counted["tokens"] is None
    assert json.dumps(whole["answer"]) == json.dumps(streamed["answer"]).replace("fc_1", "fc_0")
    assert whole["answered_by"] == streamed["answered_by"] == "scripted"
    trace = list(read_trace(through.folder / "calls.jsonl"))
    first, _ = read_steps(trace)
    assert [(it.speaker, it.text) for it in first.said] == [("system", "be brief"), ("user", "hi")]
    assert (first.text, first.thought, first.tools[0].name) == (SAID, "first I look", "run")
    made = Trajectory.model_validate(to_atif(trace, "a", "s"))
    assert made.final_metrics is not None
    assert made.final_metrics.total_cached_tokens == 60


def test_what_a_function_brought_belongs_to_its_call(through: Live) -> None:
    calls = [{"functionCall": {"name": "run", "args": {"command": "ls"}, "id": "fc_0_0"}}]
    result = {"name": "run", "id": "fc_0_0", "response": {"output": "total 0"}}
    hello = {"role": "user", "parts": [{"text": "hello"}]}
    assert ask(through).status_code == 200
    more = [hello, {"role": "model", "parts": calls}, {"role": "user", "parts": [{"functionResponse": result}]}]
    assert ask(through, contents=more).status_code == 200
    first, second = read_steps(read_trace(through.folder / "calls.jsonl"))
    assert first.tools[0].observations == ["total 0"]
    assert second.said == []


@pytest.mark.parametrize("query", ["", "?alt=sse", "?alt=json"])
def test_a_stream_is_events_or_one_array(through: Live, query: str) -> None:
    got = ask(through, f"streamGenerateContent{query}")
    if query == "?alt=sse":
        assert got.headers["content-type"].startswith("text/event-stream")
        found = [json.loads(it.removeprefix("data: ")) for it in got.text.split("\r\n\r\n") if it]
    else:
        assert got.headers["content-type"] == "application/json"
        found = got.json()
    parts = [part for one in found for part in one["candidates"][0]["content"]["parts"]]
    assert "".join(it["text"] for it in parts if "text" in it and not it.get("thought")) == SAID
    assert through.gateway.state().usage[2].tokens.output == USAGE.output


def test_every_way_to_send_the_key_works_and_none_shows_it(through: Live, tmp_path: Path) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    url, key = f"{through.url}/v1beta/models/bench-gemini:generateContent", through.gateway.key
    assert httpx.post(f"{url}?key={key}", json=body, timeout=30, verify=NO_TLS).status_code == 200
    for headers in ({"x-goog-api-key": key}, {"Authorization": f"Bearer {key}"}):
        assert httpx.post(url, json=body, headers=headers, timeout=30, verify=NO_TLS).status_code == 200
    refused = httpx.post(f"{url}?key=wrong", json=body, timeout=30, verify=NO_TLS)
    assert (refused.status_code, refused.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    lost = httpx.post(f"{through.url}/v1beta/nothing?key={key}", json=body, timeout=30, verify=NO_TLS)
    assert lost.status_code == 404
    httpx.post(f"{through.url}/v1beta/http://example.org/?key={key}", json=body, timeout=30, verify=NO_TLS)
    notes = json.dumps([note.model_dump() for note in through.gateway.state().notes])
    assert key not in written_below(tmp_path) + lost.text + notes
    assert CANARY not in written_below(tmp_path)


def test_models_are_listed_as_google_lists_them(through: Live) -> None:
    asking = client(through.url, through.gateway.key)
    names = [str(it.name) for it in asking.models.list(config={"query_base": True})]
    assert names[:3] == ["models/bench-main", "models/bench-claude", "models/bench-gemini"]
    assert asking.models.get(model="bench-gemini").name == "models/bench-gemini"


def test_a_limit_is_402_in_googles_shape(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    with live(tmp_path, upstream, calls=1) as it:
        asking = client(it.url, it.gateway.key)
        asking.models.generate_content(model="bench-gemini", contents="hi")
        with pytest.raises(errors.ClientError) as refused:
            asking.models.generate_content(model="bench-gemini", contents="hi")
        assert refused.value.code == 402
        assert refused.value.status == "FAILED_PRECONDITION"
        assert "step_limit" in json.dumps(refused.value.details)
        assert it.gateway.state().limit_hit == "step_limit"
    assert len(asked_by_agent(upstream)) == 1


def test_a_cap_is_set_where_none_is_named(through: Live, upstream: ScriptedUpstream) -> None:
    ask(through)
    ask(through, generation_config={"max_output_tokens": 77, "temperature": 0.5})
    caps = [seen.body["generationConfig"] for seen in upstream.requests]
    assert caps == [{"maxOutputTokens": 16384}, {"maxOutputTokens": 77, "temperature": 0.5}]


def test_another_model_is_refused_and_noted(through: Live) -> None:
    got = ask(through, model="gemini-3-flash")
    assert (got.status_code, got.json()["error"]["status"]) == (404, "NOT_FOUND")
    (note,) = through.gateway.state().notes
    assert (note.name, "'gemini-3-flash'" in note.evidence) == ("wrong_model", True)


def test_storms_lost_streams_and_missing_usage_are_counted(tmp_path: Path) -> None:
    good = Reply(SAID, usage=USAGE)
    replies = [Reply(status=429), Reply(status=503), good, Reply(SAID * 5, cut=0.5), Reply("x", wrong_usage={})]
    with ScriptedUpstream(replies) as upstream, live(tmp_path, upstream) as it:
        assert ask(it).status_code == 200
        with pytest.raises(httpx.HTTPError):
            ask(it, "streamGenerateContent?alt=sse")
        assert ask(it).status_code == 200
        usage = it.gateway.state().usage[2]
    assert (usage.calls, usage.retries, usage.failed_calls) == (2, 2, 1)
    assert usage.faults == {"429": 1, "503": 1, "stream_broken": 1, "usage_unknown": 1}
    assert usage.cost_status == "estimated"
    assert [line["status"] for line in it.lines] == ["ok", "failed", "ok"]


def test_an_outage_is_proven_by_a_probe_in_googles_protocol(tmp_path: Path) -> None:
    with ScriptedUpstream(lambda body, protocol: Reply(status=401)) as upstream, live(tmp_path, upstream) as it:
        assert ask(it).status_code == 502
        assert "upstream_broken" in str(it.gateway.state().error)
    assert {seen.protocol for seen in upstream.requests} == {"generate"}


def test_a_recorded_conversation_is_replayed(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    with live(tmp_path, upstream, models={"main": "gemini/scripted"}, record=tmp_path / "cassettes" / "demo") as it:
        told = talk(it.url, it.gateway.key, "bench-main")
    facts: Json = {"models": {"main": "replay/demo"}, "cassettes": tmp_path / "cassettes", "own_prices": None}
    with live(tmp_path, upstream, ledger=tmp_path / "again.jsonl", **facts) as it:
        assert talk(it.url, it.gateway.key, "scripted-001") == told
        usage = it.gateway.state().usage[0]
    assert (usage.calls, usage.tokens.reasoning, usage.cost_status) == (2, 24, "simulated")
    assert len(upstream.requests) == 2


def test_a_scripted_model_speaks_it(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    with live(tmp_path, upstream, models={"main": "replay/@answers"}) as it:
        whole, *_, counted = talk(it.url, it.gateway.key, "bench-main")
    assert whole["model_version"] == "bench-main"
    assert counted == 10


HELLO = {"role": "user", "parts": [{"text": "hello"}]}
OWN = {"functionDeclarations": [{"name": "run"}]}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"contents": [{"parts": [{"fileData": {"fileUri": "gs://x/y"}}]}]}, "fileData"),
        ({"contents": {"parts": {"file_data": {"file_uri": "https://x"}}}}, "fileData"),
        ({"systemInstruction": {"parts": [{"file_data": {}}]}}, "fileData"),
        ({"contents": [{"parts": [{"functionResponse": {"name": "a", "parts": [{"file_data": {}}]}}]}]}, "fileData"),
        ({"cached_content": "cachedContents/1"}, "cachedContent"),
        ({"generation_config": {"response_modalities": ["IMAGE"]}}, "generationConfig.responseModalities"),
        ({"service_tier": "priority"}, "serviceTier"),
        ({"tools": [{"google_search": {}}]}, "tools"),
        ({"tools": {"codeExecution": {}}}, "tools"),
        ({"contents": []}, "contents"),
        ({"contents": [5]}, "contents"),
        ({"generationConfig": 5}, "generationConfig"),
        ({"generationConfig": {"maxOutputTokens": -1}}, "maxOutputTokens"),
        ({"generationConfig": {"candidateCount": 1000}}, "candidateCount"),
        ({"systemInstruction": {}, "system_instruction": {}}, "systemInstruction"),
    ],
)
def test_what_may_not_pass_is_refused_in_either_spelling(change: Json, field: str) -> None:
    target = find_target("/v1beta/models/bench-main:generateContent")
    with pytest.raises(RequestRefused, match=f"`{field}`") as refused:
        apply_policy(read_call("generate", json.dumps({"contents": [HELLO], **change}).encode(), {}, target), False)
    assert refused.value.body("generate")["error"]["status"] == "INVALID_ARGUMENT"  # type: ignore[index, call-overload]


def test_a_counted_request_cannot_reach_out_either() -> None:
    target = find_target("/v1beta/models/bench-main:countTokens")
    inner = {"contents": [{"parts": [{"file_data": {"file_uri": "https://x"}}]}]}
    data = json.dumps({"generate_content_request": inner}).encode()
    with pytest.raises(RequestRefused, match="`fileData`"):
        apply_policy(read_call("count_generate", data, {}, target), False)


def test_paths_say_model_and_way() -> None:
    assert find_target("/v1beta/models/gemini%2Fx:streamGenerateContent?alt=sse&key=1").__dict__ == {
        "method": "generate", "model": "gemini/x", "stream": True, "array": False,
    }  # fmt: skip
    for path in (
        "/v1beta/models/x:embedContent",
        "/v1beta/models/x",
        "/v1beta/tunedModels/x:generateContent",
        "/models",
    ):
        assert find_target(path) is None
    with pytest.raises(SpelledTwice):
        one_spelling({"contents": [{"parts": [{"inlineData": {}, "inline_data": {}}]}]})


def test_schemas_and_arguments_keep_their_names() -> None:
    arguments = {"some_name": {"inline_data": 1}}
    declared = {"name": "run", "parameters": {"properties": {"a_b": {"type": "STRING"}}}}
    data = {"contents": [{"parts": [{"function_call": {"name": "r", "args": arguments}}]}],
            "tools": [{"function_declarations": [declared]}]}  # fmt: skip
    found = one_spelling(data)
    assert found["contents"][0]["parts"][0]["functionCall"]["args"] == arguments
    assert found["tools"][0]["functionDeclarations"] == [declared]


def test_another_providers_model_answers_by_a_chat(through: Live, upstream: ScriptedUpstream) -> None:
    asking = client(through.url, through.gateway.key)
    whole = asking.models.generate_content(model="bench-main", contents="hi", config=WITH_TOOL)
    assert whole.text == SAID
    assert whole.function_calls is not None
    assert (whole.function_calls[0].name, whole.function_calls[0].args) == ("run", {"command": "ls"})
    assert whole.usage_metadata is not None
    assert whole.usage_metadata.thoughts_token_count == 12
    pieces = list(asking.models.generate_content_stream(model="bench-main", contents="hi", config=WITH_TOOL))
    assert "".join(it.text or "" for it in pieces) == SAID
    assert len(pieces) > 2
    assert [it.name for it in pieces[-1].function_calls or []] == ["run"]
    usage, bill = through.gateway.state().usage[0], upstream.usage_totals
    assert (usage.calls, usage.cost_status) == (2, "exact")
    assert (usage.tokens.cache_read, usage.tokens.reasoning) == (bill.cache_read, bill.reasoning)
    assert usage.cost_usd == pytest.approx(bill.cost_usd, abs=1e-12)
    asked = upstream.requests[0].body
    assert asked["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert asked["tools"][0]["function"] == {"name": "run", "description": "d", "parameters": {"type": "object"}}
    assert asked["max_completion_tokens"] == 100


@pytest.mark.nightly
@pytest.mark.slow
def test_a_translated_model_of_litellm_answers(through: Live, upstream: ScriptedUpstream) -> None:
    asking = client(through.url, through.gateway.key)
    assert asking.models.generate_content(model="bench-claude", contents="hi", config=WITH_TOOL).text == SAID
    pieces = list(asking.models.generate_content_stream(model="bench-claude", contents="hi", config=WITH_TOOL))
    assert "".join(it.text or "" for it in pieces) == SAID
    usage, bill = through.gateway.state().usage[1], upstream.usage_totals
    assert (usage.tokens.output, usage.tokens.cache_read) == (bill.output, bill.cache_read)
    assert usage.cost_usd == pytest.approx(bill.cost_usd, abs=1e-12)
    assert {seen.protocol for seen in upstream.requests} == {"messages"}


def test_a_translated_refusal_has_googles_shape(tmp_path: Path) -> None:
    with ScriptedUpstream([Reply(status=400, error="no such thing")]) as upstream, live(tmp_path, upstream) as it:
        asking = client(it.url, it.gateway.key)
        with pytest.raises(errors.ClientError, match="no such thing"):
            asking.models.generate_content(model="bench-main", contents="hi")


def test_a_whole_conversation_becomes_a_chat() -> None:
    config = {"temperature": 0.5, "stopSequences": ["x"], "thinkingConfig": {"thinkingLevel": "LOW"},
              "responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}}  # fmt: skip
    body: Json = {
        "model": "m", "generationConfig": config, "tools": [OWN],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "contents": [
            {"role": "user", "parts": [{"text": "a"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
            {"role": "model", "parts": [{"text": "b", "thought": True}, {"functionCall": {"name": "run"}},
                                        {"functionCall": {"name": "run", "id": "2"}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "run", "response": {"output": "1"}}},
                                       {"functionResponse": {"name": "run", "id": "2", "response": {}}}]},
        ],
    }  # fmt: skip
    _, data = as_chat(Call("generate", body, 1, "", "m", {}), body)
    assert (data["tool_choice"], data["reasoning_effort"], data["stop"]) == ("required", "low", ["x"])
    assert data["response_format"]["json_schema"]["schema"] == {"type": "object"}
    user, model, one, two = data["messages"]
    assert [it["type"] for it in user["content"]] == ["text", "image_url"]
    assert (model["content"], [it["id"] for it in model["tool_calls"]]) == (None, ["call_1_1", "2"])
    assert [(it["role"], it["tool_call_id"]) for it in (one, two)] == [("tool", "call_1_1"), ("tool", "2")]


def test_each_result_is_of_one_call() -> None:
    calls = [{"functionCall": {"name": name, **more}} for name, more in (("a", {}), ("a", {"id": "x"}), ("b", {}))]
    given = (("b", ""), ("a", "x"), ("a", ""), ("a", ""), ("c", "y"))
    results = [{"functionResponse": {"name": name, "id": identity, "response": "1"}} for name, identity in given]
    body: Json = {"model": "m", "contents": [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]}
    _, data = as_chat(Call("generate", body, 1, "", "m", {}), body)
    told = [it["tool_call_id"] for it in data["messages"][1:]]
    assert told == ["call_0_2", "x", "call_0_0", "call_1", "y"], "none is left for the fourth, nor known for the fifth"


def test_the_price_of_pictures_is_bounded(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    with live(tmp_path, upstream) as it:
        sound = {"role": "user", "parts": [{"inline_data": {"mime_type": "audio/wav", "data": "AAAA"}}]}
        got = ask(it, contents=[sound])
        assert (got.status_code, "inlineData" in got.text) == (400, True)
    assert PRICES["input"] == 3.0
