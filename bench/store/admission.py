"""Is this the record of a planned cell? Everything a record says of itself is held against the plan of its run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from bench.datacache import public_seed
from bench.errors import UserError
from bench.record import Name, Record
from bench.rundir import PlannedCell, RunPlan
from bench.schema import Model, explain
from bench.store.bundle import line_of

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
class Admission:
    """What a record must agree with."""

    plan: RunPlan
    cells: Mapping[str, PlannedCell]
    owners: Mapping[str, frozenset[str]] | None
    """Artifacts by cell; None: any may bring any cell of the plan."""
    run_url: str | None
    now: datetime

    @classmethod
    def to(cls, plan: RunPlan, shards: Shards | None = None, run_url: str | None = None) -> Admission:
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


def read_admissions(path: Path, shards: Path | None = None, run_url: str | None = None) -> list[Admission]:
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
        return [Admission.to(plan, None, run_url)]
    try:
        owners = Shards.model_validate_json(shards.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=shards, remedy="correct --shards") from None
    except ValidationError as error:
        raise UserError(explain(error, Shards), where=shards, remedy="correct --shards") from None
    return [Admission.to(plan, owners, run_url)]


def _of_plan_file(path: Path, shards: Path | None, run_url: str | None) -> list[Admission]:
    from bench.plan.document import read_plan_file

    if shards is not None:
        raise UserError("is not needed: the plan has its own", where="--shards", remedy="leave it out")
    document = read_plan_file(path)
    admissions = []
    for run in document.runs:
        artifacts = {
            f"{run.run}-{shard.id}": [run.cells[index].cell for part in parts for index in part.cells]
            for shard in document.shards
            if (parts := [part for part in shard.parts if part.run == run.run])
        }
        admissions.append(Admission.to(run, Shards(run=run.run, artifacts=artifacts), run_url))
    return admissions


def _leaves(path: str) -> bool:
    return not path or path.startswith(("/", "\\")) or ".." in path.replace("\\", "/").split("/") or "\0" in path
