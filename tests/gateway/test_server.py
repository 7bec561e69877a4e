"""The gateway from outside: keys, requests, replay, limits and the ledger, over real HTTP on its Unix socket."""

from __future__ import annotations

import http.client
import json
import socket
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.gateway.launch import open_gateway
from bench.gateway.text_bound import most_tokens
from tests.helpers.gateway import (
    TASK,
    Client,
    Json,
    answered,
    ledger_lines,
    replaying,
    spec_in,
    turn,
    user,
    write_cassette,
)

LS = ("run", {"command": "ls -la"})
TWO_TURNS = [turn("I look first.", LS, tokens=(812, 40, 0)), turn("Done.", tokens=(30, 10, 812))]


def client_of(folder: Path, key: str) -> Client:
    return Client(folder / "g.sock", key)


def test_a_conversation_is_replayed_priced_and_recorded(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        client = client_of(tmp_path, gateway.key)
        system = {"role": "system", "content": "be brief"}
        first = client.chat(system, user())
        assert first.status == 200
        assert first.message["content"] == "I look first."
        assert first.body["model"] == "bench-main" == gateway.alias("main")
        assert json.loads(first.message["tool_calls"][0]["function"]["arguments"]) == LS[1]
        assert first.body["choices"][0]["finish_reason"] == "tool_calls"
        assert ledger_lines(tmp_path / "calls.jsonl")[0]["seq"] == 1, "written before the answer is sent"
        second = client.chat(system, user(), *answered(first, "total 0, took 0.3 s"))
        assert second.message["content"] == "Done."
        assert second.body["usage"]["prompt_tokens"] == 842
    (usage,) = gateway.state().usage
    assert (usage.calls, usage.model, usage.cost_status) == (2, "replay/demo", "simulated")
    assert (usage.tokens.input_uncached, usage.tokens.cache_read, usage.tokens.output) == (842, 812, 50)
    assert usage.cost_usd == pytest.approx((842 * 3 + 812 * 0.3 + 50 * 15) / 1e6)
    assert usage.price_version == "cassette anthropic/claude-sonnet-4-5"
    one, two = ledger_lines(tmp_path / "calls.jsonl")
    assert [message["role"] for message in one["new_messages"]] == ["system", "user"]
    assert [message["role"] for message in two["new_messages"]] == ["assistant", "tool"]
    assert two["answer"]["content"] == "Done."
    assert two["answered_by"] == "anthropic/claude-sonnet-4-5"
    assert one["request"] != two["request"]
    assert one["cost_usd"] + two["cost_usd"] == pytest.approx(usage.cost_usd)
    assert gateway.key not in (tmp_path / "calls.jsonl").read_text()


def test_the_same_request_gets_the_same_answer_whatever_tools_said(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        client = client_of(tmp_path, gateway.key)
        first = client.chat(user())
        answers = [client.chat(user(), *answered(first, said)) for said in ("a", "b", "b")]
        assert [heard.message["content"] for heard in answers] == ["Done."] * 3
        assert answers[1].body["id"] == answers[2].body["id"] != answers[0].body["id"]


def test_the_key_is_checked_and_dies_with_the_cell(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        for headers in ({"Authorization": "Bearer wrong"}, {"Authorization": gateway.key}, {"Authorization": ""}):
            heard = client_of(tmp_path, gateway.key).post({"model": "bench-main", "messages": [user()]}, headers)
            assert (heard.status, heard.code) == (401, "invalid_api_key")
        assert client_of(tmp_path, gateway.key).request("GET", "/v1/models").body["data"][0]["id"] == "bench-main"
        kept = socket.socket(socket.AF_UNIX)
        kept.settimeout(10)
        kept.connect(str(tmp_path / "g.sock"))
        connection = http.client.HTTPConnection("gateway")
        connection.sock = kept
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {gateway.key}"})
        assert b"bench-main" in connection.getresponse().read()
        assert stat.S_IMODE((tmp_path / "g.sock").stat().st_mode) == 0o600
    assert not (tmp_path / "g.sock").exists()
    with kept:
        assert kept.recv(1) == b"", "connections end with the cell"
    assert gateway.state().usage[0].calls == 0
    with replaying(tmp_path / "other", TWO_TURNS) as other:
        assert other.key != gateway.key


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"stream": "yes"}, 400, "invalid_request"),
        ({"n": 0}, 400, "invalid_request"),
        ({"n": 100}, 400, "invalid_request"),
        ({"messages": []}, 400, "invalid_request"),
        ({"messages": "hello"}, 400, "invalid_request"),
        ({"messages": [5]}, 400, "invalid_request"),
        ({"tools": [{"type": "web_search_preview"}]}, 400, "not_allowed"),
        ({"web_search_options": {"x": 1}}, 400, "not_allowed"),
        ({"service_tier": "priority"}, 400, "not_allowed"),
        ({"max_tokens": -5}, 400, "invalid_request"),
        ({"max_completion_tokens": 10**9}, 400, "invalid_request"),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]}, 400, "not_allowed"),
        ({"model": "gpt-4o"}, 404, "model_not_found"),
        ({"model": "main"}, 404, "model_not_found"),
    ],
)
def test_requests_outside_the_contract_are_refused(tmp_path: Path, change: Json, status: int, code: str) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        heard = client_of(tmp_path, gateway.key).post({"model": "bench-main", "messages": [user()]} | change)
        assert (heard.status, heard.code) == (status, code)
        if code == "invalid_request":
            assert f"`{next(iter(change))}" in heard.body["error"]["message"]
        assert gateway.state().error is None
        assert gateway.state().usage[0].calls == 0


def test_a_picture_must_be_inline(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        client = client_of(tmp_path, gateway.key)
        for url, status in (("https://example.org/x.png", 400), ("data:image/png;base64,AAAA", 200)):
            parts = [{"type": "text", "text": TASK}, {"type": "image_url", "image_url": {"url": url}}]
            assert client.chat({"role": "user", "content": parts}).status == status


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"model": "bench-main", "messages": [{"role": "user", "content": NaN}]}',
     b'{"model": "bench-main", "messages": [{"role": "user"}], "temperature": 1e999}',
     b'{"model": "bench-main", "messages": [{"role": "user"}], "seed": ' + b"[" * 100 + b"]" * 100 + b"}",
     b"[" * 100_000, b'{"a":' * 500 + b"1" + b"}" * 500, b'{"model": "bench-main", "messages": [{"role": "\\ud800"}]}'],
)  # fmt: skip
def test_hostile_bodies_get_an_error_and_the_gateway_lives_on(tmp_path: Path, body: bytes) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        client = client_of(tmp_path, gateway.key)
        assert client.post(body).status == 400
        assert client.chat(user()).status == 200
        assert gateway.state().error is None


def test_framing_faults_and_sizes(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        client = client_of(tmp_path, gateway.key)
        assert client.request("GET", "/v1/nothing").code == "not_found"
        assert client.request("GET", "/v1/chat/completions").code == "method_not_allowed"
        large = client.post(b" " * 20_000_001)
        assert (large.status, large.code) == (413, "too_large")
        unread = client.post(b" " * 5_000_000, {"Authorization": "Bearer wrong"})
        assert unread.status == 401, "the answer arrives although the body was not wanted"
        for length in ("-1", "1e3", "nonsense", "9" * 40):
            assert client.post(b"", {"Content-Length": length}).status == 400
        long = {"model": "bench-main", "messages": [{"role": "user", "content": " " * 6_000_000}]}
        assert client.post(long).status == 402, "three million tokens are more than a dollar buys"
        padded = json.dumps({"model": "bench-main", "messages": [user()]}).encode() + b" " * 6_000_000
        assert client.post(padded).status == 200, "what is not sent on costs nothing"
        chunked = client.chunked([json.dumps({"model": "bench-main", "messages": [user()]}).encode()])
        assert chunked.status == 200, "a body without its length is taken, too"


def test_another_model_is_noted_once_with_evidence(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        client = client_of(tmp_path, gateway.key)
        for name in ["gpt-4o", "gpt-4o", *(f"model-{number}" for number in range(20)), "x" * 5000]:
            assert client.post({"model": name, "messages": [user()]}).status == 404
        (note,) = gateway.state().notes
        assert note.name == "wrong_model"
        assert "'gpt-4o' (2 times)" in note.evidence
        assert len(note.evidence) < 300


def test_a_cassette_miss_names_the_turn_and_the_difference_and_is_an_answer(tmp_path: Path) -> None:
    cases: list[tuple[list[Json], str]] = [
        ([user("another task")], "turn 0: the first user message is not the task"),
        ([user(), {"role": "assistant", "content": "I guess."}], "turn 0: the content is 'I guess.'"),
        ([user(), {"role": "assistant", "content": "I look first."}], "turn 0: there are 0 tool calls"),
        ([user(), *_two_answers()], "turn 2: the cassette ends after turn 1"),
    ]
    for number, (messages, expected) in enumerate(cases):
        folder = tmp_path / str(number)
        with replaying(folder, TWO_TURNS) as gateway:
            client = client_of(folder, gateway.key)
            heard = client.chat(*messages)
            assert (heard.status, heard.code) == (424, "cassette_miss")
            assert expected in heard.body["error"]["message"]
            assert (gateway.state().error, gateway.should_stop()) == (None, False)
            (note,) = gateway.state().notes
            assert (note.name, "demo/demo_case.yaml" in note.evidence) == ("cassette_miss", True)
            assert client.chat(user()).status == 200, "and the conversation goes on"
        assert ledger_lines(folder / "calls.jsonl")[0]["code"] == "cassette_miss"
        assert gateway.state().usage[0].failed_calls == 1


def _two_answers() -> list[Json]:
    call = {"id": "x", "type": "function", "function": {"name": "run", "arguments": '{ "command" : "ls -la" }'}}
    first = {"role": "assistant", "content": "I look first.", "tool_calls": [call]}
    return [first, {"role": "tool", "tool_call_id": "x", "content": ""}, {"role": "assistant", "content": "Done."}]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arguments": '{"command": "ls -l"}'}, "tool call 0 has arguments"),
        ({"name": "walk"}, "tool call 0 is 'walk', the cassette has 'run'"),
    ],
)
def test_a_changed_call_is_a_miss(tmp_path: Path, change: Json, said: str) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        history = _two_answers()[:2]
        history[0]["tool_calls"][0]["function"].update(change)
        heard = client_of(tmp_path, gateway.key).chat(user(), *history)
        assert said in heard.body["error"]["message"]


def test_the_step_limit_counts_answers_not_refusals(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS, calls=2) as gateway:
        client = client_of(tmp_path, gateway.key)
        statuses = [client.chat(user()).status for _ in range(4)]
        assert statuses == [200, 200, 402, 402]
        assert client.chat(user()).body["error"] | {"message": ""} == {
            "message": "", "type": "budget_exceeded", "code": "budget_exceeded", "param": None, "limit": "step_limit",
        }  # fmt: skip
        assert gateway.state().limit_hit == "step_limit"
    (usage,) = gateway.state().usage
    assert (usage.calls, usage.refused_calls) == (2, 3)
    assert [line["status"] for line in ledger_lines(tmp_path / "calls.jsonl")] == ["ok"] * 2 + ["refused"] * 3


def test_the_dollar_limit_reserves_the_worst_case(tmp_path: Path) -> None:
    body = {"model": "bench-main", "messages": [user()], "max_tokens": 1000}
    worst = most_tokens(json.dumps(body).encode()) * 3e-6 + 1000 * 15e-6
    real = (100 * 3 + 20 * 15) / 1e6
    with replaying(tmp_path, [turn("x")], cost_usd=real + worst) as gateway:
        client = client_of(tmp_path, gateway.key)
        assert client.post(body).status == 200
        assert client.post(body).status == 200, "what is left is exactly one worst case"
        refused = client.post(body)
        assert (refused.status, refused.body["error"]["limit"]) == (402, "cost_limit")
        assert client.post(body | {"max_tokens": 100}).status == 200, "a smaller call still fits"
        assert gateway.state().limit_hit == "cost_limit"
    assert gateway.state().usage[0].cost_usd == pytest.approx(3 * real)


def test_the_deadline_refuses(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS, deadline=time.monotonic() - 1) as gateway:
        heard = client_of(tmp_path, gateway.key).chat(user())
        assert (heard.status, heard.body["error"]["limit"]) == (402, "time_limit")
        assert gateway.state().limit_hit == "time_limit"


def test_parallel_calls_never_exceed_the_step_limit(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS, calls=7) as gateway:
        client = client_of(tmp_path, gateway.key)
        with ThreadPoolExecutor(16) as pool:
            statuses = list(pool.map(lambda _: client.chat(user()).status, range(40)))
    assert sorted(statuses) == [200] * 7 + [402] * 33
    assert gateway.state().usage[0].calls == 7
    lines = ledger_lines(tmp_path / "calls.jsonl")
    assert [line["seq"] for line in lines] == list(range(1, 41))


def test_refusals_cannot_fill_the_disk(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS, calls=0) as gateway:
        client = client_of(tmp_path, gateway.key)
        for _ in range(120):
            assert client.chat(user()).status == 402
    assert len(ledger_lines(tmp_path / "calls.jsonl")) == 100
    assert gateway.state().usage[0].refused_calls == 120


def test_long_messages_are_cut_in_the_ledger_only(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS, cost_usd=1000.0) as gateway:
        client = client_of(tmp_path, gateway.key)
        first = client.chat(user())
        assert client.chat(user(), *answered(first, "y" * 3_000_000)).status == 200
        many = [{"role": "tool", "tool_call_id": "x", "content": "z" * 19_000}] * 200
        assert client.chat(user(), *answered(first, ""), *many).status == 200
    assert (tmp_path / "calls.jsonl").stat().st_size < 20_000
    assert (tmp_path / "calls.bodies.jsonl").stat().st_size < 300_000
    lines = ledger_lines(tmp_path / "calls.jsonl")
    assert "2800000 characters cut" in lines[1]["new_messages"][1]["content"]
    assert len(lines[2]["sent"]["new"]) == 201, "two hundred equal messages are one body"


def test_an_earlier_tries_ledger_is_kept(tmp_path: Path) -> None:
    for _ in range(3):
        with replaying(tmp_path, TWO_TURNS) as gateway:
            assert client_of(tmp_path, gateway.key).chat(user()).status == 200
    names = ["calls.jsonl", "calls.1.jsonl", "calls.2.jsonl"]
    assert [len(ledger_lines(tmp_path / name)) for name in names] == [1, 1, 1]


def test_idle_connections_are_bounded_and_do_not_block_the_end(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        held = []
        for _ in range(256):
            one = socket.socket(socket.AF_UNIX)
            one.connect(str(tmp_path / "g.sock"))
            held.append(one)
        with socket.socket(socket.AF_UNIX) as extra:
            extra.settimeout(10)
            extra.connect(str(tmp_path / "g.sock"))
            assert extra.recv(1) == b"", "one more is closed"
        for one in held[:8]:
            one.close()
        deadline = time.monotonic() + 10
        while True:
            try:
                assert client_of(tmp_path, gateway.key).chat(user()).status == 200
                break
            except ConnectionError:
                assert time.monotonic() < deadline
    for one in held:
        one.close()


def test_two_roles_have_their_own_cassette_and_totals_and_one_limit(tmp_path: Path) -> None:
    write_cassette(tmp_path / "cassettes", [turn("main")])
    write_cassette(tmp_path / "cassettes", [turn("critic")], case="demo_case.critic")
    models = {"main": "replay/demo", "critic": "replay/demo"}
    with open_gateway(spec_in(tmp_path, models=models, calls=2)) as gateway:
        client = client_of(tmp_path, gateway.key)
        assert client.chat(user()).message["content"] == "main"
        assert client.post({"model": "bench-critic", "messages": [user()]}).message["content"] == "critic"
        assert client.chat(user()).status == 402
    assert [(usage.role, usage.calls) for usage in gateway.state().usage] == [("main", 1), ("critic", 1)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"case": "unknown_case"}, "unknown_case.yaml: no such file"),
        ({"cassettes": None}, "this agent has none"),
        ({"models": {"main": "replay/../../etc"}}, "not the name of a cassette set"),
        ({"models": {"main": "anthropic/claude-sonnet-4-5"}}, "ANTHROPIC_API_KEY"),
        ({"models": {"main": "openai/gpt-4o-mini"}}, "OPENAI_API_KEY"),
        ({"socket": Path("/tmp") / ("x" * 120)}, "a socket's path can have 107 bytes"),
    ],
)
def test_what_cannot_be_served_is_a_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: Json, said: str
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    write_cassette(tmp_path / "cassettes", TWO_TURNS)
    with pytest.raises(UserError, match=said), open_gateway(spec_in(tmp_path, **changes)):
        pass
    assert not (tmp_path / "g.sock").exists()


def test_a_faulty_cassette_names_its_field(tmp_path: Path) -> None:
    write_cassette(tmp_path / "cassettes", [turn("x", tokens=(-1, 0, 0))])
    with pytest.raises(UserError, match=r"turns\.0\.usage\.input"), open_gateway(spec_in(tmp_path)):
        pass


def test_a_socket_path_of_a_hundred_characters_works(tmp_path: Path) -> None:
    write_cassette(tmp_path / "cassettes", TWO_TURNS)
    path = tmp_path / ("s" * (99 - len(str(tmp_path))))
    with open_gateway(spec_in(tmp_path, socket=path)) as gateway:
        assert len(str(path)) == 100
        assert Client(path, gateway.key).chat(user()).status == 200


def test_a_cassette_of_turns_is_streamed_where_a_stream_is_asked_for(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS) as gateway:
        connection = http.client.HTTPConnection("gateway", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(tmp_path / "g.sock"))
        body = json.dumps({"model": "bench-main", "messages": [user()], "stream": True})
        connection.request("POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {gateway.key}"})
        text = connection.getresponse().read().decode()
        connection.close()
    events = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert events[-1] == "[DONE]"
    first = json.loads(events[0])["choices"][0]["delta"]
    assert (first["content"], first["tool_calls"][0]["function"]["name"]) == ("I look first.", "run")
    assert "usage" not in text, "nobody asked for it"
    assert gateway.state().usage[0].tokens.output == 40
