"""The folder of one run: what was asked, what is finished, and what a killed runner left behind."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from bench.cell import Cell
from bench.clock import now
from bench.errors import UserError
from bench.files import remove_tree, write_atomic
from bench.record import Digest, Instant, Name, Profile, Record, Try
from bench.schema import Model, explain

_TRY = re.compile(r"\.try(\d+)\.json$")


class PlannedCell(Model):
    """One cell as it was planned."""

    cell: str
    agent: str
    """Id, or path of an agent.yaml."""
    agent_digest: Digest
    settings: dict[str, str] = {}
    """Variables in which the agent differs from what its folder says."""
    models: dict[str, str]
    case: Name
    case_digest: Digest
    trial: int


class RunPlan(Model):
    """The content of run.json: enough to go on after a kill."""

    schema_: Literal[1] = Field(1, alias="schema")
    run: Name
    created: Instant
    suite: str
    suite_version: str
    profile: Profile
    sandbox: str
    cells: list[PlannedCell]


def new_run_name() -> str:
    """A name that sorts by time and does not repeat."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


@dataclass(frozen=True)
class RunFolder:
    """`run.json`, `cells/` (finished records), `traces/`, and `scratch/` while cells run."""

    path: Path

    @property
    def sockets(self) -> Path:
        """A short path of this run's own."""
        digest = hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"mldb-{os.getuid()}-{digest}"

    def write_plan(self, plan: RunPlan) -> None:
        write_atomic(self.path / "run.json", plan.model_dump_json(by_alias=True, indent=1).encode() + b"\n")

    def read_plan(self) -> RunPlan:
        """What was asked of this run; raises `UserError`."""
        path = self.path / "run.json"
        try:
            return RunPlan.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise UserError("no run.json", where=self.path, remedy="name the folder of a run with --resume") from None
        except OSError as error:
            raise UserError(
                f"cannot be read: {error.strerror}", where=path, remedy="name the folder of a run"
            ) from None
        except ValidationError as error:
            raise UserError(explain(error, RunPlan), where=path, remedy="start a new run") from None

    def records(self) -> list[Record]:
        """All finished records, sorted by cell; raises `UserError` for a file that is none."""
        found = []
        for path in sorted((self.path / "cells").glob("*.json")):
            if not _TRY.search(path.name):
                found.append(read_record(path))
        return sorted(found, key=lambda record: record.cell)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder against a second runner, after cleaning up after the last one."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    "another runner works on this run", where=self.path, remedy="wait for it to end"
                ) from None
            self._clean()
            self.sockets.mkdir(mode=0o700, exist_ok=True)
            if self.sockets.stat().st_uid != os.getuid():
                raise UserError("belongs to another user", where=self.sockets, remedy="set TMPDIR to a folder of yours")
            try:
                yield
            finally:
                # After an interruption cells may still be at work in there; the next runner cleans up after them.
                with contextlib.suppress(OSError):
                    self._clean()

    def _clean(self) -> None:
        remove_tree(self.path / "scratch")
        remove_tree(self.sockets)
        for stray in (self.path / "cells").glob(".*.tmp"):
            stray.unlink(missing_ok=True)

    def finished(self, cell: Cell) -> Record | None:
        """The cell's record when it has a verdict."""
        path = self.path / "cells" / f"{cell.slug}.json"
        if not path.is_file():
            return None
        record = read_record(path)
        return record if record.outcome == "graded" else None

    def set_aside(self, cell: Cell) -> list[Try]:
        """Put an ungraded record aside for another try; returns all tries the cell has had."""
        path = self.path / "cells" / f"{cell.slug}.json"
        found = {int(match[1]): it for it in path.parent.glob(f"{cell.slug}.try*") if (match := _TRY.search(it.name))}
        count = max(found, default=0)
        if path.is_file():
            count += 1
            found[count] = path.rename(path.with_name(f"{cell.slug}.try{count}.json"))
        if not found:
            return []
        # The last one knows those before it. It may be there without a record: of a runner killed in the next try.
        record = read_record(found[count])
        last = Try(outcome=record.outcome, cause=record.cause, message=record.error[:500], at=record.started)
        return [*record.tries, last]


def read_record(path: Path) -> Record:
    """The record in the file `path`; raises `UserError`."""
    try:
        return Record.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise UserError(
            explain(error, Record), where=path, remedy="remove the file; --resume runs its cell again"
        ) from None


def plan_of(run: str, suite: str, suite_version: str, profile: Profile, sandbox: str, cells: list[Cell]) -> RunPlan:
    """The plan of a new run."""
    planned = [
        PlannedCell(
            cell=cell.id,
            agent=cell.agent.folder.name if cell.agent.trusted else str(cell.agent.file),
            settings=dict(cell.agent.settings),
            trial=cell.trial,
            agent_digest=cell.agent.digest,
            models=cell.models,
            case=cell.case.id,
            case_digest=cell.case.digest,
        )
        for cell in cells
    ]
    return RunPlan(
        run=run,
        created=now(),
        suite=suite,
        suite_version=suite_version,
        profile=profile,
        sandbox=sandbox,
        cells=planned,
    )
