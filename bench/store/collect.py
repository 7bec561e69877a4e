"""Collecting the artifacts of a run: each record is checked against the plan, and what passes becomes one bundle.

Artifacts are untrusted. A record counts only for a cell of the plan, from an artifact that was given this cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.model import Model, explain, read_json
from bench.base.text import printable
from bench.formats.names import Name
from bench.formats.plan import ANY_SANDBOX, PlannedCell, RunPlan, public_seed, read_plan_file
from bench.formats.record import Record
from bench.store.artifacts import Artifact, Caps, Refusal, read_cells, survey
from bench.store.bundle import Bundle, line_of
from bench.store.merge import Claims, Taken, fitting, settle, trace_faults, without_replays
from bench.store.recompute import SKEW_S, contradictions
from bench.store.sources import Sources, must_be

_SLACK = timedelta(seconds=SKEW_S)
_URL = re.compile(r"https?://[!-~]+")


class Shards(Model):
    """Which artifact may bring which cells, from the job that planned them."""

    run: Name
    artifacts: dict[str, list[str]]
    """Cells by the artifact's name."""


@dataclass(frozen=True)
class PlanCheck:
    """What a record must agree with."""

    plan: RunPlan
    cells: Mapping[str, PlannedCell]
    owners: Mapping[str, frozenset[str]] | None
    """Artifacts by cell; None: any may bring any cell of the plan."""
    run_url: str | None
    now: datetime
    sources: Sources

    @classmethod
    def to(
        cls,
        plan: RunPlan,
        shards: Shards | None = None,
        run_url: str | None = None,
        sources: Sources | None = None,
    ) -> PlanCheck:
        """The check against `plan`; `run_url`: the address that every record must name, None for any.

        sources: what records are recomputed from; None: the installed cases and agents.
        Raises `UserError` where plan and shards are not of one run.
        """
        cells = {cell.cell: cell for cell in plan.cells}
        owners: dict[str, set[str]] = {}
        for artifact, names in shards.artifacts.items() if shards else ():
            for name in names:
                owners.setdefault(name, set()).add(artifact)
        if shards and (shards.run != plan.run or not owners.keys() <= cells.keys()):
            raise UserError(f"are not of run {plan.run}", where="--shards", remedy="give plan and shards of one run")
        frozen = {cell: frozenset(names) for cell, names in owners.items()} if shards else None
        return cls(plan, cells, frozen, run_url, datetime.now(UTC), sources or Sources.installed())

    @property
    def artifacts(self) -> frozenset[str]:
        """The names of the artifacts that may bring cells, as far as they are known."""
        return frozenset().union(*(self.owners or {}).values())

    def read(self, content: bytes, artifact: str) -> Record | str:
        """The record in an untrusted file of `artifact`, or why it is not taken."""
        try:
            record = Record.model_validate_json(content)
        except ValidationError as error:
            return f"is not a record of this schema: {explain(error, Record)}"
        plain = _told(self._plan_faults(record, artifact))
        if plain:
            return plain[0]
        if fault := self._first_of(record, self._own_faults(record)):
            return fault
        try:
            # What is stored must be what was checked here.
            again = Record.model_validate_json(line_of(record))
        except UserError as error:
            return str(error)
        return record if again == record else "contains a value that JSON cannot represent"

    def against_trace(self, record: Record, artifact: Artifact) -> str:
        """Where the files in its artifact contradict a record that was read; empty where they do not."""
        basis = self.sources.basis(self.plan, self.cells[record.cell])
        return self._first_of(record, trace_faults(record, basis, artifact))

    def _own_faults(self, record: Record) -> Iterator[str]:
        try:
            basis = self.sources.basis(self.plan, self.cells[record.cell])
        except UserError as error:
            yield f"cannot be recomputed: {error}"
            return
        yield from contradictions(record, basis)

    def _first_of(self, record: Record, faults: Iterator[str]) -> str:
        """The first fault of a record of the plan, and how many more there are; empty without one."""
        found = _told(faults)
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"cell {record.cell}: {found[0]}{more}" if found else ""

    def _plan_faults(self, record: Record, artifact: str) -> Iterator[str]:
        if record.provenance.run != self.plan.run:
            yield f"belongs to run {record.provenance.run}, not to {self.plan.run}"
        planned = self.cells.get(record.cell)
        if planned is None:
            yield f"claims the cell {record.cell}, which is not in the plan"
            return
        if self.owners is not None and artifact not in self.owners.get(record.cell, ()):
            yield f"claims the cell {record.cell}, which was given to another job"
        yield from (
            f"cell {record.cell}: {must_be(name, found, wanted, 'it was planned so')}"
            for name, found, wanted in self._identity(record, planned)
            if found != wanted
        )
        if self.plan.sandbox == ANY_SANDBOX and record.provenance.sandbox == "process":
            yield "ran in a sandbox that does not isolate, which was not planned"
        if record.provenance.run_url and not _URL.fullmatch(record.provenance.run_url):
            yield "its run_url is not an http address"
        if any(_leaves(item.place) or _leaves(item.name) for item in record.artifacts):
            yield "names an artifact outside of its run folder"
        yield from self._time_faults(record)

    def _identity(self, record: Record, planned: PlannedCell) -> Sequence[tuple[str, object, object]]:
        plan, said, commit = self.plan, record.provenance, record.agent.commit
        seed = public_seed(plan.suite_version, planned.case, planned.trial)
        facts: list[tuple[str, object, object]] = [
            ("agent.id", record.agent.id, planned.cell.split("/")[0]),
            ("agent.digest", record.agent.digest, planned.agent_digest),
            ("case.id", record.case.id, planned.case),
            ("case.digest", record.case.digest, planned.case_digest),
            ("models", dict(record.models), dict(planned.models)),
            ("profile", record.profile, plan.profile),
            ("trial", record.trial, planned.trial),
            ("arm", record.arm, planned.arm),
            ("seed", record.seed, seed),
            ("provenance.judge", said.judge, plan.judge),
            ("provenance.suite", said.suite, plan.suite),
            ("provenance.suite_version", said.suite_version, plan.suite_version),
            ("provenance.seed_secret", said.seed_secret, plan.seed_secret),
            ("provenance.sequential", said.sequential, plan.sequential),
            ("agent.commit", commit, commit if planned.agent_commit is None else planned.agent_commit),
            ("provenance.sandbox", said.sandbox, said.sandbox if plan.sandbox == ANY_SANDBOX else plan.sandbox),
        ]
        return facts if self.run_url is None else [*facts, ("provenance.run_url", said.run_url, self.run_url)]

    def _time_faults(self, record: Record) -> Iterator[str]:
        try:
            started, finished, created = (
                datetime.fromisoformat(text) for text in (record.started, record.finished, self.plan.created)
            )
            for text in (*(phase.start for phase in record.phases), *(it.at for it in record.tries)):
                datetime.fromisoformat(text)
        except ValueError:
            yield "contains a time that does not exist"
            return
        # Differences: a sum can leave the calendar.
        if max(created - started, started - finished, finished - self.now) > _SLACK:
            yield f"ran from {record.started} to {record.finished}, before its plan or after now"


def read_plan_checks(
    path: Path, shards: Path | None = None, run_url: str | None = None, sources: Sources | None = None
) -> list[PlanCheck]:
    """The checks of a plan: one for a run.json, one for each run of a plan.json, whose shards are artifacts RUN-SHARD.

    sources: as in `PlanCheck.to`. Raises `UserError`.
    """
    sources = sources or Sources.installed()
    try:
        plan = read_json(path, RunPlan, remedy="correct --plan")
    except UserError:
        # Only a plan.json has runs, and its own reader explains its faults.
        if not (path.is_file() and b'"runs"' in path.read_bytes()):
            raise
        return _of_plan_file(path, shards, run_url, sources)
    if shards is None:
        return [PlanCheck.to(plan, None, run_url, sources)]
    return [PlanCheck.to(plan, read_json(shards, Shards, remedy="correct --shards"), run_url, sources)]


def _of_plan_file(path: Path, shards: Path | None, run_url: str | None, sources: Sources) -> list[PlanCheck]:
    if shards is not None:
        raise UserError("is not needed: the plan has its own", where="--shards", remedy="leave it out")
    document = read_plan_file(path)
    checks = []
    for run in document.runs:
        artifacts = {
            f"{run.run}-{shard.id}": [run.cells[index].cell for part in parts for index in part.cells]
            for shard in document.shards
            if (parts := [part for part in shard.parts if part.run == run.run])
        }
        checks.append(PlanCheck.to(run, Shards(run=run.run, artifacts=artifacts), run_url, sources))
    return checks


def _told(faults: Iterator[str]) -> list[str]:
    """All of them; a rule that breaks is one more."""
    found: list[str] = []
    try:
        for fault in faults:
            found.append(fault)
    except Exception as error:
        # Only the record can have broken a rule, and it shall not take the others with it.
        found.append(f"cannot be recomputed: {type(error).__name__}: {error}")
    return found


def _leaves(path: str) -> bool:
    return not path or path.startswith(("/", "\\")) or ".." in path.replace("\\", "/").split("/") or "\0" in path


@dataclass(frozen=True)
class Collected:
    """What became of the artifacts."""

    taken: list[Taken]
    """Sorted by cell."""
    refused: list[Refusal]
    untold: int
    """Refusals beyond those that are listed one by one."""
    missing: list[str]
    """Planned cells without a record."""

    def bundle(self, check: PlanCheck, attempt: int) -> Bundle:
        """The bundle of what was taken; raises `UserError` where that is nothing."""
        plan = check.plan
        records = [taken.record for taken in self.taken]
        return Bundle(plan.run, plan.earlier_attempts + attempt, records, datetime.fromisoformat(plan.created))


def collect_bundle(
    artifacts: Sequence[Artifact],
    check: PlanCheck,
    caps: Caps,
    progress: Callable[[str], None] = lambda line: None,
    known: Mapping[str, str] = MappingProxyType({}),
) -> Collected:
    """Read artifacts, check each record against the plan and itself, and merge what passes. No file is written.

    known: measurements of other runs and whose they are (`replays`).
    """
    refused: list[Refusal] = []
    untold = 0
    claims: dict[str, Claims] = {}
    for number, artifact in enumerate(artifacts, start=1):
        progress(f"artifact {number} of {len(artifacts)}: {printable(artifact.name, 300)}")
        faults = [*_claim(artifact, check, caps, claims), *islice(survey(artifact, caps), caps.lines + 1)]
        refused += faults[: caps.lines]
        untold += max(0, len(faults) - caps.lines)
    taken, disputed = settle(claims)
    taken, copied = without_replays(taken, known)
    taken, bulky = fitting(taken, caps)
    refused += [*disputed, *copied, *bulky]
    have = {item.record.cell for item in taken}
    missing = [cell for cell in check.cells if cell not in have]
    return Collected(sorted(taken, key=lambda item: item.record.cell), refused, untold, sorted(missing))


def _claim(artifact: Artifact, check: PlanCheck, caps: Caps, claims: dict[str, Claims]) -> list[Refusal]:
    """Enter the records of an artifact into `claims`; returns the files that were refused."""
    refused: list[Refusal] = []
    for found in read_cells(artifact, caps):
        if isinstance(found, Refusal):
            refused.append(found)
            continue
        record = check.read(found.content, artifact.name)
        if isinstance(record, str):
            refused.append(Refusal(found.where, record))
            continue
        if fault := check.against_trace(record, found.artifact):
            refused.append(Refusal(found.where, fault))
            continue
        line = line_of(record)
        digest = sha256_bytes(line)
        claim = claims.setdefault(record.cell, Claims(Taken(record, found.artifact, found.where, len(line)), digest))
        if claim.first.where != found.where:
            same = claim.again if claim.digest == digest else claim.differing
            same.append(found.where)
    return refused
