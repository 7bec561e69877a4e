"""A program with 32 subagents at a limit, through a whole cell: what the provider bills never exceeds it, by $0.

The subagents use the providers' own clients, streamed, as the real programs do, and go on until they are refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cell.run import run_cell
from bench.formats.record import Record
from bench.formats.run_limits import RunLimits
from bench.sandbox.job import Sandbox
from tests.helpers.cells import RIGHT, make_agent, make_case, make_cell, make_context
from tests.helpers.gateway_live import own_prices
from tests.helpers.provider import Reply, ScriptedUpstream, Usage
from tests.helpers.sampling import on_push

SUBAGENTS = 32
PROGRAM = f"""
import json, os, sys, threading
from collections import Counter
from pathlib import Path

kind = sys.argv[1]
model, said = os.environ["BENCH_MODEL"], [{{"role": "user", "content": "hello " * 20}}]
Path("answer.py").write_text({RIGHT!r})
if kind == "messages":
    from anthropic import Anthropic, APIStatusError
    client, code = Anthropic(max_retries=0), lambda error: error.status_code
elif kind == "google":
    from google import genai
    from google.genai.errors import APIError as APIStatusError
    address = os.environ["GOOGLE_GEMINI_BASE_URL"]
    client = genai.Client(api_key=os.environ["GEMINI_API_KEY"], http_options={{"base_url": address}})
    code = lambda error: error.code
else:
    from openai import APIStatusError, OpenAI
    client, code = OpenAI(max_retries=0), lambda error: error.status_code


def ask():
    if kind == "messages":
        with client.messages.stream(model=model, messages=said, max_tokens=60) as stream:
            return stream.get_final_text()
    if kind == "responses":
        with client.responses.stream(model=model, input=said, max_output_tokens=60) as stream:
            return stream.get_final_response().output_text
    if kind == "google":
        settings = {{"max_output_tokens": 60}}
        parts = client.models.generate_content_stream(model=model, contents="hello " * 20, config=settings)
        return "".join(part.text or "" for part in parts)
    parts = client.chat.completions.create(
        model=model, messages=said, max_tokens=60, stream=True, stream_options={{"include_usage": True}}
    )
    return "".join(part.choices[0].delta.content or "" for part in parts if part.choices)


def subagent():
    together.wait()
    for _ in range(4):
        try:
            assert ask() == "A part of the work."
            seen["answered"] += 1
        except APIStatusError as error:
            seen[str(code(error))] += 1
            return
        except BaseException as error:
            seen[repr(error)] += 1
            raise


seen, together = Counter(), threading.Barrier({SUBAGENTS})
threads = [threading.Thread(target=subagent) for _ in range({SUBAGENTS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
Path(os.environ["BENCH_OUT_DIR"], "seen.json").write_text(json.dumps(seen))
"""
MODELS = {"chat": "openai/scripted", "responses": "openai/scripted", "messages": "anthropic/scripted",
          "google": "gemini/scripted"}  # fmt: skip
USED = Usage(input=60, output=60)
"""The text is 20 words, for which the gateway sets aside more."""
TOKENS = 60 + 60
EACH = (60 * 3 + 60 * 15) / 1e6
"""US dollars of a call, which uses all that it may."""
AFFORDED = 24
"""Calls that fit; 32 subagents of four calls want 128."""
BOUNDS: dict[str, dict[str, Any]] = {
    "calls": {"steps": AFFORDED},
    "dollars": {"steps": 1000, "cost_usd": AFFORDED * EACH},
    "tokens": {"steps": 1000, "tokens": AFFORDED * TOKENS},
}


def _record(
    folder: Path, sandbox: Sandbox, upstream: ScriptedUpstream, protocol: str, limits: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch, **changes: Any,
) -> Record:  # fmt: skip
    for name, value in upstream.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLDB_PRICES", str(own_prices(folder)))
    command = ["python", "{agent}/main.py", protocol]
    agent = make_agent(folder / "agents", PROGRAM, command=command, models={"main": MODELS[protocol]})
    more = {"agent_s": 300, "memory_mb": 2048, "processes": 256, **limits}
    return run_cell(
        make_cell(agent, make_case(folder / "cases", limits=more)), make_context(folder, sandbox, **changes)
    )


def assert_within(record: Record, upstream: ScriptedUpstream, folder: Path, kind: str) -> None:
    """Within the limit to the token and the dollar; every subagent was refused in its protocol's own way."""
    billed, (usage,) = upstream.usage_totals, record.usage
    (out,) = folder.rglob("seen.json")
    seen = json.loads(out.read_text())
    assert set(seen) <= {"answered", "402"}, seen
    assert seen["answered"] == billed.calls == usage.calls == record.steps
    assert seen["402"] == SUBAGENTS, "each goes on until it is refused"
    assert 1 <= billed.calls <= AFFORDED
    assert billed.cost_usd <= AFFORDED * EACH + 1e-12, "overshoot: $0"
    assert record.cost_usd == pytest.approx(billed.cost_usd, abs=1e-12)
    assert usage.tokens.input_uncached is not None and usage.tokens.output is not None
    assert usage.tokens.input_uncached + usage.tokens.output == TOKENS * billed.calls <= AFFORDED * TOKENS
    assert usage.refused_calls >= seen["402"]
    assert (record.outcome, record.flags) == ("graded", [])
    if kind == "calls":
        assert billed.calls == AFFORDED, "and no call is refused that fits"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "kind"),
    on_push(
        [(protocol, kind) for protocol in MODELS for kind in BOUNDS],
        [("messages", "dollars"), ("google", "tokens")],
    ),
)
def test_32_subagents_at_a_limit_of_the_cell(
    protocol: str, kind: str, tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedUpstream(lambda body, spoken: Reply("A part of the work.", usage=USED, hang_s=0.05)) as upstream:
        record = _record(tmp_path, bubblewrap, upstream, protocol, BOUNDS[kind], monkeypatch)
    assert_within(record, upstream, tmp_path, kind)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", on_push(list(MODELS), ["chat"]))
def test_32_subagents_at_a_limit_of_the_run(
    protocol: str, tmp_path: Path, bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = RunLimits(cost_usd=AFFORDED * EACH)
    with ScriptedUpstream(lambda body, spoken: Reply("A part of the work.", usage=USED, hang_s=0.05)) as upstream:
        record = _record(tmp_path, bubblewrap, upstream, protocol, {"steps": 1000}, monkeypatch, run_limits=limits)
    assert_within(record, upstream, tmp_path, "dollars")
