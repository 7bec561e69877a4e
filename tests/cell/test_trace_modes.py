"""The papers' ways to fail, each shown by a small agent that really runs, and each told from its sound neighbour."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.cell.run import run_cell
from bench.cell.trace_modes import _FAILED_EDIT, _FAILS, modes_of_trace
from bench.cell.trace_reading import read_modes
from bench.cli.results import results
from bench.formats.failures import FAILURE_MODES, PAPER_TERMS, paper_names
from bench.formats.record import Record
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import FILES, make_agent, make_case, make_cell, make_context
from tests.helpers.failing import FIXTURES, LOOP, OVERFLOW, Fixture, Json, edited, ran
from tests.helpers.gateway import turn, write_cassette
from tests.helpers.provider import Reply, ScriptedUpstream
from tests.helpers.sampling import every_third

ROOT = Path(__file__).resolve().parents[2]


def run_loop(root: Path, turns: list[Json], fixture: Fixture | None = None) -> Record:
    """A cell of the agent `LOOP` whose model says `turns`."""
    facts: dict[str, Any] = dict(fixture.case) if fixture else {}
    case = make_case(root / "cases", dict(fixture.files) if fixture else {}, **facts)
    agent = make_agent(root, LOOP, models={"main": "replay/demo"})
    write_cassette(agent.folder / "cassettes", turns, case.id, FILES["task.md"])
    record = run_cell(make_cell(agent, case), make_context(root, ProcessSandbox()))
    (root / "run" / "run.json").write_text("{}")
    return record


def modes(record: Record) -> dict[str, str]:
    assert (record.outcome, record.success, record.stop_reason) == ("graded", False, "finished"), record
    return {note.name: note.evidence for note in record.failure_modes}


def assert_explained(root: Path, mode: str) -> None:
    """`results explain` says of the cell below `root` what this way to fail means, and what the papers call it."""
    (root / "run" / "run.json").write_text("{}")
    done = CliRunner().invoke(results, ["explain", str(root / "run")], catch_exceptions=False)
    named = f" ({paper_names(mode)})" if paper_names(mode) else ""
    assert f"{mode}: {FAILURE_MODES[mode]}{named}; " in done.output, done.output


@pytest.mark.slow
@pytest.mark.parametrize("mode", FIXTURES)
def test_an_agent_that_fails_in_this_way_is_named(tmp_path: Path, mode: str) -> None:
    fixture = FIXTURES[mode]
    found = modes(run_loop(tmp_path, fixture.turns, fixture))
    assert fixture.says in found.get(mode, ""), found
    # Of what the trace shows only this; what else is named comes of the result.
    beside = {"no_improvement"} if fixture.case else set()
    assert set(found) - beside == {mode}
    assert_explained(tmp_path, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", every_third(FIXTURES))
def test_an_agent_that_comes_near_is_not(tmp_path: Path, mode: str) -> None:
    fixture = FIXTURES[mode]
    assert mode not in modes(run_loop(tmp_path, fixture.sound, fixture))


@pytest.mark.slow
def test_a_conversation_that_the_provider_finds_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Reply(status=400, raw=OVERFLOW)
    with ScriptedUpstream(lambda body, protocol: refused) as upstream:
        for name, value in upstream.environment().items():
            monkeypatch.setenv(name, value)
        agent = make_agent(tmp_path, LOOP, models={"main": "openai/gpt-4o-mini"})
        record = run_cell(make_cell(agent, make_case(tmp_path / "cases")), make_context(tmp_path, ProcessSandbox()))
    assert "maximum context length" in modes(record)["context_overflow"]
    assert_explained(tmp_path, "context_overflow")


_TEXT_LOOP = r"""
import json, os, urllib.request

said = [{"role": "user", "content": open(os.environ["BENCH_TASK_FILE"]).read()}]
said.append({"role": "user", "content": "Answer in the required format."})
for _ in range(4):
    body = {"model": os.environ["BENCH_MODEL"], "messages": said, "max_tokens": 50}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), headers
    )
    answer = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
    fine = answer.startswith("Action: ")
    told = "Observation: the file data.csv cannot be read" if fine else "Your answer could not be used: no Action."
    said += [{"role": "assistant", "content": answer}, {"role": "user", "content": told}]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (["Hello.", "Let me think.", "I see.", "Well."], "3 answers in a row could not be read by the agent's program"),
        (["Action: look", "Hm.", "So.", "Well."], "2 answers in a row could not be read"),
        # Mended in the end; once only; and observations that speak of reading are not about the answer.
        (["Hello.", "Let me think.", "Action: look", "Action: look"], ""),
        (["Action: look", "Action: look", "Hm.", "Action: look"], ""),
        (["Action: look"] * 4, ""),
    ],
)
def test_answers_that_the_agents_program_cannot_read(tmp_path: Path, answers: list[str], says: str) -> None:
    case = make_case(tmp_path / "cases")
    agent = make_agent(tmp_path, _TEXT_LOOP, models={"main": "replay/demo"})
    write_cassette(agent.folder / "cassettes", [turn(text) for text in answers], case.id, FILES["task.md"])
    found = modes(run_cell(make_cell(agent, case), make_context(tmp_path, ProcessSandbox())))
    assert says in found.get("format_failure", "") if says else "format_failure" not in found, found
    if says:
        assert_explained(tmp_path, "format_failure")


@pytest.mark.slow
def test_a_success_has_no_failure_mode(tmp_path: Path) -> None:
    record = run_loop(tmp_path, [*edited(("raise NotImplementedError", "return 2 * x")), turn("Should I proceed?")])
    assert record.success and record.failure_modes == []


@pytest.mark.parametrize("content", [b"", b"no trace\n", b'{"seq": 1}\n'])
def test_a_trace_that_cannot_be_read_shows_nothing(tmp_path: Path, content: bytes) -> None:
    ledger = tmp_path / "calls.jsonl"
    assert modes_of_trace(ledger, ended_by_itself=True, unimproved=True) == []
    ledger.write_bytes(content)
    assert modes_of_trace(ledger, ended_by_itself=True, unimproved=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("words", ["open(" * 3500, "test" * 4000], ids=["opens", "one long word"])
def test_an_agent_cannot_hold_its_runner_up_by_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Traces are read in a process of its own, which is ended: this one has little CPU time."""
    monkeypatch.setattr("bench.cell.trace_reading._CPU_S", 1.0)
    used = time.process_time()
    record = run_loop(tmp_path, ran(*[f"# {words}"] * 40))
    assert (record.outcome, record.success) == ("graded", False)
    assert time.process_time() - used < 4, "CPU time of this process"


@pytest.mark.slow
def test_a_trace_that_takes_too_long_to_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = run_loop(tmp_path, ran("ls"))
    (ledger,) = (tmp_path / "run").rglob("calls.jsonl")
    assert "trace_unread" not in {flag.name for flag in record.flags}
    long = tmp_path / "calls.jsonl"
    long.write_text(ledger.read_text() * 20_000)
    monkeypatch.setattr("bench.cell.trace_reading._CPU_S", 0.01)
    shown, unread = read_modes(long, ended_by_itself=True, unimproved=False)
    assert (shown, unread) == ([], "no failure mode was looked for in the trace: over 0.01 s of CPU time")


@pytest.mark.slow
def test_half_a_character_in_a_command_costs_no_verdict(tmp_path: Path) -> None:
    """What a tool was given is JSON in a text, where it is spelt as an escape: the record could not be written."""
    started = [turn("Go.", ("run", '{"command": "nohup sleep 0 & # \\udc80"}')), turn("It runs.")]
    found = modes(run_loop(tmp_path, [*edited(("raise NotImplementedError", "return x")), *started]))
    assert found["job_left_running"].endswith("# ?")


def test_line_breaks_are_no_beginning_of_an_error() -> None:
    """A search for it took time with their square."""
    for pattern in (_FAILS, _FAILED_EDIT):
        assert pattern.search("\n" * 1_000_000) is None
        assert pattern.search("\n\n   error: x")


def test_every_term_of_the_papers_stands_for_a_failure_mode() -> None:
    """And the page says it in the same words."""
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    for it in PAPER_TERMS:
        assert it.modes and set(it.modes) <= set(FAILURE_MODES)
        assert f"| {it.term} | {it.paper} | {', '.join(f'`{mode}`' for mode in it.modes)} | {it.rule} |\n" in page
    assert paper_names("bad_plan") == "MLAgentBench: bad plan" and paper_names("out_of_time") == ""
