"""The stored lines of some rows: the only way in which an answer of the index reads the branch itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from bench.base.errors import UserError
from bench.formats.older_records import read_line
from bench.formats.record import Record
from bench.index.columns import LINE_BITS
from bench.index.storage import MIRROR
from bench.store import Copy, Git, GitError, git_folder, is_remote

if TYPE_CHECKING:
    from bench.index.query import Index


def records_at(index: Index, ids: Collection[int]) -> Mapping[int, Record]:
    """The whole records of the rows with these ids: each file that holds some is read once. Raises `UserError`."""
    wanted: dict[int, list[int]] = defaultdict(list)
    for number in sorted(ids):
        wanted[number >> LINE_BITS].append(number)
    files = _files(index, wanted)
    found: dict[int, Record] = {}
    contents = Copy(_git(index), index.state.tip).read([blob for _, blob in files.values()])
    try:
        for (file, (path, _)), content in zip(files.items(), contents, strict=True):
            lines = content.split(b"\n")
            for number in wanted[file]:
                line = number - (file << LINE_BITS)
                found[number] = read_line(lines[line - 1], f"{path}:{line}")
    except GitError as error:
        raise UserError(str(error), where=index.repository, remedy="is the repository whole?") from None
    finally:
        contents.close()
    return found


def _files(index: Index, wanted: Collection[int]) -> dict[int, tuple[str, str]]:
    """Path and blob by the number of the file."""
    columns = pq.read_table(index.folder / index.state.files.name).to_pydict()
    rows = zip(columns["number"], columns["path"], columns["blob"], strict=True)
    return {number: (path, blob) for number, path, blob in sorted(rows) if number in wanted}


def _git(index: Index) -> Git:
    mirrored = is_remote(index.repository)
    return Git(index.folder / MIRROR if mirrored else git_folder(Path(index.repository)))
