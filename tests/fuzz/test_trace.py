"""What a gateway wrote, is told, or shares with others is read back, or refused by one clear error."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory
from hypothesis import example, given
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.formats.model_usage import Tokens
from bench.formats.run_limits import RunLimits
from bench.gateway.atif import to_atif
from bench.gateway.backends.providers import find_role
from bench.gateway.budget import CellLimits
from bench.gateway.call_log import CallLine, Sent, messages_path, read_trace
from bench.gateway.config import Config, Provider, Role
from bench.gateway.observations import Redactor
from bench.gateway.process import read_orders
from bench.gateway.run_budget import Balance, RunBudget
from bench.gateway.steps import read_steps
from tests.helpers.cells import ROOT, python
from tests.helpers.fuzz import Tally, as_json, fuzzed, json_bytes
from tests.helpers.fuzz_answers import ANSWERS
from tests.helpers.fuzz_requests import CHAT, MESSAGES, RESPONSES

_LINE = CallLine(
    seq=1, time="2026-11-20T02:00:00.000000Z", role="main", alias="bench-main", model="openai/x", status="ok", http=200,
    sent=Sent(frame="f", new=["m0", "m1", "m2"]), tokens=Tokens(input_uncached=3, output=2), cost_usd=0.1,
    answer=ANSWERS["/chat/completions"]["choices"][0]["message"], raw_usage={"prompt_tokens": 3},
)  # fmt: skip
LINE = json.loads(_LINE.model_dump_json())
NEXT = {
    **LINE,
    "seq": 2,
    "sent": {"frame": "f", "after": 1, "kept": 2, "new": ["m2"]},
    "answer": {"content": "a\u2028b\x85c"},
}
_MESSAGES: list[list[Any]] = [CHAT["messages"], RESPONSES["input"], MESSAGES["messages"]]
BODIES = [{"id": f"m{at}", "value": message} for items in _MESSAGES for at, message in enumerate(items)]
FRAME = {"id": "f", "value": {"tools": [], "system": [{"type": "text", "text": "x"}]}}


def store(messages: list[Any]) -> bytes:
    lines = [FRAME, *({"id": f"m{at}", "value": message} for at, message in enumerate(messages))]
    return b"".join(as_json(line) + b"\n" for line in lines)


def check_trace(folder: Path, calls: bytes, bodies: bytes, tally: Tally) -> list[Any]:
    ledger = folder / "calls.jsonl"
    ledger.write_bytes(calls)
    messages_path(ledger).write_bytes(bodies)
    found: list[Any] = []
    with tally.example(UserError):
        found = list(read_trace(ledger))
        read_steps(found)
        Trajectory.model_validate_json(json.dumps(to_atif(found, "agent", "session")))
    return found


@fuzzed
@given(json_bytes(LINE, NEXT), st.sampled_from(_MESSAGES))
@example(as_json(NEXT), _MESSAGES[0])
@example(as_json({**NEXT, "sent": {"frame": "f", "after": -1, "kept": -1, "new": []}}), _MESSAGES[0])
@example(as_json({**LINE, "raw_usage": "@@deep@@"}), _MESSAGES[0])
@example(
    as_json({**LINE, "answer": {"tool_calls": [{"function": {"arguments": "[" * 990}}], "content": "@@deep@@"}}),
    _MESSAGES[0],
)
def test_calls_of_a_cell(tmp_path: Path, tally: Tally, line: bytes, messages: list[Any]) -> None:
    check_trace(tmp_path, as_json(LINE) + b"\n" + line + b"\n", store(messages), tally)


def test_separators_of_unicode_do_not_cut_a_trace(tmp_path: Path) -> None:
    text = json.dumps(NEXT, ensure_ascii=False).encode()
    found = check_trace(tmp_path, as_json(LINE) + b"\n" + text + b"\n", store(_MESSAGES[0]), Tally())
    assert [call.line.seq for call in found] == [1, 2]


@fuzzed
@given(st.one_of([json_bytes(body) for body in BODIES] + [json_bytes(FRAME)]))
@example(b"[]")
@example(b'{"id": []}')
@example(b'{"id": "f", "value": {"system": ' + b"[" * 900 + b"]" * 900 + b"}}")
@example(b'{"id": "m0", "value": {"role": "user", "content": ' + b"[" * 900 + b"]" * 900 + b"}}")
@example(b"\xff")
def test_the_messages_of_a_cell(tmp_path: Path, tally: Tally, line: bytes) -> None:
    calls = as_json(LINE) + b"\n" + as_json(NEXT) + b"\n"
    check_trace(tmp_path, calls, store(_MESSAGES[0]) + line + b"\n", tally)


# --- orders, budget, addresses ---------------------------------------------------------------------------------------

ORDERS = json.loads(
    Config(
        socket=Path("/tmp/g.sock"), ledger=Path("/tmp/calls.jsonl"), keys={"k": ["main"]}, secrets=["s"],
        case="c", limits=CellLimits(deadline=1.0),
        roles={"main": Role(model="openai/x", name="x", provider=Provider(url="http://x", headers={},
        dialects=["chat"]))},
    ).model_dump_json(by_alias=True)
)  # fmt: skip


@fuzzed
@given(json_bytes(ORDERS))
@example(b"")
@example(as_json({**ORDERS, "limits": {"deadline": "@@overflow@@"}}))
def test_orders_of_the_gateway(tally: Tally, line: bytes) -> None:
    with tally.example(UserError):
        config = read_orders(line)
        assert read_orders(config.model_dump_json(by_alias=True).encode()) == config


@pytest.mark.parametrize("line", [b"", b"{}\n", b"[" * 100_000 + b"\n", b'{"roles": 1}\n'])
def test_the_process_that_gets_nonsense_says_so_in_one_line(line: bytes) -> None:
    child = python("-m", "bench.gateway.process")
    done = subprocess.run(child, input=line, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.decode().strip().splitlines()[0].startswith("orders of the gateway: field")
    assert len(done.stderr.splitlines()) == 1


BALANCE = json.loads(Balance(spent_usd=1.0, tokens=5, calls=1).model_dump_json())


@fuzzed
@given(json_bytes(BALANCE))
@example(as_json({"spent_usd": "@@nan@@"}))
@example(as_json({"spent_usd": -5}))
@example(b"\x00" * 400)
def test_the_budget_of_a_run(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "budget.json").write_bytes(content)
    budget = RunBudget(tmp_path / "budget.json", RunLimits(cost_usd=1.0, tokens=100, calls=5))
    with tally.example(UserError):
        before = budget.balance()
        refusal = budget.hold(0.1, 10, step=True)
        assert refusal is not None or before.spent_usd + before.held_usd <= 1.0
        assert budget.balance() == before or refusal is None


_OWN = "{version: x, models: {openai/x: {input: 1, output: 1}, anthropic/x: {input: 1, output: 1}}}"


@fuzzed
@given(
    st.sampled_from(["openai/x", "anthropic/x", "replay/demo"]),
    st.one_of(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
        st.sampled_from(
            ["http://x:99999", "http://[", "https://", "http://x:y", "http://a b", "http://x/\u00e9", "http://x?y#z"]
        ),
        st.text(max_size=8).map(lambda rest: f"https://{rest}"),
    ),
)
@example("openai/x", "http://x:99999")
@example("openai/x", "http://[")
def test_addresses_of_providers(tmp_path: Path, tally: Tally, model: str, address: str) -> None:
    from bench.gateway.backends.http_client import HttpClient

    key = "sk-0123456789abcdef"
    environment = {
        "OPENAI_API_KEY": key,
        "ANTHROPIC_API_KEY": key,
        "OPENAI_BASE_URL": address,
        "ANTHROPIC_BASE_URL": address,
    }
    (tmp_path / "prices.yaml").write_text(_OWN)
    with tally.example(UserError):
        role = find_role(model, "main", "hello_world", None, tmp_path / "prices.yaml", environment)
        assert role.provider is not None
        HttpClient(role.provider.url, 1.0)


_LOOK = "sk-abcdefghij0123456789"


@fuzzed
@given(st.text(max_size=10), st.text(max_size=10), st.booleans())
@example("\n", "\n", True)
@example("\u00e9\u2028", "", True)
def test_keys_are_taken_out_wherever_they_stand(tally: Tally, before: str, after: str, known: bool) -> None:
    redactor = Redactor([_LOOK] if known else [])
    # A letter, a digit or an underscore before it would make it another word.
    edge = " " if before[-1:].isalnum() or before[-1:] == "_" else ""
    with tally.example():
        text = redactor.strict(json.dumps({"a": f"{before}{edge}{_LOOK} {after}"}))
        assert _LOOK not in text
        json.loads(text)
