"""Stored results as a command needs them: through the index where it is installed, else line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.record import Record
    from bench.index import Index
    from bench.stats import Filters, Installed, NightPoints, Results, Stored, Suite

    ResultsOf = Callable[[Suite | None], Results]


_BESIDE = 20
"""Run folders in which earlier results are looked for."""


@contextmanager
def stored_records(repository: str, branch: str) -> Iterator[Stored]:
    """A function that finds records by reference on one commit of a results branch.

    It raises `UserError` when the command line did not name a repository.
    """
    from bench.index import stored_records as from_index

    with ExitStack() as stack:
        found: list[Stored] = []

        def opened(reference: str) -> Stored:
            if not repository:
                raise UserError(
                    "is neither a run folder nor a file here",
                    where=reference,
                    remedy="correct its path, or name with --results the repository that holds it",
                )
            index = stack.enter_context(indexed(repository, branch))
            if index is not None:
                return partial(from_index, index)
            records = read_records(repository, branch)
            return lambda reference, filters: records

        # Not before a reference asks for it: those of folders and files need no repository.
        def find(reference: str, filters: Filters) -> Sequence[Record]:
            if not found:
                found.append(opened(reference))
            return found[0](reference, filters)

        yield find


@dataclass(frozen=True)
class StoredResults:
    """Stored results, measured against a suite by calling it."""

    measured: ResultsOf
    branch: str
    tip: str
    """The commit at which the branch was read; empty for the records of a run folder, or of no branch yet."""
    local: Path | None = None
    """The run folder, or the repository on this machine that holds the branch."""
    notes: Sequence[str] = ()
    """What was said of the results when they were opened."""

    def __call__(self, suite: Suite | None) -> Results:
        return self.measured(suite)


@contextmanager
def stored_results(
    source: str,
    branch: str,
    *,
    folders: DataFolders | None = None,
    withdrawn: bool = False,
    may_be_new: bool = False,
) -> Iterator[StoredResults]:
    """The source of tables and pages: the index of a results branch, or the records of a run folder.

    folders: where the cases are of which one version counts.
    may_be_new: a branch that does not exist has no results yet; else it is a mistake.
    """
    from bench.formats.run_folder import RunFolder
    from bench.index import IndexedResults
    from bench.stats import RecordResults
    from bench.store import open_copy, require_branch

    installed = installed_digests(folders)
    with ExitStack() as stack:
        index = None if withdrawn else stack.enter_context(indexed(source, branch, may_be_new=may_be_new))
        if index is not None:
            notes = skipped_notes(index)
            yield StoredResults(
                partial(IndexedResults, index, installed=installed), branch, index.state.tip, index.local, notes
            )
        elif is_run_folder(source):
            results = partial(RecordResults, RunFolder(Path(source)).records(), installed=installed)
            yield StoredResults(results, branch, "", Path(source))
        else:
            require_source(source)
            copy = stack.enter_context(open_copy(source, branch))
            # Records and tip of one copy, so that the page names what it was made from.
            require_branch(source, branch, copy.tip, may_be_new=may_be_new)
            records, tip = list(copy.records(withdrawn=withdrawn)), copy.tip or ""
            yield StoredResults(partial(RecordResults, records, installed=installed), branch, tip, copy.git.folder)


def stored_nights(source: str, branch: str, measure: str, runs: str, nights: int) -> NightPoints:
    """What trends are made of, from a results branch or a run folder."""
    from bench.index import nightly_points
    from bench.stats import MEASURES, case_nights

    with indexed(source, branch) as index:
        if index is None:
            return case_nights(read_records(source, branch), MEASURES[measure], runs)
        return nightly_points(index, measure, runs, nights)


@contextmanager
def indexed(source: str, branch: str, *, quiet: bool = False, may_be_new: bool = False) -> Iterator[Index | None]:
    """The index of a branch; None where `source` is a run folder, or where the index cannot be made here."""
    from bench.cli.console import Ticker
    from bench.index import is_available, open_index
    from bench.store import require_branch

    if is_run_folder(source) or not is_available():
        yield None
        return
    require_source(source)
    with Ticker(quiet) as ticker, open_index(source, branch, progress=ticker) as index:
        require_branch(source, branch, index.state.tip, may_be_new=may_be_new)
        tell_skipped(index)
        yield index


def installed_digests(folders: DataFolders | None = None) -> Installed:
    """Digests of the cases as they are here, each read where it is asked for."""
    from bench.base.install import find_data_folders
    from bench.formats.case import case_folders, load_case

    root = (folders or find_data_folders()).cases

    @cache
    def digest(case: str) -> str:
        folder = case_folders(root).get(case)
        return load_case(folder).digest if folder is not None else ""

    return digest


def counted_cases(suite: str, folders: DataFolders) -> Suite:
    """What counts of a suite: its cases, each in the profiles that it has, as on the pages."""
    from bench.formats.case import load_cases
    from bench.formats.suite import load_suite
    from bench.stats import suite_of

    cases = load_cases(folders.cases, load_suite(folders.cases, suite).cases)
    return suite_of((case.id, case.profiles) for case in cases)


def read_records(source: str, branch: str, *, withdrawn: bool = False) -> list[Record]:
    """All records of a run folder, or those of a results branch that count; raises `UserError`.

    withdrawn: those too that the ledger of decisions has withdrawn or replaced.
    """
    from bench.formats.run_folder import RunFolder
    from bench.store import open_copy, require_branch

    if is_run_folder(source):
        return RunFolder(Path(source)).records()
    require_source(source)
    with open_copy(source, branch) as copy:
        require_branch(source, branch, copy.tip)
        return list(copy.records(withdrawn=withdrawn))


def earlier_records(folder: Path, agents: Sequence[str], repository: str, branch: str) -> list[Record]:
    """What is known of `agents` besides the run in `folder`: of a results branch, else of the newest runs beside it."""
    from bench.formats.run_folder import RunFolder
    from bench.stats import Filters
    from bench.store import is_remote, open_copy

    found: list[Record] = []
    if not repository:
        beside = [it.parent for it in folder.absolute().parent.glob("*/run.json") if it.parent.name != folder.name]
        for path in sorted(beside, key=lambda it: it.stat().st_mtime)[-_BESIDE:]:
            # A damaged folder tells nothing here; `results show` says what is wrong with it.
            with suppress(UserError):
                found += RunFolder(path).records()
        return found
    if not is_remote(repository) and not (Path(repository).is_dir() and any(Path(repository).iterdir())):
        return found
    with indexed(repository, branch, quiet=True, may_be_new=True) as index:
        if index is None:
            with open_copy(repository, branch) as copy:
                return list(copy.records(withdrawn=False))
        from bench.index import stored_records as from_index

        for agent in agents if index.state.tip else ():
            with suppress(UserError):
                found += from_index(index, f"agent:{agent}", Filters())
    return found


def is_run_folder(source: str) -> bool:
    return (Path(source) / "run.json").is_file()


def require_source(source: str) -> None:
    """Raise `UserError` when `source` is neither on this machine nor a URL."""
    from bench.store import is_remote

    if not is_remote(source) and not Path(source).exists():
        raise UserError(
            "no such repository or run folder",
            where=source,
            remedy="name the repository of `run --results`, or a run folder below --out",
        )


def tell_skipped(index: Index) -> None:
    """Print on standard error how many lines of the branch the index left out."""
    for note in skipped_notes(index):
        click.echo(note, err=True)


def skipped_notes(index: Index) -> list[str]:
    if not index.state.skipped:
        return []
    return [
        f"note: {index.state.skipped} lines are not records and are left out; the first is {index.state.where}"
        " (`results verify` names all)"
    ]
