"""`ml-dev-bench smoke`: what can be proven of an agent without any key."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from bench.base.errors import EXIT_FAILED
from bench.base.text import escape, printable
from bench.cli.interrupts import interrupt_on_sigterm
from bench.cli.options import PATH, sandbox
from bench.cli.printing import print_text

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.agent import Agent
    from bench.formats.record import Record
    from bench.runs import RunObserver
    from bench.sandbox import Sandbox

CASE = "hello_world"
RECORDED_SET = "smoke"
"""The agent's cassettes that the workflow mldb-record writes: `cassettes/smoke/CASE.yaml`."""
GRACE_S = 30.0
"""Seconds after a refused call in which an agent may tidy up; then the gateway ends it."""
_SHORTEST_LINE = 20
_LOG_CHARACTERS = 400
State = Literal["proven", "not proven", "needs re-recording", "failed"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    agent: str
    what: str
    state: State
    why: str

    @property
    def line(self) -> str:
        return f"{self.agent}: {self.what} {self.state}: {self.why}"


@dataclass(frozen=True)
class Stage:
    """Where the cells of a smoke run."""

    folder: Path
    folders: DataFolders
    open_sandbox: Callable[[], Sandbox]
    observer: RunObserver

    def run(self, name: str, agent: str, cases: Sequence[str], models: Sequence[str] = ()) -> list[tuple[Record, Path]]:
        """The records of these cells, each with the folder of what was kept beside it."""
        from bench.formats.plan import slug_of
        from bench.plan import Request
        from bench.runs import Options, plan_and_run

        folder = self.folder / name
        # Public seeds: nothing here is a result, and a cassette was recorded with its own.
        options = Options(seed_secret="")
        request = Request("smoke", [agent], cases, models, 1)
        _, records = plan_and_run(request, folder, self.folders, self.open_sandbox, options, self.observer)
        return [(it, folder / "traces" / slug_of(it.cell)) for it in records]


def prove(agents: Sequence[str], stage: Stage) -> list[Finding]:
    """The shipped agent first, which proves the set-up, then each of `agents`; raises `UserError`."""
    from bench.formats.agent_lookup import find_agent

    loaded = [(name, find_agent(name, stage.folders.agents)) for name in agents]
    ((record, _),) = stage.run("set-up", "react", [CASE])
    if not record.success:
        return [
            Finding(
                "the shipped agent", "set-up", "failed", record.error or "; ".join(it.message for it in record.checks)
            )
        ]
    found = [Finding("the shipped agent", "set-up", "proven", "it solved a case with a replayed model")]
    for number, (name, agent) in enumerate(loaded, 1):
        found += _prove_agent(f"agent-{number}", name, agent, stage)
    return found


def _prove_agent(run: str, name: str, agent: Agent, stage: Stage) -> Iterator[Finding]:
    from bench.formats.case import load_cases

    def found(what: str, judged: tuple[State, str]) -> Finding:
        return Finding(agent.id, what, *judged)

    roles = list(agent.spec.models)
    task = load_cases(stage.folders.cases, [CASE])[0].task.read_text(encoding="utf-8")
    ((record, trace),) = stage.run(f"{run}-answers", name, [CASE], [f"{role}=replay/@answers" for role in roles])
    if record.outcome != "graded":
        yield found("start", ("failed", f"{record.cause}: {record.error}"))
        return
    calls = _calls(trace)
    yield found("start", start := _start(record, calls, trace))
    if start[0] == "failed":
        return
    if roles:
        yield found("task", _task(calls, task))
        yield found("gateway", _gateway(record, calls))
    yield found("exit", _exit(record, calls, trace))
    if roles:
        ((record, trace),) = stage.run(f"{run}-refuses", name, [CASE], [f"{role}=replay/@refuses" for role in roles])
        yield found("limits", _limits(record, _calls(trace)))
        yield from (found("work", it) for it in _recorded(f"{run}-recorded", name, agent, stage))
    else:
        yield found("gateway", ("not proven", "the agent does not declare a model"))


def _start(record: Record, calls: Sequence[Any], trace: Path) -> tuple[State, str]:
    if calls or record.stop_reason in ("finished", "gave_up") or any(it.name == "wrong_model" for it in record.flags):
        return "proven", "its command ran in the sandbox"
    return "failed", f"it ended before its first model call ({record.stop_reason}): {_log(trace)}"


def _task(calls: Sequence[Any], task: str) -> tuple[State, str]:
    sent = json.dumps([[call.frame, call.items] for call in calls])
    wanted = [line for line in map(str.strip, task.splitlines()) if len(line) >= _SHORTEST_LINE]
    present = sum(json.dumps(line)[1:-1] in sent for line in wanted)
    if present == len(wanted):
        return "proven", "the whole task is in its requests"
    return "not proven", f"{present} of {len(wanted)} lines of the task are in its requests to the model"


def _gateway(record: Record, calls: Sequence[Any]) -> tuple[State, str]:
    wrong = next((note.evidence for note in record.flags if note.name == "wrong_model"), "")
    if any(call.line.status == "ok" for call in calls):
        more = f"; other models were asked: {wrong}" if wrong else ""
        return "proven", f"{len(calls)} model calls went through it{more}"
    if wrong:
        return "failed", f"it asked for {wrong}: ask for the name in BENCH_MODEL"
    if calls:
        return "failed", f"every call failed: {calls[-1].line.error}"
    return "failed", "no model call reached it: send them to OPENAI_BASE_URL or ANTHROPIC_BASE_URL"


def _exit(record: Record, calls: Sequence[Any], trace: Path) -> tuple[State, str]:
    if record.stop_reason in ("finished", "gave_up"):
        return "proven", "it ended by itself"
    if record.stop_reason in ("step_limit", "cost_limit", "token_limit"):
        return _after_refusal(record, calls)
    return "failed", f"{record.stop_reason}, although every request was answered at once: {_log(trace)}"


def _limits(record: Record, calls: Sequence[Any]) -> tuple[State, str]:
    if record.outcome != "graded":
        return "failed", f"{record.cause}: {record.error}"
    return _after_refusal(record, calls)


def _after_refusal(record: Record, calls: Sequence[Any]) -> tuple[State, str]:
    """Whether the agent ended by itself after a call was refused for a limit."""
    refused = [call.line for call in calls if call.line.http == 402]
    if not refused:
        return "not proven", f"it made no call that could be refused ({record.stop_reason})"
    if (
        record.stop_reason == "time_limit"
        or _ended(record) - datetime.fromisoformat(refused[0].time).timestamp() >= GRACE_S
    ):
        return "not proven", f"it ran on for {GRACE_S:g} seconds after HTTP 402, and was ended: stop after a refusal"
    return "proven", f"it ended by itself after HTTP 402, which came after {len(calls) - len(refused)} answers"


def _recorded(run: str, name: str, agent: Agent, stage: Stage) -> Iterator[tuple[State, str]]:
    """What a recorded conversation shows; without one, or with one that is out of date, nothing can be said."""
    from bench.formats.suite import load_suite

    folder = agent.folder / "cassettes" / RECORDED_SET
    cases = [case for case in load_suite(stage.folders.cases, "smoke").cases if (folder / f"{case}.yaml").is_file()]
    if not cases:
        yield "not proven", f"no conversation is recorded in {folder.relative_to(agent.folder)}: run mldb-record once"
        return
    models = [f"{role}=replay/{RECORDED_SET}" for role in agent.spec.models]
    for record, trace in stage.run(run, name, cases, models):
        yield _replayed(record, trace)


def _replayed(record: Record, trace: Path) -> tuple[State, str]:
    case = record.case.id
    miss = next((note.evidence for note in record.flags if note.name == "cassette_miss"), "")
    if miss or record.cause in ("cassette_miss", "setup_error"):
        return "needs re-recording", f"{case}: {miss or record.error}; run the workflow mldb-record"
    if record.outcome != "graded":
        return "not proven", f"{case}: {record.cause}: {record.error}"
    if record.stop_reason == "crashed":
        return "failed", f"{case}: it crashed on the recorded conversation: {_log(trace)}"
    return "proven", f"{case}: with the recorded model the case is {'solved' if record.success else 'not solved'}"


def _calls(trace: Path) -> list[Any]:
    from bench.gateway import read_trace

    return list(read_trace(trace / "calls.jsonl")) if (trace / "calls.jsonl").is_file() else []


def _ended(record: Record) -> float:
    """Unix seconds at which the agent's phase was over."""
    phase = next(it for it in record.phases if it.name == "agent")
    return datetime.fromisoformat(phase.start).timestamp() + phase.seconds


def _log(trace: Path) -> str:
    log = trace / "agent.log"
    text = log.read_bytes()[-_LOG_CHARACTERS:].decode("utf-8", "replace") if log.is_file() else ""
    return printable(text.strip()) or "it wrote nothing"


def as_markdown(found: Sequence[Finding]) -> str:
    rows = [f"| {escape(it.agent)} | {it.what} | {it.state} | {escape(it.why, 600)} |" for it in found]
    head = ["## ML-Dev-Bench: smoke", "", "| agent | | | |", "|---|---|---|---|"]
    tail = "No model was called, so nothing here says how well the agent works: that is what the gate measures."
    return "\n".join([*head, *rows, "", tail, ""])


def stage_of(folder: Path, sandbox: str, observer: RunObserver) -> Stage:
    """Where and how agents are tried: in `folder`, in the sandbox of this name."""
    from functools import partial

    from bench.base.install import find_data_folders
    from bench.cli.run import open_sandbox

    return Stage(folder, find_data_folders(), partial(open_sandbox, sandbox), observer)


@click.command()
@click.option("--agent", "agents", multiple=True, required=True, help="Id, or path of an agent.yaml; repeatable.")
@click.option("--out", type=PATH, default=Path("runs/smoke"), show_default=True, help="A new folder for the records.")
@sandbox()
def smoke(agents: tuple[str, ...], out: Path, sandbox: str) -> None:
    """Prove without a key that agents start, are told the task, use the gateway, keep limits and end.

    The model is scripted: it says one sentence, and then refuses. Where the agent has conversations in
    cassettes/smoke, they are replayed, too; one that does not fit any more needs re-recording, which is not a failure.

    Exit status: 0 nothing failed; 1 something did; 2 the set-up is wrong.
    """
    from bench.cli.reporter import Reporter

    interrupt_on_sigterm()
    with Reporter() as reporter:
        found = prove(agents, stage_of(out, sandbox, reporter))
    for finding in found:
        print_text(finding.line)
    if any(finding.state == "failed" for finding in found):
        sys.exit(EXIT_FAILED)
