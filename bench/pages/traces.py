"""Where traces of cells are, and which of them a site publishes: failures first, the newest first, within a budget."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.base.errors import UserError
from bench.base.files import sha256_bytes, temporary_folder
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.pages.cell_trace import READ
from bench.store import TraceReader, unpack

if TYPE_CHECKING:
    from bench.pages.entries import Entry

MOST_BYTES = 20_000_000
"""Of all traces that a site publishes, as written; the others are named with the place where they are kept."""
_LARGEST = 24_000_000
"""Bytes of a file that is read at all."""
_PLACE = re.compile(r"traces/[^/]+/[a-z.]+")


@dataclass(frozen=True)
class Kept:
    """What was kept of one cell, before it is read."""

    digest: str
    size: int
    """Bytes before compression."""
    address: str
    """On the web; empty where it has none."""
    opened: Callable[[], AbstractContextManager[Path]] = field(repr=False, compare=False)
    """The folder of the files; raises `UserError`."""


class TraceSource(Protocol):
    """Where traces are."""

    def kept(self, record: Record) -> Kept | None:
        """None: nothing was kept of this cell."""


class FolderTraces:
    """The traces of runs of this machine; `folder_of`: the folder of a run by its name, which may not exist."""

    def __init__(self, folder_of: Callable[[str], Path]) -> None:
        self._folder_of = folder_of
        self._records: dict[Path, dict[str, Record]] = {}

    def kept(self, record: Record) -> Kept | None:
        folder = self._folder_of(record.provenance.run)
        if not record.artifacts:
            record = self._whole(folder, record)
        found = {it.name: it for it in record.artifacts if it.name in READ and _PLACE.fullmatch(it.place)}
        if not found or not all((folder / it.place).is_file() for it in found.values()):
            return None
        named = "".join(f"{name} {it.digest}\n" for name, it in sorted(found.items()))
        parent = (folder / next(iter(found.values())).place).parent
        size = sum(it.size for it in found.values())
        return Kept(hashlib.sha256(named.encode()).hexdigest(), size, "", lambda: _checked(parent, record))

    def _whole(self, folder: Path, record: Record) -> Record:
        """The record as its run has it: on a branch it does not name its files."""
        if folder not in self._records:
            found = RunFolder(folder).records() if (folder / "run.json").is_file() else []
            self._records[folder] = {it.cell: it for it in found}
        own = self._records[folder].get(record.cell)
        same = own is not None and own.model_copy(update={"artifacts": []}) == record
        return own if own is not None and same else record


class BranchTraces:
    """The traces that the manifests of a results branch name."""

    def __init__(self, reader: TraceReader) -> None:
        self._reader = reader

    def kept(self, record: Record) -> Kept | None:
        found = [it for it in self._reader.of_run(record.provenance.run) if it.cell == record.cell]
        if len(found) != 1:
            return None  # of several attempts at a cell, nothing tells which one a record is of
        stored = found[0]

        @contextmanager
        def opened() -> Iterator[Path]:
            with temporary_folder("trace") as folder:
                unpack(self._reader.read(stored), folder / "cell")
                yield folder / "cell"

        web = stored.place if stored.place.startswith("https://") else ""
        return Kept(stored.digest, stored.size, web, opened)


@contextmanager
def _checked(folder: Path, record: Record) -> Iterator[Path]:
    """The folder, once its files are seen to be those that the record names; raises `UserError`."""
    digests = {it.name: it.digest for it in record.artifacts}
    for name in READ:
        path = folder / name
        if path.is_file() and (
            path.stat().st_size > _LARGEST or sha256_bytes(path.read_bytes()) != digests.get(name, "")
        ):
            raise UserError("is not the file that the record names", where=name, remedy="the page says so")
    yield folder


@dataclass(frozen=True)
class TraceState:
    """What the page of a cell says of its trace."""

    page: str = ""
    """Address of the published trace; empty: it is not published."""
    digest: str = ""
    """Empty: nothing was kept."""
    size: int = 0
    address: str = ""
    """Where the archive lies on the web."""
    fault: str = ""
    """Why it cannot be shown."""


def trace_page(cell: str) -> str:
    """`cell`: the address of the cell's page."""
    return f"traces/{cell.removeprefix('runs/')}"


def wanted_traces(entries: Iterable[Entry], source: TraceSource | None) -> list[tuple[Entry, Kept]]:
    """Those of which something was kept, in the order in which they are published."""
    if source is None:
        return []
    failed = [entry for entry in entries if not entry.record.success]
    rest = [entry for entry in entries if entry.record.success]
    found: list[tuple[Entry, Kept]] = []
    for group in (failed, rest):
        found += [(entry, kept) for entry in group if (kept := source.kept(entry.record)) is not None]
    return found
