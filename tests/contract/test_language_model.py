"""A product that calls a language model: the case scripts the model, the judge sees what it was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.authoring import open_verifier
from bench.base.install import DataFolders
from bench.casekit.language_model import Answer, Conversation, Rule, ScriptedModel
from bench.casekit.services import Request, Service
from bench.cell.services import running_services
from bench.guest.forwarding import forward, listen
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, make_case, write_files

if TYPE_CHECKING:
    import openai

SCRIPT = [
    {"name": "weather", "when": r"weather in (?P<town>\w+)", "turn": 1, "tool": "look_up",
     "arguments": {"town": "{town}", "days": 1}},
    {"when": "sunny", "turn": 2, "say": "It is sunny, take {0}."},
    {"when": "as an object", "json": {"label": "positive"}},
    {"when": "too much", "status": 429, "error": "slow down"},
    {"system": "You are terse", "say": "Yes."},
]  # fmt: skip
SERVICES = """
from pathlib import Path

from bench.casekit.language_model import ScriptedModel

model = ScriptedModel.from_file(Path(__file__).parent / "hidden" / "script.json", models=["tiny"])
"""
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}


@pytest.fixture
def room(tmp_path: Path) -> Path:
    write_files(tmp_path, {"services.py": SERVICES, "hidden/script.json": json.dumps(SCRIPT)})
    (tmp_path / "s").mkdir()
    return tmp_path


@pytest.fixture
def client(room: Path) -> Iterator[openai.OpenAI]:
    """The real client, at the other end of the service's socket."""
    import openai

    services = running_services(room / "services.py", ["model"], room / "hidden", room, room / "s", 1)
    with services as paths, listen() as listener:
        # Any release of the client knows TCP; which library it speaks through has changed once.
        forward(listener, str(paths["model"]))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with openai.OpenAI(base_url=address, api_key="any", max_retries=0) as client:
            yield client


def journal(room: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (room / "model.jsonl").read_text().splitlines()]


def test_the_real_client_talks_with_it_over_several_turns(client: openai.OpenAI, room: Path) -> None:
    messages: list[Any] = [{"role": "user", "content": "What is the weather in Rome?"}]
    first = client.chat.completions.create(model="tiny", messages=messages, tools=[TOOL]).choices[0]
    call = (first.message.tool_calls or [])[0]
    assert first.finish_reason == "tool_calls" and call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("look_up", {"town": "Rome", "days": 1})
    messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    second = client.chat.completions.create(model="tiny", messages=messages)
    assert second.choices[0].message.content == "It is sunny, take sunny."
    assert second.usage is not None and second.usage.total_tokens > 0
    assert [(it["rule"], it["turn"], it["tools"]) for it in journal(room)] == [
        ("weather", 1, ["look_up"]),
        ("rule 1", 2, []),
    ]
    assert [it.id for it in client.models.list()] == ["tiny"]


def test_streams_and_responses_say_the_same(client: openai.OpenAI) -> None:
    asked: list[Any] = [{"role": "system", "content": "You are terse"}, {"role": "user", "content": "Are you?"}]
    with client.chat.completions.create(
        model="tiny", messages=asked, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert "".join(it.choices[0].delta.content or "" for it in chunks if it.choices) == "Yes."
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 1
    whole = client.responses.create(model="tiny", instructions="You are terse", input="Are you?")
    assert whole.output_text == "Yes."
    with client.responses.create(model="tiny", instructions="You are terse", input="Are you?", stream=True) as events:
        texts = [it.delta for it in events if it.type == "response.output_text.delta"]
    assert "".join(texts) == "Yes."
    tool = client.responses.create(model="tiny", input="weather in Oslo").output[0]
    assert tool.type == "function_call" and json.loads(tool.arguments)["town"] == "Oslo"


def test_errors_are_the_protocols_own(client: openai.OpenAI, room: Path) -> None:
    import openai

    def ask(text: str, model: str = "tiny") -> None:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}])

    with pytest.raises(openai.RateLimitError, match="slow down"):
        ask("this is too much")
    with pytest.raises(openai.NotFoundError, match="other"):
        ask("hello", "other")
    with pytest.raises(openai.UnprocessableEntityError, match="no answer"):
        ask("something that no rule knows")
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="tiny", input="x", encoding_format="float")
    assert [it["event"] for it in journal(room)] == ["asked", "refused", "asked"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"model": 1, "messages": 3}', b'{"messages": [{}]}', b"\xff", b"[" * 5000, b"null"]
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_nonsense_is_a_400_and_never_an_exception(tmp_path: Path, path: str, body: bytes) -> None:
    service = Service("model", tmp_path, 1, tmp_path / "model.jsonl")
    assert ScriptedModel()(Request("POST", path, {}, {}, body), service).status == 400


def test_one_request_cannot_fill_the_journal(tmp_path: Path) -> None:
    service = Service("model", tmp_path, 1, tmp_path / "model.jsonl")
    long = "x" * 3_000_000
    body = {
        "model": "scripted",
        "user": long,
        long: 1,
        "seed": 10**400,
        "messages": [{"role": long, "content": long}] * 30,
    }
    tools = [{"type": "function", "function": {"name": long}}]
    request = Request("POST", "/v1/chat/completions", {}, {}, json.dumps({**body, "tools": tools}).encode())
    assert ScriptedModel([Rule(Answer("yes"))])(request, service).status == 200
    assert (tmp_path / "model.jsonl").stat().st_size < 120_000


def test_a_function_of_the_case_may_answer_first(tmp_path: Path) -> None:
    def script(conversation: Conversation, service: Service) -> Answer | None:
        return Answer(conversation.last.upper()) if conversation.turn == 1 else None

    model = ScriptedModel([Rule(Answer("again"))], script)
    service = Service("model", tmp_path, 1, tmp_path / "model.jsonl")

    def ask(*messages: Mapping[str, str]) -> str:
        body = json.dumps({"model": "scripted", "messages": messages}).encode()
        answer = json.loads(model(Request("POST", "/v1/chat/completions", {}, {}, body), service).body)
        return str(answer["choices"][0]["message"]["content"])

    turn = {"role": "user", "content": "hey"}
    assert (ask(turn), ask(turn, {"role": "assistant", "content": "x"}, turn)) == ("HEY", "again")


def test_a_rule_with_an_unknown_field_is_an_error_of_the_case(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rule 0 has unknown fields: sya"):
        ScriptedModel.from_file(write_files(tmp_path, {"s.json": '[{"sya": "x"}]'}) / "s.json")


PRODUCT = '''
import json
import os
import urllib.request


def label(text):
    """positive or negative, as the model says."""
    asked = {"model": "tiny", "messages": [
        {"role": "system", "content": "Answer with one word: positive or negative."},
        {"role": "user", "content": f"Review: {text}"},
    ]}
    request = urllib.request.Request(os.environ["LLM_URL"] + "/v1/chat/completions", json.dumps(asked).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)["choices"][0]["message"]["content"].strip().lower()


if __name__ == "__main__":
    print(label("good"))
'''
CHECKS = '''
from bench.judge import check, string


@check(weight=2, required=True)
def asks_the_model(ws):
    """Each label is the model's own, which saw the whole review."""
    for said in ("Positive", "Negative"):
        review = f"number {ws.rng.randint(10, 10**9)} with the marker {said}"
        assert string(ws.call("answer:label", review)) == said.lower(), f"not {said.lower()}"
        seen = [it for it in ws.journal("llm", during="judging") if it["event"] == "asked"][-1:]
        assert seen and review in seen[0]["messages"][-1]["content"], "the model did not see the review"


@check()
def instructs_the_model(ws):
    """The model is told what to answer with."""
    ws.call("answer:label", "marker Positive")
    seen = [it for it in ws.journal("llm", during="judging") if it["event"] == "asked"][-1:]
    assert seen and "one word" in seen[0]["messages"][0]["content"], "no instruction"
'''
MODEL = """
from bench.casekit.language_model import Answer, Rule, ScriptedModel

llm = ScriptedModel([Rule(Answer("{1}\\n"), when=r"marker (\\w+)"), Rule(Answer("Positive"))], models=["tiny"])
"""


@pytest.mark.slow
def test_a_case_with_such_a_product_proves_itself(bubblewrap: Sandbox, tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {
        "check.py": CHECKS, "services.py": MODEL, "solution/answer.py": PRODUCT, "hidden/driver.py": None,
        "workspace/answer.py": "def label(text):\n    raise NotImplementedError\n",
        "wrong/constant/answer.py": "def label(text):\n    return 'positive'\n",
        "wrong/same/answer.py": PRODUCT.replace("{text}", "{text[:5]}"),
        "wrong/adds/answer.py": None,
        "wrong/reads/answer.py": "def label(text):\n    return text.split()[-1].lower()\n",
        "task.md": "Complete `label(text)` in `answer.py` with the model at `LLM_URL`.\n",
    }  # fmt: skip
    facts = {name: {"about": name, "fails": ["asks_the_model"]} for name in ("constant", "same", "reads")}
    case = make_case(
        tmp_path / "cases", files, wrong=facts, services={"llm": {"env": "LLM_URL", "during": ["agent", "judging"]}},
        solution={"run": ["python", "answer.py"]},
    )  # fmt: skip
    places = DataFolders(cases=tmp_path / "cases", agents=ROOT / "agents", site=ROOT / "site", cache=tmp_path / "cache")
    with open_verifier(places, bubblewrap) as verifier:
        assert [(proof.name, proof.detail) for proof in verifier.verify(case) if not proof.ok] == []
