"""A run that a command names: its records, and what was kept of its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError

if TYPE_CHECKING:
    from bench.formats.record import Record

LOG = "agent.log"
LEDGER = "calls.jsonl"
_MOST_NAMED = 5


@dataclass(frozen=True)
class RunSource:
    """A run, in a folder of this machine or stored on a branch."""

    run: str
    repository: str
    branch: str
    attempt: int

    @property
    def folder(self) -> Path | None:
        return Path(self.run) if not self.repository and (Path(self.run) / "run.json").is_file() else None

    @property
    def command(self) -> str:
        """How the run is named in a command."""
        stored = f" --results {self.repository}" if self.repository else ""
        return f"{self.run}{stored}"

    def records(self) -> list[Record]:
        """Raises `UserError` where there is no such run."""
        from bench.cli.stored import read_records, require_source

        if self.folder is not None:
            return read_records(self.run, self.branch)
        if not self.repository:
            require_source(self.run)
            remedy = "name a run folder below --out, or say `RUN --results REPOSITORY`"
            raise UserError("is not a run folder", where=self.run, remedy=remedy)
        found = read_records(self.repository, self.branch)
        if not (own := [record for record in found if record.provenance.run == self.run]):
            runs = ", ".join(sorted({record.provenance.run for record in found})[-_MOST_NAMED:]) or "none"
            raise UserError(f"has no run {self.run}", where=self.repository, remedy=f"name one of its runs: {runs}")
        return own

    @contextmanager
    def trace(self, cell: str) -> Iterator[Path | None]:
        """The folder of what was kept of a cell; None where nothing was."""
        from bench.base.files import temporary_folder
        from bench.formats.plan import slug_of
        from bench.store import open_stored_traces, unpack

        if self.folder is not None:
            kept = self.folder / "traces" / slug_of(cell)
            yield kept if kept.is_dir() else None
            return
        with ExitStack() as stack:
            try:
                stored = stack.enter_context(open_stored_traces(self.repository, self.branch, self.run, self.attempt))
                wanted = [trace for trace in stored.traces if trace.cell == cell]
                place = stack.enter_context(temporary_folder("trace")) / "cell"
                if wanted:
                    unpack(stored.read(wanted[0], None), place)
            except UserError as error:
                # A record explains much without its trace.
                click.echo(f"note: no trace: {error}", err=True)
                wanted = []
            yield place if wanted else None


def matching(records: Sequence[Record], cell: str, source: RunSource) -> list[Record]:
    found = [record for record in records if record.cell == cell] or [it for it in records if cell in it.cell]
    if found:
        return found
    names = ", ".join(record.cell for record in records[:_MOST_NAMED])
    raise UserError(f"no finished cell has {cell!r} in its id", where=source.run, remedy=f"choose from: {names}")


@contextmanager
def open_ledger(source: RunSource, cell: str) -> Iterator[Path]:
    """The calls.jsonl of the cell; raises `UserError` when none or several match."""
    if Path(source.run).is_file():
        yield Path(source.run)
        return
    if source.folder is not None:
        yield _ledger_below(source.folder, cell)
        return
    if not source.repository:
        # A folder of one cell, such as `results traces --out` makes.
        if Path(source.run).is_dir():
            yield _ledger_below(Path(source.run), cell)
            return
        source.records()
    found = matching(source.records(), cell, source)
    if len(found) > 1:
        raise _several([record.cell for record in found], source.run)
    with source.trace(found[0].cell) as folder:
        if folder is None or not (folder / LEDGER).is_file():
            fault = f"no model calls of {found[0].cell} are stored"
            raise UserError(fault, where=source.repository, remedy="choose a cell whose trace was kept")
        yield folder / LEDGER


def _ledger_below(folder: Path, cell: str) -> Path:
    from bench.formats.plan import slug_of

    all_of_them = sorted(folder.glob(f"**/{LEDGER}"))
    exact = [path for path in all_of_them if cell and path.parent.name == slug_of(cell)]
    found = exact or [path for path in all_of_them if cell.replace("/", "_") in path.parent.name]
    if len(found) == 1:
        return found[0]
    if found:
        raise _several([path.parent.name for path in found], str(folder))
    if not all_of_them:
        remedy = "`results explain` tells of cells without model calls, too"
        raise UserError("does not hold a cell with model calls", where=folder, remedy=remedy)
    known = ", ".join(path.parent.name for path in all_of_them[:_MOST_NAMED])
    raise UserError(f"no cell with model calls has {cell!r} in its id", where=folder, remedy=f"choose from: {known}")


def _several(names: Sequence[str], where: str) -> UserError:
    shown = ", ".join(names[:_MOST_NAMED])
    return UserError(f"{len(names)} cells match", where=where, remedy=f"name one of them: {shown}")
