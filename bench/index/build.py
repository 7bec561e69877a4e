"""Bringing the index to the tip of its branch: only files that are new are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.base.arrow import table_of
from bench.base.errors import UserError
from bench.base.times import Progress
from bench.index.columns import LINE_BITS, schema
from bench.index.extract import Extracted, Source, extract, extract_in_processes
from bench.index.storage import (
    FILES,
    MIRROR,
    IndexState,
    ParquetFile,
    building,
    forget,
    load,
    merge,
    read_files,
    read_table,
    store,
    sweep,
    to_merge,
    write_table,
)
from bench.index.summaries import SUMMARIES, added, summarized
from bench.index.tally import add_tallies, decisions_table, ignored_rows, scan, tally
from bench.store import Copy, Git, GitError, init_bare, is_remote, open_copy, without_secrets

if TYPE_CHECKING:
    import duckdb

_MANY_FILES = 2_000
"""From here on several processes pay for their start."""
_MEMORY = "700MB"
# A fetch leaves one pack each time, and git gets slower with every one.
_PACKS = 50


def update(folder: Path, repository: Path | str, branch: str, progress: Progress = lambda line: None) -> IndexState:
    """The index at the tip of the branch, built or added to where it is not; raises `UserError`.

    folder: of this branch alone (`state.index_folder`). A process that is killed leaves the index as it was.
    """
    with building(folder):
        before = load(folder)
        with _copy(folder, repository, branch) as copy:
            if before is not None and before.tip == (copy.tip or ""):
                return before if before.summaries.keys() == SUMMARIES.keys() else _with_summaries(folder, before)
            try:
                return _update(_Build(folder, copy, progress), before)
            except GitError as error:
                raise UserError(without_secrets(str(error)), where=branch, remedy="is the repository whole?") from None


def rebuild(folder: Path, repository: Path | str, branch: str, progress: Progress = lambda line: None) -> IndexState:
    """The same, from nothing: for a cache that turns out to be damaged."""
    with building(folder):
        forget(folder)
    return update(folder, repository, branch, progress)


@dataclass(frozen=True)
class _Build:
    folder: Path
    copy: Copy
    progress: Progress


def _update(build: _Build, before: IndexState | None) -> IndexState:
    folder = build.folder
    sweep(folder, {*(ref.name for ref in (before.refs() if before else ())), *(before.retired if before else ())})
    build.progress("listing the files of the branch")
    known = _known_files(folder, before)
    listed = {path: entry.sha for path, entry in build.copy.files("runs").items() if path.endswith(".jsonl")}
    if any(listed.get(path) != blob for path, (blob, _) in known.items()):
        before, known = None, {}  # history was rewritten: what was read is not what is there
    first = len(known)
    new = [path for path in listed if path not in known]
    sources = [Source(number, path, listed[path]) for number, path in enumerate(sorted(new, key=_by_agent), first)]
    found = _extract(build, sources)
    old = before.parts if before else []
    parts = _compact(build, [*old, *found.parts])
    files = _write_files(folder, known, sources)
    decisions = write_table(folder, "decisions", decisions_table(build.copy.decisions()))
    build.progress("counting")
    ignored, counted, summaries = _count(build, before, parts, found.parts, decisions)
    state = IndexState(
        tip=build.copy.tip or "",
        parts=parts,
        files=files,
        decisions=decisions,
        ignored=ignored,
        tally=counted,
        summaries=summaries,
        skipped=found.skipped + (before.skipped if before else 0),
        where=(before.where if before else "") or found.where,
    )
    return store(folder, state, before)


def _extract(build: _Build, sources: list[Source]) -> Extracted:
    def told(files: int, rows: int) -> None:
        build.progress(f"reading: {files:,} of {len(sources):,} files, {rows:,} records")

    processes = min(4, len(os.sched_getaffinity(0))) if len(sources) >= _MANY_FILES else 1
    if processes > 1:
        found = extract_in_processes(build.copy.git, sources, build.folder, processes, told)
    else:
        found = extract(build.copy.git, sources, build.folder, told) if sources else Extracted()
    if not found.parts:
        # A table needs a file, if only for its columns.
        found.parts = [write_table(build.folder, "part", schema().empty_table())]
    return found


def _compact(build: _Build, parts: list[ParquetFile]) -> list[ParquetFile]:
    kept = [part for part in parts if part.rows] or parts[:1]
    merging = to_merge(kept)
    if not merging:
        return kept
    build.progress(f"merging {len(merging)} small parts")
    return [part for part in kept if part not in merging] + merge(build.folder, merging)


def _known_files(folder: Path, before: IndexState | None) -> dict[str, tuple[str, int]]:
    return {path: (blob, number) for number, (path, blob) in read_files(folder, before).items()} if before else {}


def _write_files(folder: Path, known: dict[str, tuple[str, int]], sources: list[Source]) -> ParquetFile:
    files = {**known, **{source.path: (source.blob, source.number) for source in sources}}
    rows = [{"path": path, "blob": blob, "number": number} for path, (blob, number) in files.items()]
    return write_table(folder, "files", table_of(rows, FILES))


def _count(
    build: _Build, before: IndexState | None, parts: list[ParquetFile], new: list[ParquetFile], decisions: ParquetFile
) -> tuple[ParquetFile, ParquetFile, dict[str, ParquetFile]]:
    """The rows that do not count; tally and summaries of the others, of what is new alone where only that changed."""
    folder = build.folder
    with _connected() as connection:
        ignored = ignored_rows(connection, scan(folder, parts), decisions, folder)
        written = write_table(folder, "ignored", ignored)
        where = scan(folder, [written])
        if before is None or _old_rows_changed(folder, before, ignored):
            counted = write_table(folder, "tally", tally(connection, scan(folder, parts), where))
            return written, counted, _summaries(connection, folder, parts, where, {})
        later = write_table(folder, "tally", tally(connection, scan(folder, new), where))
        both = add_tallies(connection, scan(folder, [before.tally]), scan(folder, [later]))
        known = before.summaries if before.summaries.keys() == SUMMARIES.keys() else {}
        summaries = _summaries(connection, folder, new if known else parts, where, known)
        return written, write_table(folder, "tally", both), summaries


def _summaries(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    parts: list[ParquetFile],
    ignored: str,
    known: Mapping[str, ParquetFile],
) -> dict[str, ParquetFile]:
    """Of `parts`, and of the rows of which the summaries are `known`."""
    found = {}
    for name in SUMMARIES:
        table = summarized(connection, name, scan(folder, parts), ignored)
        if name in known:
            later = write_table(folder, name, table)
            table = added(connection, name, scan(folder, [known[name]]), scan(folder, [later]))
        found[name] = write_table(folder, name, table)
    return found


def _with_summaries(folder: Path, before: IndexState) -> IndexState:
    """Of an index that was made before there were all of them."""
    with _connected() as connection:
        summaries = _summaries(connection, folder, before.parts, scan(folder, [before.ignored]), {})
    return store(folder, before.model_copy(update={"summaries": summaries}), before)


@contextmanager
def _connected() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = connect(_MEMORY)
    try:
        yield connection
    finally:
        connection.close()


def _old_rows_changed(folder: Path, before: IndexState, ignored: pa.Table) -> bool:
    first_new = before.files.rows << LINE_BITS
    then = set(read_table(folder / before.ignored.name)["id"].to_pylist())
    return then != {number for number in ignored["id"].to_pylist() if number < first_new}


def connect(memory: str) -> duckdb.DuckDBPyConnection:
    """A database in memory that asks no server for anything; raises `UserError` where DuckDB is not installed."""
    import duckdb

    connection = duckdb.connect(":memory:")
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute(f"SET memory_limit = '{memory}'")
    connection.execute(f"SET threads = {min(4, len(os.sched_getaffinity(0)))}")
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _by_agent(path: str) -> tuple[str, str]:
    """Files of one agent together: in git they differ least from each other, and in the index they lie side by side."""
    return path.rpartition("/")[2].rpartition("-")[2], path


@contextmanager
def _copy(folder: Path, repository: Path | str, branch: str) -> Iterator[Copy]:
    """The branch on this machine; one behind a URL is kept beside the index, and only what is new is fetched."""
    if not is_remote(repository):
        with open_copy(repository, branch) as copy:
            yield copy
        return
    mirror, ref = folder / MIRROR, f"refs/heads/{branch}"
    git = Git(mirror, transfers=True)
    try:
        if not (mirror / "HEAD").is_file():
            init_bare(mirror, branch)
        git.run("config", "remote.origin.url", str(repository))
        if any(line.split("\t")[-1] == ref for line in git.text("ls-remote", "origin", ref).splitlines()):
            git.run("fetch", "--quiet", "--no-tags", "--depth=1", "origin", f"+{ref}:{ref}")
            if len(list((mirror / "objects" / "pack").glob("*.pack"))) > _PACKS:
                git.run("repack", "-q", "-d", "--geometric=2")
    except GitError as error:
        message, where = without_secrets(error.message), without_secrets(str(repository))
        raise UserError(message, where=where, remedy="check the address and the access") from None
    yield Copy(git, git.commit_of(ref))
