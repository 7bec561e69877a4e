"""Records as they are stored, for the few rows of an index that are shown whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from bench.base.errors import UserError
from bench.formats.older_records import read_line
from bench.formats.record import Record
from bench.index.columns import LINE_BITS
from bench.index.storage import read_files
from bench.store import Copy, Git, GitError

if TYPE_CHECKING:
    from bench.index.query import Index


def records_at(index: Index, ids: Collection[int]) -> Mapping[int, Record]:
    """The whole records of the rows with these ids: each file that holds some is read once. Raises `UserError`."""
    wanted: dict[int, list[int]] = defaultdict(list)
    for number in sorted(ids):
        wanted[number >> LINE_BITS].append(number)
    files = {file: it for file, it in read_files(index.folder, index.state).items() if file in wanted}
    found: dict[int, Record] = {}
    contents = Copy(Git(index.local), index.state.tip).read([blob for _, blob in files.values()])
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
