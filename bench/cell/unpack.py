"""Archives of published data: only folders and plain files within the target, and no more than was declared."""

from __future__ import annotations

import gzip
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from bench.base.errors import UserError
from bench.formats.case_sources import DataSource
from bench.guest.trees import remove_tree

_MOST_ENTRIES = 5_000_000
_CHUNK = 1 << 20


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def unpack(source: DataSource, archive: Path, place: Path) -> None:
    """Have the folder `place` with what the file holds, or with the file itself; raises `UserError`.

    It appears whole: a process that is killed leaves another name, which the next one clears.
    """
    fresh = place.with_name(f"{place.name}.new")
    remove_tree(fresh)
    fresh.mkdir(parents=True)
    try:
        if source.unpack == "no":
            os.link(archive, fresh / source.file_name)
        else:
            _write_entries(source, archive, fresh)
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        remove_tree(fresh)
        raise UserError(f"cannot be unpacked: {error}", where=archive, remedy="look at `unpack` in case.yaml") from None
    except BaseException:
        remove_tree(fresh)
        raise
    os.replace(fresh, place)


def _write_entries(source: DataSource, archive: Path, target: Path) -> None:
    room = source.unpacked_bytes
    for number, (name, content) in enumerate(_entries(source, archive)):
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or name.startswith("/") or "\0" in name or number >= _MOST_ENTRIES:
            fault = f"holds over {_MOST_ENTRIES:,} files, or a name that leads out of it: {name[:200]!r}"
            raise UserError(fault, where=archive, remedy="use another source")
        path = target.joinpath(*parts)
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            while piece := content.read(_CHUNK):
                room -= len(piece)
                if room < 0:
                    fault = f"holds more than {source.unpacked_bytes:,} bytes"
                    raise UserError(fault, where=archive, remedy="correct `unpacked_mb` in case.yaml")
                file.write(piece)


def _entries(source: DataSource, archive: Path) -> Iterator[tuple[str, _Readable | None]]:
    """Names and contents, None for a folder; raises `UserError` for what is neither folder nor file."""
    if source.unpack == "gzip":
        with gzip.open(archive) as stream:
            yield source.file_name.removesuffix(".gz"), stream
    elif source.unpack == "zip":
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                with opened.open(info) as stream:
                    yield info.filename, None if info.is_dir() else stream
    else:
        with tarfile.open(archive) as opened_tar:
            for member in opened_tar:
                if not (member.isdir() or member.isreg()):
                    raise UserError(f"{member.name[:200]!r} is not a file", where=archive, remedy="use another source")
                yield member.name, opened_tar.extractfile(member)
