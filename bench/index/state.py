"""What the index says of itself: one small file, replaced at once and last; a killed build leaves the old one."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field, ValidationError

from bench.errors import UserError
from bench.files import write_atomic
from bench.index.columns import INDEX_SCHEMA
from bench.index.parts import PartFile
from bench.record import RECORD_SCHEMA
from bench.schema import Model
from bench.store.place import git_folder, is_remote

_NAME = "state.json"
_LINGER_S = 3600.0
"""How long a replaced file stays for those who still read it."""


class FileRef(Model):
    """A file of the index."""

    name: str = Field(pattern=r"^[a-z]+-[0-9a-f]{16}\.parquet$")
    rows: int = Field(ge=0)
    size: int = Field(ge=0)

    @classmethod
    def of(cls, part: PartFile) -> FileRef:
        return cls(name=part.name, rows=part.rows, size=part.size)

    def part(self) -> PartFile:
        return PartFile(self.name, self.rows, self.size)


class State(Model):
    """A whole index of one commit."""

    index_schema: int = INDEX_SCHEMA
    record_schema: int = RECORD_SCHEMA
    tip: str
    parts: list[FileRef]
    files: FileRef
    """Path, blob and number of every file that was read."""
    decisions: FileRef
    ignored: FileRef
    """Ids of the rows that do not count, with the reason."""
    tally: FileRef
    """Counts and sums of the rows that count, by agent, model, case and their versions."""
    skipped: int = 0
    """Lines that are no records."""
    where: str = ""
    """The first of them."""
    retired: dict[str, float] = {}
    """Files of earlier states, and since when (Unix seconds) they are not needed."""

    def refs(self) -> list[FileRef]:
        return [*self.parts, self.files, self.decisions, self.ignored, self.tally]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


def index_folder(cache: Path, repository: Path | str, branch: str) -> Path:
    """Where the index of a branch is kept; raises `UserError` where there is no repository."""
    place = str(repository) if is_remote(repository) else str(git_folder(Path(repository)))
    return cache / "index" / hashlib.sha256(f"{place}\0{branch}".encode()).hexdigest()[:24]


def load(folder: Path) -> State | None:
    """The state of the index; None where there is none that is whole and of this version."""
    try:
        state = State.model_validate_json((folder / _NAME).read_bytes())
        whole = all((folder / ref.name).stat().st_size == ref.size for ref in state.refs())
    except (OSError, ValidationError):
        return None
    current = (state.index_schema, state.record_schema) == (INDEX_SCHEMA, RECORD_SCHEMA)
    return state if whole and current else None


def store(folder: Path, state: State, before: State | None) -> State:
    """Make `state` the index, and remove what neither it nor a reader of a moment ago needs."""
    now = time.time()
    needed = {ref.name for ref in state.refs()}
    retired = {**(before.retired if before else {}), **{ref.name: now for ref in (before.refs() if before else ())}}
    kept = {name: since for name, since in retired.items() if name not in needed and now - since < _LINGER_S}
    stored = state.model_copy(update={"retired": kept})
    write_atomic(folder / _NAME, stored.model_dump_json(indent=1).encode())
    sweep(folder, needed | kept.keys())
    return stored


def sweep(folder: Path, needed: set[str]) -> None:
    """Remove the files of builds that were killed."""
    for path in folder.glob("*.parquet"):
        if path.name not in needed:
            path.unlink(missing_ok=True)


def forget(folder: Path) -> None:
    """No state: the next update makes the index anew."""
    with contextlib.suppress(FileNotFoundError):
        (folder / _NAME).unlink()


@contextmanager
def building(folder: Path, patience_s: float = 900.0) -> Iterator[None]:
    """Only one process at a time builds; the others wait. The lock is gone with its process, however that ends."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience_s
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UserError("is being built by another process", where=folder, remedy="wait for it") from None
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)
