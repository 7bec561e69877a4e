"""The folder of one run: what was asked, what is finished, and what a killed runner left behind."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import Checksums, held_folder, lock, sha256_bytes, temporary_path, write_atomic
from bench.base.model import parse_json, read_json
from bench.formats.plan import Cell, RunPlan
from bench.formats.record import Record, Try
from bench.guest.trees import remove_tree

_TRY = re.compile(r"\.try(\d+)\.json$")
PLAN = "run.json"
COPY = "run.json.copy"
SECRET = ".seed-secret.key"
"""The drawn secret of the seeds, for its owner alone. The name is hidden, so that actions/upload-artifact leaves it
out, and that of a key, so that it never passes for a part of an agent."""
_REFUSALS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make it writable"),
    errno.EIO: "check the disk",
}


def new_run_name() -> str:
    """A name that sorts by time and does not repeat."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class RunFolder:
    """`run.json`, `cells/` (finished records), `traces/`, and `scratch/` while cells run."""

    path: Path

    @property
    def sockets(self) -> Path:
        """A short path of this run's own."""
        return temporary_path("run", hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:12])

    def write_plan(self, plan: RunPlan, secret: bytes = b"") -> None:
        """Begin a run here; raises `UserError` when there is one. `secret`: of the seeds, where it was drawn."""
        data = plan.model_dump_json(by_alias=True, indent=1).encode() + b"\n"
        with writing(self.path, then="start again"), self._lock():
            if any((self.path / name).exists() for name in (PLAN, COPY)):
                remedy = "go on with --resume, or choose another --name"
                raise UserError("holds a run already", where=self.path, remedy=remedy)
            if secret:
                write_atomic(self.path / SECRET, secret + b"\n", 0o600)
            Checksums(self.path).add(PLAN, data)
            # Twice: without its plan, nothing of a run could go on. The copy last: a run begins with run.json.
            write_atomic(self.path / PLAN, data)
            write_atomic(self.path / COPY, data)

    def read_plan(self) -> RunPlan:
        """What was asked of this run, from the copy where run.json has been damaged; raises `UserError`."""
        try:
            return self.plan_in(PLAN)
        except UserError:
            with contextlib.suppress(UserError):
                return self.plan_in(COPY)
            raise

    def plan_in(self, name: str) -> RunPlan:
        """The plan in one of the two files that hold it; raises `UserError`."""
        path = self.path / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise UserError("no run.json", where=self.path, remedy=self._meant()) from None
        except OSError as error:
            fault = f"cannot be read: {error.strerror}"
            raise UserError(fault, where=path, remedy="name the folder of a run") from None
        known = Checksums(self.path).known().get(PLAN)
        if known is not None and sha256_bytes(data) not in known:
            raise UserError("does not match its checksum in SHA256SUMS", where=path, remedy="start a new run")
        return parse_json(data, RunPlan, where=path, remedy="start a new run")

    def _meant(self) -> str:
        """The run that may have been meant: the newest one in this folder, where it is a folder of runs."""
        below = sorted(it.parent for it in self.path.glob("*/run.json"))
        return f"did you mean {below[-1]}?" if below else "name the folder of a run, which holds one"

    def records(self) -> list[Record]:
        """All finished records, sorted by cell; raises `UserError` for a file that is not one."""
        found = [read_record(path) for path in self.record_files() if not _TRY.search(path.name)]
        return sorted(found, key=lambda record: record.cell)

    @contextlib.contextmanager
    def locked(self, end_orphans: Callable[[Sequence[Path]], None]) -> Iterator[None]:
        """Hold the folder against a second runner, after cleaning up after the last one.

        end_orphans: ends what sandboxes of a killed runner left behind in these folders.
        """
        with contextlib.ExitStack() as stack:
            with writing(self.path):
                stack.enter_context(self._lock())
                self._clean(end_orphans)
            with writing(self.sockets.parent):
                stack.enter_context(held_folder(self.sockets))
            try:
                yield
            finally:
                # After an interruption cells may still be at work in there; the next runner cleans up after them.
                with contextlib.suppress(OSError):
                    self._clean(end_orphans)

    def _lock(self) -> contextlib.AbstractContextManager[int]:
        return lock(self.path / "lock", patience_s=0, busy="another runner works on this run")

    def _clean(self, end_orphans: Callable[[Sequence[Path]], None]) -> None:
        end_orphans((self.path.resolve(), self.sockets))
        remove_tree(self.path / "scratch")
        for folder in (self.path, self.path / "cells"):
            for stray in folder.glob(".*.tmp"):
                stray.unlink(missing_ok=True)

    def record_files(self) -> list[Path]:
        """Records and earlier tries, sorted by name."""
        return sorted((self.path / "cells").glob("*.json"))

    def keep(self, slug: str, data: bytes) -> None:
        """Store the record `data` of the cell `slug`, whole or not at all; raises `UserError` where it cannot be."""
        name = f"cells/{slug}.json"
        with writing(self.path):
            Checksums(self.path).add(name, data)
            write_atomic(self.path / name, data)

    def finished(self, cell: Cell) -> Record | None:
        """The cell's record when it has a verdict."""
        path = self.path / "cells" / f"{cell.slug}.json"
        record = read_record(path) if path.is_file() else None
        return record if record is not None and record.outcome == "graded" else None

    def tries(self) -> Iterator[Record]:
        """What each try of a cell has left, those without a verdict among them; damaged files are passed over."""
        for path in self.record_files():
            with contextlib.suppress(UserError):
                yield read_record(path)

    def set_aside(self, cell: Cell) -> list[Try]:
        """Put an ungraded record aside for another try; returns all tries the cell has had."""
        path = self.path / "cells" / f"{cell.slug}.json"
        found = {int(match[1]): it for it in path.parent.glob(f"{cell.slug}.try*") if (match := _TRY.search(it.name))}
        count = max(found, default=0)
        if path.is_file():
            count += 1
            with writing(self.path):
                found[count] = path.rename(path.with_name(f"{cell.slug}.try{count}.json"))
        if not found:
            return []
        # The last one lists those before it. It may be there without a record: a runner was killed in the next try.
        record = read_record(found[count])
        last = Try(
            outcome=record.outcome, cause=record.cause, message=record.error[:500], at=record.started, resumed=True
        )
        return [*record.tries, last]


@contextlib.contextmanager
def writing(folder: Path, then: str = "go on with --resume") -> Iterator[None]:
    """Turn a full, read-only or broken disk below `folder` into a `UserError`; what is finished there stays valid."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        remedy = f"{_REFUSALS[error.errno]}, then {then}"
        raise UserError(f"cannot be written: {error.strerror}", where=folder, remedy=remedy) from error


def read_record(path: Path) -> Record:
    """The record in the file `path`; raises `UserError`."""
    return read_json(path, Record, remedy="--resume puts it aside and runs its cell again")
