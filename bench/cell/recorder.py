"""From what happened in a cell to its record, written once and whole."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.base.files import sha256_file, walk_files
from bench.base.model import seed_text
from bench.cell.context import CellContext, Clock
from bench.cell.diagnosis import Evidence, failure_modes, flags
from bench.cell.machine import this_machine
from bench.formats.failures import FAILURES
from bench.formats.help import HelpGiven
from bench.formats.note import Note
from bench.formats.observed import SelfReported
from bench.formats.plan import Cell
from bench.formats.record import (
    MOST_ARTIFACTS,
    AgentRef,
    Artifact,
    CaseRef,
    CheckResult,
    Claim,
    Metric,
    Record,
    Try,
)
from bench.formats.run_folder import RunFolder
from bench.formats.step_snapshots import STORE
from bench.formats.verdict import flags_of_tries, limits_hit, limits_of, stored_score, total_cost, total_steps

REPORT = "usage.json"
"""In `BENCH_OUT_DIR`: what the agent's program says it used, as `SelfReported`."""
_LARGEST_REPORT = 10_000


@dataclass(frozen=True)
class Judged:
    """A cell with a verdict. Made while the workspace is still there, since some evidence lies in it."""

    evidence: Evidence
    flags: list[Note]
    failure_modes: list[Note]


def judged(evidence: Evidence) -> Judged:
    """Diagnose a judged cell."""
    modes, unread = failure_modes(evidence)
    return Judged(evidence, [*flags(evidence), *unread], modes)


@dataclass(frozen=True)
class Finished:
    """The end of a cell: judged, with evidence; or not, with a cause."""

    clock: Clock
    judged: Judged | None = None
    cause: str = ""
    error: str = ""


def write_record(cell: Cell, context: CellContext, finished: Finished, tries: list[Try]) -> Record:
    """Build the record and store it as `cells/<slug>.json` of the run; raises `UserError` where it cannot be."""
    try:
        record = _record(cell, context, finished, tries)
        line = record.to_line()
    except ValueError as error:
        # A fault of ours, but the other cells of the run shall not pay for it.
        text = f"the record is not valid: {error}"[:2000].encode("utf-8", "replace").decode()
        record = _record(cell, context, Finished(finished.clock, cause="internal_error", error=text), tries)
        line = record.to_line()
    RunFolder(context.folder).keep(cell.slug, line.encode() + b"\n")
    return record


def _record(cell: Cell, context: CellContext, finished: Finished, tries: list[Try]) -> Record:
    clock = finished.clock
    provenance = context.provenance
    if finished.judged is not None:
        fields = _verdict(finished.judged, tries)
        fields["self_reported"] = _self_reported(context.trace(cell) / "out")
        enforcement = finished.judged.evidence.phase.ended.enforcement
        provenance = provenance.model_copy(update={"enforcement": enforcement})
    else:
        fields = {"outcome": FAILURES[finished.cause].outcome, "cause": finished.cause, "error": finished.error}
    return Record(
        cell=cell.id,
        arm=cell.arm,
        agent=AgentRef(
            id=cell.agent.id,
            digest=cell.agent.digest,
            commit=context.agent_commits.get(cell.agent.digest, ""),
            ranked=cell.ranked,
        ),
        case=CaseRef(
            id=cell.case.id, category=cell.case.spec.category, title=cell.case.spec.title, digest=cell.case.digest
        ),
        models=cell.models,
        profile=cell.profile,
        trial=cell.trial,
        seed=context.seed(cell),
        seed_source=context.seed_source(cell),
        seed_commitment=context.seed_commitment(cell),
        phases=clock.phases,
        started=clock.started,
        finished=clock.now(),
        machine=this_machine(),
        limits=limits_of(cell.case.spec.limits, cost_limited=context.cost_limited),
        help=_help(context, finished.judged),
        provenance=provenance,
        artifacts=_artifacts(context.trace(cell), context.folder),
        tries=tries,
        **fields,
    )


def _verdict(judged: Judged, tries: list[Try]) -> dict[str, Any]:
    grading, phase = judged.evidence.grading, judged.evidence.phase
    usage = phase.usage
    cost, status = total_cost(usage)
    return {
        "outcome": "graded",
        "stop_reason": phase.stop_reason,
        "judge_seed": seed_text(grading.seed),
        "success": grading.success,
        "score": stored_score(grading.verdicts),
        "checks": [CheckResult(**vars(verdict)) for verdict in grading.verdicts],
        "milestones": judged.evidence.spec.milestones,
        "headline": spec.metric.scale if (spec := judged.evidence.spec).metric else None,
        "metrics": [Metric(**metric) for metric in grading.metrics],
        "claims": [Claim(**claim) for claim in grading.claims],
        "overclaims": sum(bool(claim["overclaim"]) for claim in grading.claims),
        "flags": [*judged.flags, *flags_of_tries(tries)],
        "name_queries": phase.name_queries,
        "failure_modes": judged.failure_modes,
        "usage": usage,
        "cost_usd": cost,
        "cost_status": status,
        "steps": total_steps(usage),
        "limits_hit": limits_hit(phase.stop_reason),
    }


def _help(context: CellContext, judged: Judged | None) -> HelpGiven | None:
    """Of a cell without a verdict only that it was offered: how much was asked is in the trace."""
    if context.helper is None:
        return None
    given = judged.evidence.phase.help if judged is not None else None
    return given or HelpGiven(**context.helper.offer.model_dump())


def _self_reported(out: Path) -> SelfReported | None:
    """What the agent's program says of its use in `usage.json`; None where it says nothing that can be read."""
    path = out / REPORT
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size > _LARGEST_REPORT:
            return None
        return SelfReported.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _artifacts(trace: Path, root: Path) -> list[Artifact]:
    """What is kept beside the record; of the agent's own files only regular ones with printable names."""
    found: list[Artifact] = []
    # The agent's own files come last: however many it writes, they leave the others their places.
    # Of snapshots the index is named, which has the digest of each file in the store.
    files = walk_files(trace, skip=frozenset({"workspace", STORE}))
    for name, entry in sorted(files, key=lambda it: it[0].startswith("out/")):
        if entry.is_file(follow_symlinks=False) and name.isprintable() and len(found) < MOST_ARTIFACTS:
            path = Path(entry.path)
            size = entry.stat(follow_symlinks=False).st_size
            found.append(Artifact(name=name, place=str(path.relative_to(root)), size=size, digest=sha256_file(path)))
    return found
