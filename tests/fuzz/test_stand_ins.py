"""Whatever a product asks of the kit's stand-ins is answered: a scripted model, a hub, a tracker, recorded calls."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bench.casekit.language_model import Answer, Rule, ScriptedModel
from bench.casekit.model_hub import ModelHub
from bench.casekit.services import Handler, Request, Response, Service, record_calls
from bench.casekit.tracker import Tracker
from tests.helpers.fuzz import Tally, as_json, damaged, fuzzed, json_bytes

CHAT = {
    "model": "scripted", "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.5,
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "add 1"}]}],
    "tools": [{"type": "function", "function": {"name": "add", "parameters": {}}}],
}  # fmt: skip
RESPONSES = {
    "model": "scripted", "instructions": "s", "tools": [{"type": "function", "name": "add"}],
    "input": [{"role": "user", "content": "add 1"}, {"type": "function_call", "name": "add", "arguments": "{}"},
              {"type": "function_call_output", "output": "2"}],
}  # fmt: skip
_MODEL = ScriptedModel([Rule(Answer("{1} and {0}"), when=r"add (\d)"), Rule(Answer("", [("add", {"x": "{0}"})]))])


def ask(handler: Handler, folder: Path, tally: Tally, request: Request) -> Response:
    """An answer that can be sent, and a journal that can be read."""
    journal = folder / "journal.jsonl"
    journal.unlink(missing_ok=True)
    with tally.example():
        answer = record_calls(handler)(request, Service("x", folder, 1, journal))
        tally.refused += answer.status >= 400
        assert 200 <= answer.status < 600
        for name, value in answer.headers.items():
            f"{name}{value}".encode("ascii")
            assert value.isprintable()
        assert [json.loads(line) for line in journal.read_bytes().splitlines()]
        return answer
    raise AssertionError


@fuzzed
@given(st.sampled_from(["/chat/completions", "/v1/responses"]), json_bytes(CHAT, RESPONSES))
@example("/v1/responses", as_json({**RESPONSES, "x": "@@deeper@@"}))
@example("/chat/completions", b'{"model": "scripted", "messages": [], "x": ' + b"[" * 960 + b"]" * 960 + b"}")
@example("/chat/completions", as_json({**CHAT, "model": "@@half@@"}))
@example("/chat/completions", as_json({**CHAT, "stream_options": 5, "temperature": "@@digits@@"}))
def test_a_model_with_a_script(tmp_path: Path, tally: Tally, path: str, body: bytes) -> None:
    ask(_MODEL, tmp_path, tally, Request("POST", path, {}, {}, body))


_WORDS = ["api", "models", "datasets", "bench", "tiny", "resolve", "main", "tree", "revision", "config.json", "..", "",
          "a b", "%2e%2e", "%00", "\u2028", "\udcff", "x" * 3000]  # fmt: skip
_RANGES = st.sampled_from(["bytes=0-1", "bytes=5-", "bytes=-5", "bytes=9-1", "bytes=0-" + "9" * 5000, "bytes=\u0663-"])


@fuzzed
@given(
    st.sampled_from(["GET", "HEAD", "PUT"]),
    st.lists(st.sampled_from(_WORDS), max_size=7).map("/".join)
    | st.sampled_from(["bench/tiny/resolve/main/config.json", "api/models/bench/tiny/tree/main"]),
    _RANGES | st.text(max_size=8) | damaged(st.just(b"bytes=0-1")).map(lambda it: it.decode("latin-1")),
    st.dictionaries(st.sampled_from(["recursive", "x"]), st.lists(st.text(max_size=4), min_size=1, max_size=2)),
)
@example("GET", "bench/tiny/resolve/main/config.json", "bytes=" + "9" * 5000 + "-", {})
@example("GET", "bench/tiny/resolve/main/config.json", "bytes=5-2", {})
def test_a_hub_of_models(
    tmp_path: Path, tally: Tally, method: str, path: str, wanted: str, query: dict[str, list[str]]
) -> None:
    (tmp_path / "tiny").mkdir(exist_ok=True)
    (tmp_path / "tiny" / "config.json").write_bytes(b"{}")
    headers = Message()
    headers["Range"] = wanted
    answer = ask(ModelHub({"bench/tiny": "tiny"}), tmp_path, tally, Request(method, f"/{path}", query, headers, b""))
    assert len(answer.body) < 100_000


@fuzzed
@given(
    json_bytes({"a": [1, {"b": "x"}]}), st.text(max_size=20), st.dictionaries(st.text(max_size=5), st.lists(st.text()))
)
@example(b"[" * 199 + b"]" * 199, "/", {})
@example(b'{"a": NaN, "b": 1e999}', "/", {})
def test_a_recorded_call(tmp_path: Path, tally: Tally, body: bytes, path: str, query: dict[str, Any]) -> None:
    ask(lambda request, service: Response(204), tmp_path, tally, Request("POST", path, query, {}, body))


_KEY = {"Authorization": "Bearer k"}
_UPSERT = {
    "query": 'mutation Make($name: String, $model: String = "p") { upsertBucket(input: {name: $name, modelName: '
    '$model, tags: ["a"], summaryMetrics: "{}"}) { inserted bucket { id name ...facts } } } '
    'fragment facts on Run { project { name entity { name } } history(minStep: 0) sampledHistory(specs: ["{}"]) }',
    "variables": {"name": "r1"},
}
_STREAM = {
    "files": {"wandb-history.jsonl": {"offset": 0, "content": ['{"_step": 0, "loss": 0.5}']},
              "wandb-summary.json": {"offset": 0, "content": ['{"loss": 0.5}']}},
    "complete": True, "exitcode": 0,
}  # fmt: skip


@fuzzed
@given(st.sampled_from(["/graphql", f"/files/{'bench-team'}/p/r1/file_stream"]), json_bytes(_UPSERT, _STREAM))
@example("/graphql", as_json({"query": "{" * 5000}))
@example("/graphql", as_json({"query": "{ a ...f } fragment f on X { ...f }"}))
@example("/graphql", as_json({"query": "{ viewer(x: " + "[" * 5000 + ") { id } }"}))
def test_a_tracker(tmp_path: Path, tally: Tally, path: str, body: bytes) -> None:
    def with_a_run(request: Request, service: Service) -> Response:
        tracker = Tracker("k", row_names=("loss",))
        made = tracker(Request("POST", "/graphql", {}, _KEY, json.dumps(_UPSERT).encode()), service)
        assert json.loads(made.body)["data"]["upsertBucket"]["inserted"] is True, made.body
        return tracker(request, service)

    ask(with_a_run, tmp_path, tally, Request("POST", path, {}, _KEY, body))
