"""Flags and failure modes, each derived from evidence that is in the record or beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.base.errors import InfraError, UserError
from bench.base.times import TimeOfDay
from bench.cell.agent_phase import AgentPhase
from bench.cell.context import CellContext
from bench.cell.snapshot import Snapshot
from bench.cell.trace_reading import read_modes
from bench.formats.case import Case, CaseSpec, load_case
from bench.formats.note import Note
from bench.formats.plan import Cell
from bench.formats.record import CheckResult, Claim, Metric
from bench.formats.shortfall import invalid_submission, small_improvement
from bench.formats.verdict import LIMIT_MODES, no_improvement, overclaimed
from bench.judge import Grading

_LOOP_LENGTH = 4
_EARLY_SHARE = 0.1
_STEADY_S = 5.0
"""Corrections of the clock below this harm no deadline."""


@dataclass(frozen=True)
class Evidence:
    """Everything a finished cell is diagnosed from."""

    spec: CaseSpec
    phase: AgentPhase
    snapshot: Snapshot
    grading: Grading
    changed: bool
    """The agent changed or made at least one file."""
    ledger: Path


def flags(evidence: Evidence) -> list[Note]:
    """What a reader should know about the cell, whether it succeeded or not."""
    snapshot, usage = evidence.snapshot, evidence.phase.usage
    judged_files = {item.path for item in evidence.spec.outputs.files} | set(evidence.spec.protected)
    irregular = snapshot.dropped + [name for name in snapshot.links if name in judged_files]
    over = [claim for it in evidence.grading.claims if (claim := Claim(**it)).overclaim]
    silent = bool(usage) and not any(role.calls for role in usage)
    found = [
        ("network_attempt", _network_attempts(evidence)),
        ("tampered", f"protected files changed: {_some(snapshot.tampered)}" if snapshot.tampered else ""),
        ("irregular_files", f"no regular files, removed: {_some(irregular)}" if irregular else ""),
        ("workspace_too_large", snapshot.too_large),
        ("check_raised", _raised(evidence.grading)),
        *(("overclaimed", overclaimed(claim)) for claim in over),
        ("no_model_calls", "the agent was given a model and got no answer from it" if silent else ""),
    ]
    return [*evidence.phase.notes, *_notes(found)]


def _notes(found: Sequence[tuple[str, str]]) -> list[Note]:
    """Those of the named rules that found evidence."""
    return [Note(name=name, evidence=text) for name, text in found if text]


def _raised(grading: Grading) -> str:
    """For the case's author: a check should refuse what it cannot read."""
    last = [f"{name}: {(text.strip().splitlines() or [''])[-1][:300]}" for name, text in grading.raised.items()]
    return "; ".join(last[:5])


def _network_attempts(it: Evidence) -> str:
    """What the kernel has counted in namespaces that lead nowhere; loopback, with the gateway on it, is not in it."""
    phases = {
        "in the agent phase": it.phase.ended.network_attempts,
        "when its code was judged": it.grading.network_attempts,
    }
    # Queries for names are not among them: honest programs ask for their telemetry's, and the record lists which.
    parts = [f"{when}: {it.addresses} packets to addresses outside" for when, it in phases.items() if it.addresses]
    return "; ".join(parts)


def failure_modes(evidence: Evidence) -> tuple[list[Note], list[Note]]:
    """Why a cell that did not succeed did not, and a flag where its trace could not be read; empty for a success."""
    if evidence.grading.success:
        return [], []
    over = [claim["name"] for claim in evidence.grading.claims if claim["overclaim"]]
    metrics = [Metric(**metric) for metric in evidence.grading.metrics]
    found = [
        ("crashed", _crashed(evidence)),
        ("no_artifact", _no_artifact(evidence)),
        ("tampered", _some(evidence.snapshot.tampered)),
        ("overclaimed", _some(over)),
        ("error_loop", _error_loop(evidence)),
        ("ended_early", _ended_early(evidence)),
        ("no_improvement", unimproved := no_improvement(evidence.spec.metric, metrics)),
        ("small_improvement", small_improvement(evidence.spec.metric, metrics)),
        ("invalid_submission", _invalid_submission(evidence, metrics)),
    ]
    by_itself = evidence.phase.stop_reason in ("finished", "gave_up")
    shown, unread = read_modes(evidence.ledger, ended_by_itself=by_itself, unimproved=bool(unimproved))
    found += shown
    limit, seconds = evidence.phase.stop_reason, evidence.phase.ended.wall_s
    if limit in LIMIT_MODES:
        stopped = f"the agent was stopped by its {limit.replace('_', ' ')} after {seconds:.1f} s"
        found.insert(0, (LIMIT_MODES[limit], stopped))
    return _notes(found), _notes([("trace_unread", unread)])


def _crashed(it: Evidence) -> str:
    if it.phase.stop_reason != "crashed":
        return ""
    last = it.phase.ended.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["nothing on standard error"]
    return f"status {it.phase.ended.code}: {last[0][:300]}"


def _no_artifact(it: Evidence) -> str:
    missing = [item.path for item in it.spec.outputs.files if not (it.snapshot.folder / item.path).is_file()]
    return f"missing: {_some(missing)}" if missing else ""


def _invalid_submission(it: Evidence, metrics: Sequence[Metric]) -> str:
    checks = [CheckResult(**vars(verdict)) for verdict in it.grading.verdicts]
    return invalid_submission(it.spec.metric, metrics, checks, missing=bool(_no_artifact(it)))


def _ended_early(it: Evidence) -> str:
    """By its own decision, with almost all of its time left, and without having changed a thing."""
    left = it.phase.ended.wall_s < _EARLY_SHARE * it.spec.limits.agent_s
    if it.phase.stop_reason in ("finished", "gave_up") and left and not it.changed:
        return f"ended by itself after {it.phase.ended.wall_s:.1f} of {it.spec.limits.agent_s:g} s, workspace unchanged"
    return ""


def _error_loop(it: Evidence) -> str:
    """The model asked for the same thing several times in a row."""
    if not it.ledger.is_file():
        return ""
    last, run = "", 0
    with it.ledger.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                # A gateway that was killed in mid-line; it was no answer then.
                break
            asked = _asked_for(json.loads(line))
            run = run + 1 if asked and asked == last else 1
            last = asked
            if run >= _LOOP_LENGTH:
                return f"asked {run} times running for {asked[:200]}"
    return ""


def _asked_for(call: dict[str, Any]) -> str:
    """The tool calls of a model's answer as text. The answer is the provider's, so nothing of its form is certain."""
    answer = call.get("answer")
    tools = answer.get("tool_calls") if isinstance(answer, dict) else None
    if not isinstance(tools, list):
        return ""
    parts = [tool.get("function", tool) for tool in tools if isinstance(tool, dict)]
    names = [[part.get("name"), part.get("arguments")] for part in parts if isinstance(part, dict)]
    return json.dumps(names) if names else ""


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def require_calm(day: TimeOfDay) -> None:
    """Raise `InfraError` when the agent phase was disturbed."""
    if abs(day.jumped_s) > _STEADY_S:
        # The agent was told its deadline as a time of day.
        raise InfraError("clock_jump", f"the machine's clock was set by {day.jumped_s:+.0f} s while the agent worked")


def require_same_files(cell: Cell, context: CellContext) -> None:
    """Raise `InfraError` when case or agent are not what they were when the run began."""
    if not _is_unchanged(cell.case):
        raise InfraError("setup_error", f"{cell.case.folder}: the case has changed since the run began")
    # Without isolation an agent may write to the copy of its folder.
    if context.sandbox.isolated and cell.agent.digest_staged(context.staged(cell.agent)) != cell.agent.digest:
        raise InfraError("setup_error", f"{cell.agent.folder}: the agent has changed since the run began")


def _is_unchanged(case: Case) -> bool:
    """Whether its files still say what they said when it was read."""
    try:
        return load_case(case.folder).digest == case.digest
    except UserError:
        return False
