"""By which names models may be asked for: alias, real name, dated snapshots, helpers; and what the record says."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from bench.base.errors import UserError
from bench.cell.run import run_cell
from bench.formats.agent import load_agent
from bench.gateway.names import OTHERS, AskedNames, ModelNames, real_name
from bench.sandbox.job import Sandbox
from tests.helpers.cells import make_agent, make_case, make_cell, make_context
from tests.helpers.gateway import Client, Json, replaying, turn, user
from tests.helpers.gateway_live import live, own_prices
from tests.helpers.provider import Reply, ScriptedUpstream, Usage

MODELS = {
    "main": "anthropic/claude-sonnet-4-5",
    "small": "openrouter/openai/gpt-5.4-nano",
    "dated": "openai/gpt-4o-2024-08-06",
}
NAMES = ModelNames(MODELS, {"claude-haiku-4-5": "small", "gone": "nobody"})
ALL = list(MODELS)
TWO_TURNS = [turn("I look first."), turn("Done.")]


@pytest.mark.parametrize(
    ("asked", "role"),
    [
        ("bench-main", "main"), ("bench-small", "small"), ("bench-other", None), ("main", None),
        ("claude-sonnet-4-5", "main"), ("anthropic/claude-sonnet-4-5", "main"),
        ("claude-sonnet-4-5-20250929", "main"), ("claude-sonnet-4-5@20250929", "main"),
        ("claude-sonnet-4-5-latest", "main"),
        ("claude-sonnet-4-5-20251399", None), ("claude-sonnet-4-5-preview-05-06", "main"),
        ("claude-sonnet-4-5-001", "main"),
        ("claude-sonnet-4", None), ("claude-sonnet-4-5-turbo", None), ("claude-sonnet-4-55", None),
        ("bedrock/claude-sonnet-4-5", None),
        ("gpt-5.4-nano", "small"), ("openai/gpt-5.4-nano", "small"), ("openrouter/openai/gpt-5.4-nano", "small"),
        ("claude-haiku-4-5", "small"), ("claude-haiku-4-5-20251001", "small"), ("gone", None),
        ("gpt-4o-2024-08-06", "dated"), ("gpt-4o", "dated"), ("gpt-4o-2024-05-13", None), ("gpt-4o-mini", None),
        ("", None), ("-20250929", None), ("openai", None), ("\ud800", None),
    ],
)  # fmt: skip
def test_a_name_leads_to_one_role_or_none(asked: str, role: str | None) -> None:
    assert NAMES.role(asked, ALL) == role
    assert NAMES.role(asked, [it for it in ALL if it != role]) is None, "only the roles of the key"


def test_of_two_roles_with_one_model_the_first_answers_unless_the_key_says_which() -> None:
    names = ModelNames({"main": "openai/gpt-5.5", "small": "openai/gpt-5.5"}, {"gpt-5.5-mini": "small"})
    assert names.role("gpt-5.5", ["main", "small"]) == "main"
    assert names.role("gpt-5.5", ["small"]) == "small"
    assert names.role("gpt-5.5-mini", ["main", "small"]) == "small"
    assert names.listed(["main", "small"]) == ["bench-main", "bench-small", "gpt-5.5"]


def test_a_mapped_name_goes_before_a_real_one() -> None:
    names = ModelNames({"main": "openai/gpt-5.5", "small": "openai/gpt-4o-mini"}, {"gpt-5.5": "small"})
    assert names.role("gpt-5.5", ["main", "small"]) == "small"


def test_names_are_counted_without_end_and_kept_within_bounds() -> None:
    asked = AskedNames()
    for number in range(100):
        asked.add(f"gpt-{number}")
    asked.add("gpt-0")
    assert len(asked.counts) == 17
    assert (asked.counts["gpt-0"], asked.counts[OTHERS], asked.counts.total()) == (2, 84, 101)


def test_a_replayed_model_has_the_real_name_of_what_was_recorded(tmp_path: Path) -> None:
    assert real_name("replay/@answers") == ""
    with replaying(tmp_path, TWO_TURNS) as gateway:
        assert gateway.real_name("main") == "claude-sonnet-4-5"
        client = Client(tmp_path / "g.sock", gateway.key)
        first = client.chat(user(), model="claude-sonnet-4-5-20250929")
        assert (first.status, first.body["model"]) == (200, "claude-sonnet-4-5-20250929"), "it carries the name asked"
        assert client.chat(user()).status == 200
        assert client.chat(user(), model="replay/demo").status == 404
        listed = client.request("GET", "/v1/models").body["data"]
        assert [it["id"] for it in listed] == ["bench-main", "claude-sonnet-4-5"]
        assert client.request("GET", "/v1/models/claude-sonnet-4-5").body["id"] == "claude-sonnet-4-5"
        assert client.request("GET", "/v1/models/gpt-4o").status == 404
    (usage,) = gateway.state().usage
    assert usage.asked == {"claude-sonnet-4-5-20250929": 1, "bench-main": 1}
    assert [note.name for note in gateway.state().notes] == ["wrong_model"]


def test_a_scripted_model_has_no_real_name(tmp_path: Path) -> None:
    with replaying(tmp_path, TWO_TURNS, models={"main": "replay/@answers"}) as gateway:
        assert gateway.real_name("main") == gateway.alias("main") == "bench-main"


def test_the_upstream_gets_the_model_of_the_role_whatever_was_asked(tmp_path: Path) -> None:
    asked = ["bench-main", "scripted", "openai/scripted", "scripted-2025-01-31", "helper", "scripted-2"]
    good = Reply("hello", usage=Usage(100, 50))
    with ScriptedUpstream([good] * 6) as upstream, live(tmp_path, upstream, helpers={"helper": "claude"}) as it:
        from openai import OpenAI

        client = OpenAI(base_url=f"{it.url}/v1", api_key=it.gateway.key, max_retries=0)
        for name in asked[:-2]:
            client.chat.completions.create(model=name, messages=[{"role": "user", "content": "hello"}])
        body = {"model": "helper", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
        assert httpx.post(f"{it.url}/v1/messages", json=body, headers=it.headers).status_code == 200
        assert it.post("chat", model=asked[-1]).status_code == 404
    assert [seen.body["model"] for seen in upstream.requests] == ["scripted"] * 5
    main, claude = it.gateway.state().usage
    assert main.asked == dict.fromkeys(asked[:4], 1)
    assert claude.asked == {"helper": 1}
    assert [line["alias"] for line in it.lines] == asked[:-1]
    (note,) = it.gateway.state().notes
    assert (note.name, "'scripted-2' (1 times)" in note.evidence) == ("wrong_model", True)


def test_an_agent_that_wants_the_real_name_gets_it_and_the_record_says_so(
    tmp_path: Path, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import json, os, urllib.request
for name in (os.environ["BENCH_MODEL"], "scripted-mini"):
    body = {"model": name, "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()
"""
    facts: Json = {
        "models": {"main": "openai/scripted"},
        "model_name": "real",
        "helper_models": {"scripted-mini": "main"},
    }
    with ScriptedUpstream([Reply("hello", usage=Usage(100, 50))] * 2) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MLDB_PRICES", str(own_prices(tmp_path)))
        agent = make_agent(tmp_path / "agents", code, **facts)
        record = run_cell(make_cell(agent, make_case(tmp_path / "cases")), make_context(tmp_path, plain))
    assert (record.outcome, record.stop_reason) == ("graded", "finished")
    assert record.usage[0].asked == {"scripted": 1, "scripted-mini": 1}
    assert not record.flags, json.dumps([note.name for note in record.flags])


def test_a_helper_model_is_mapped_to_a_role_that_exists(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"field `helper_models`, 'mini': 'small' is not a role of `models`"):
        make_agent(tmp_path, "", models={"main": "openai/gpt-4o"}, helper_models={"mini": "small"})
    agent = make_agent(tmp_path, "", models={"main": "openai/gpt-4o"}, helper_models={"mini": "main"})
    assert load_agent(agent.folder).spec.helper_models == {"mini": "main"}
