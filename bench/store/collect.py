"""Is this the record of a planned cell? Everything a record says of itself is held against the plan of its run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.model import Model, explain
from bench.base.text import shown
from bench.formats.plan import PlannedCell, RunPlan, public_seed
from bench.formats.record import Name, Record
from bench.store.artifacts import Artifact, Caps, Found, Refusal, read_cells, survey
from bench.store.bundle import MAX_FILE_BYTES, Bundle, line_of

_SLACK = timedelta(days=1)
"""Clocks of machines differ; nobody's differs by more."""
ANY_SANDBOX = "auto"
"""A plan may leave it to each machine; the one that does not isolate is never among the choices."""
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

    @classmethod
    def to(cls, plan: RunPlan, shards: Shards | None = None, run_url: str | None = None) -> PlanCheck:
        """Admission to the run of `plan`; `run_url`: what every record must name, None for anything.

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
        return cls(plan, cells, frozen, run_url, datetime.now(UTC))

    @property
    def artifacts(self) -> frozenset[str]:
        """The names of the artifacts that may bring cells, as far as they are known."""
        return frozenset().union(*(self.owners or {}).values())

    def read(self, content: bytes, artifact: str) -> Record | str:
        """The record in an untrusted file of `artifact`, or why it is not taken."""
        try:
            record = Record.model_validate_json(content)
        except ValidationError as error:
            return f"is no record of this schema: {explain(error, Record)}"
        fault = next(self._faults(record, artifact), None)
        if fault is not None:
            return fault
        try:
            again = Record.model_validate_json(line_of(record))
        except UserError as error:
            return str(error)
        return record if again == record else "holds a value that JSON cannot carry"

    def _faults(self, record: Record, artifact: str) -> Iterator[str]:
        if record.provenance.run != self.plan.run:
            yield f"is of run {record.provenance.run}, not of {self.plan.run}"
        planned = self.cells.get(record.cell)
        if planned is None:
            yield f"claims the cell {record.cell}, which the plan does not have"
            return
        if self.owners is not None and artifact not in self.owners.get(record.cell, ()):
            yield f"claims the cell {record.cell}, which another job was given"
        yield from (
            f"says that its {name} is {found!r}, planned is {wanted!r}"
            for name, found, wanted in self._identity(record, planned)
            if found != wanted
        )
        if self.plan.sandbox == ANY_SANDBOX and record.provenance.sandbox == "process":
            yield "ran in a sandbox that does not isolate, which was not planned"
        if record.provenance.isolated and record.provenance.sandbox == "process":
            yield "says that plain processes were isolated"
        if record.provenance.run_url and not _URL.fullmatch(record.provenance.run_url):
            yield "names a run_url that is no http address"
        if any(_leaves(item.place) or _leaves(item.name) for item in record.artifacts):
            yield "names an artifact outside of its run folder"
        yield from self._time_faults(record)

    def _identity(self, record: Record, planned: PlannedCell) -> Sequence[tuple[str, object, object]]:
        plan, said = self.plan, record.provenance
        seed = public_seed(plan.suite_version, planned.case, planned.trial)
        facts: list[tuple[str, object, object]] = [
            ("agent", record.agent.id, planned.cell.split("/")[0]),
            ("agent digest", record.agent.digest, planned.agent_digest),
            ("case", record.case.id, planned.case),
            ("case digest", record.case.digest, planned.case_digest),
            ("models", dict(record.models), dict(planned.models)),
            ("profile", record.profile, plan.profile),
            ("trial", record.trial, planned.trial),
            ("seed", record.seed, seed),
            ("suite", said.suite, plan.suite),
            ("suite version", said.suite_version, plan.suite_version),
            ("sandbox", said.sandbox, said.sandbox if plan.sandbox == ANY_SANDBOX else plan.sandbox),
        ]
        return facts if self.run_url is None else [*facts, ("run_url", said.run_url, self.run_url)]

    def _time_faults(self, record: Record) -> Iterator[str]:
        try:
            started, finished, created = (
                datetime.fromisoformat(text) for text in (record.started, record.finished, self.plan.created)
            )
            for text in (*(phase.start for phase in record.phases), *(it.at for it in record.tries)):
                datetime.fromisoformat(text)
        except ValueError:
            yield "names a time that does not exist"
            return
        if not created - _SLACK <= started <= finished + _SLACK or not finished <= self.now + _SLACK:
            yield f"ran from {record.started} to {record.finished}, before its plan or after now"


def read_plan_checks(path: Path, shards: Path | None = None, run_url: str | None = None) -> list[PlanCheck]:
    """Admission to each run of a plan: one of a run.json, all of a plan.json, whose shards are artifacts RUN-SHARD.

    Raises `UserError`.
    """
    try:
        plan = RunPlan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, remedy="correct --plan") from None
    except ValidationError as error:
        if b'"runs"' not in path.read_bytes():
            raise UserError(explain(error, RunPlan), where=path, remedy="correct --plan") from None
        return _of_plan_file(path, shards, run_url)
    if shards is None:
        return [PlanCheck.to(plan, None, run_url)]
    try:
        owners = Shards.model_validate_json(shards.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=shards, remedy="correct --shards") from None
    except ValidationError as error:
        raise UserError(explain(error, Shards), where=shards, remedy="correct --shards") from None
    return [PlanCheck.to(plan, owners, run_url)]


def _of_plan_file(path: Path, shards: Path | None, run_url: str | None) -> list[PlanCheck]:
    from bench.formats.plan import read_plan_file

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
        checks.append(PlanCheck.to(run, Shards(run=run.run, artifacts=artifacts), run_url))
    return checks


def _leaves(path: str) -> bool:
    return not path or path.startswith(("/", "\\")) or ".." in path.replace("\\", "/").split("/") or "\0" in path


@dataclass(frozen=True)
class Taken:
    """A record, and where it came from."""

    record: Record
    artifact: Artifact
    where: str
    size: int
    """Bytes of its line."""


@dataclass(frozen=True)
class Collected:
    """What became of the artifacts."""

    taken: list[Taken]
    """Sorted by cell."""
    refused: list[Refusal]
    untold: int
    """Refusals beyond those that are told one by one."""
    missing: list[str]
    """Planned cells without a record."""

    def bundle(self, check: PlanCheck, attempt: int) -> Bundle:
        """The bundle of what was taken; raises `UserError` where that is nothing."""
        plan = check.plan
        records = [taken.record for taken in self.taken]
        return Bundle(plan.run, attempt, records, datetime.fromisoformat(plan.created))


@dataclass
class _Claims:
    """What the artifacts say of one cell."""

    first: Taken
    digest: str
    again: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)


def collect_bundle(
    artifacts: Sequence[Artifact], check: PlanCheck, caps: Caps, progress: Callable[[str], None] = lambda line: None
) -> Collected:
    """Read artifacts, hold each record against the plan, and merge what is left. Nothing outside is written."""
    refused: list[Refusal] = []
    untold = 0
    claims: dict[str, _Claims] = {}
    for number, artifact in enumerate(artifacts, start=1):
        progress(f"artifact {number} of {len(artifacts)}: {shown(artifact.name)}")
        faults = [*_claim(artifact, check, caps, claims), *islice(survey(artifact, caps), caps.lines + 1)]
        refused += faults[: caps.lines]
        untold += max(0, len(faults) - caps.lines)
    taken, disputed = _settle(claims)
    taken, bulky = _fitting(taken)
    refused += [*disputed, *bulky]
    have = {item.record.cell for item in taken}
    missing = [cell for cell in check.cells if cell not in have]
    return Collected(sorted(taken, key=lambda item: item.record.cell), refused, untold, sorted(missing))


def _claim(artifact: Artifact, check: PlanCheck, caps: Caps, claims: dict[str, _Claims]) -> list[Refusal]:
    """Enter what an artifact says into `claims`; returns what of it is not worth entering."""
    refused = []
    for found in read_cells(artifact, caps):
        if isinstance(found, Refusal):
            refused.append(found)
            continue
        record = check.read(found.content, artifact.name)
        if isinstance(record, str):
            refused.append(Refusal(found.where, record))
        else:
            _enter(found, record, claims)
    return refused


def _enter(found: Found, record: Record, claims: dict[str, _Claims]) -> None:
    line = line_of(record)
    digest = sha256_bytes(line)
    held = claims.get(record.cell)
    if held is None:
        claims[record.cell] = _Claims(Taken(record, found.artifact, found.where, len(line)), digest)
    elif held.digest == digest:
        held.again.append(found.where)
    else:
        held.differing.append(found.where)


def _settle(claims: dict[str, _Claims]) -> tuple[list[Taken], list[Refusal]]:
    """One record a cell. Where artifacts contradict each other nobody can tell who lies, and none is taken."""
    taken: list[Taken] = []
    refused: list[Refusal] = []
    for cell, claim in claims.items():
        if claim.differing:
            places = [claim.first.where, *claim.again, *claim.differing]
            others = f"{len(places) - 1} more file{'s' if len(places) > 2 else ''}"
            refused += [Refusal(where, f"and {others} say different things of the cell {cell}") for where in places]
            continue
        taken.append(claim.first)
        refused += [Refusal(where, f"says again what {claim.first.where} says") for where in claim.again]
    return taken, refused


def _fitting(taken: list[Taken]) -> tuple[list[Taken], list[Refusal]]:
    """What fits into the files of the agents; the largest records go first, for they are what makes it not fit."""
    by_agent: dict[str, list[Taken]] = defaultdict(list)
    for item in taken:
        by_agent[item.record.agent.id].append(item)
    kept: list[Taken] = []
    refused: list[Refusal] = []
    for agent, items in by_agent.items():
        room = MAX_FILE_BYTES
        for item in sorted(items, key=lambda item: (item.size, item.record.cell)):
            room -= item.size
            if room >= 0:
                kept.append(item)
            else:
                refused.append(Refusal(item.where, f"makes the file of agent {agent} too large ({item.size} bytes)"))
    return kept, refused
