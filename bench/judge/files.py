"""Reading a folder that untrusted code has written: no links, no devices, no surprises of size."""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import os
import stat
import tokenize
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from bench.base.files import walk_files
from bench.judge.json_text import strict_json
from bench.judge.tensor_files import read_safetensors
from bench.judge.values import read_npy, read_npz, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MIB = 1 << 20
_MOST_FIELDS = 2_000_000
"""Of a table: each takes up to 350 bytes, as a row of its own."""
_MOST_NODES = 2_000_000
"""Of a JSON document: each takes up to 250 bytes, as an object with one key."""
_MARK = "\ufeff"
"""The byte order mark that some programs write at the beginning of a text."""
_LONGEST_SHOWN = 200
_OF_THE_FILES = frozenset(
    {errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR}
)
"""Errors of which names, modes and kinds of an agent's files may be the reason; all others are the machine's."""


class Folder:
    """A finished folder that no process writes to. Every fault of its content is an AssertionError with a message."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, path: str) -> Path:
        """The regular file at `path`; links on the way are refused."""
        parts, name = PurePosixPath(path).parts, _named(path)
        assert parts and not path.startswith("/") and ".." not in parts, f"{name!r} is not a path inside the workspace"
        place = self.root
        for position, part in enumerate(parts):
            place = place / part
            try:
                mode = os.lstat(place).st_mode
            except (OSError, ValueError):
                raise AssertionError(f"{name} is missing") from None
            last = position == len(parts) - 1
            assert stat.S_ISREG(mode) if last else stat.S_ISDIR(mode), f"{name} is not a regular file"
        return place

    def exists(self, path: str) -> bool:
        """Whether a regular file is at `path`."""
        try:
            self.path(path)
        except AssertionError:
            return False
        return True

    def files(self, pattern: str = "**/*") -> list[str]:
        """Relative paths of the regular files that match the glob `pattern`, sorted."""
        with _blamed("a folder here cannot be listed"):
            found = [name for name, entry in walk_files(self.root) if entry.is_file(follow_symlinks=False)]
        return (
            found if pattern == "**/*" else [name for name in found if PurePosixPath(f"/{name}").match(f"/{pattern}")]
        )

    def bytes(self, path: str, max_mb: float = 100) -> bytes:
        """Content of a file of at most `max_mb` MiB, holes included: takes its size once."""
        with self._opened(path, max_mb) as (file, size):
            return file.read(size)

    def sha256(self, path: str, max_mb: float = 1000) -> str:
        """`sha256:<hex>` of a file of at most `max_mb` MiB: read in pieces, takes no memory of its size."""
        with self._opened(path, max_mb) as (file, _):
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"

    @contextlib.contextmanager
    def _opened(self, path: str, max_mb: float) -> Iterator[tuple[io.BufferedReader, int]]:
        """The file and its size, which is checked before a byte is read."""
        place = self.path(path)
        # Without O_NONBLOCK opening a pipe that took the file's place would wait for a writer.
        with _blamed(f"{path} cannot be read"):
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            assert size <= max_mb * _MIB, f"{path} is larger than {max_mb:g} MiB"
            yield file, size

    def text(self, path: str, max_mb: float = 5) -> str:
        """Content of a UTF-8 file: takes up to six times its size, as one odd character makes all of them wide.

        A byte order mark at its beginning is no content.
        """
        return self._text(path, max_mb, "utf-8-sig")

    def _text(self, path: str, max_mb: float, encoding: str) -> str:
        try:
            return self.bytes(path, max_mb).decode(encoding)
        except UnicodeDecodeError as error:
            raise AssertionError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None

    def program(self, path: str, max_mb: float = 5) -> str:
        """The text of a Python file; a failed check where Python reads another, by the encoding that it declares."""
        content, text = self.bytes(path, max_mb), self.text(path, max_mb)
        # As in Python, for which a line may end with a carriage return alone.
        lines = io.BytesIO(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        try:
            encoding, _ = tokenize.detect_encoding(lines.readline)
            same = content.decode(encoding) == text
        except (SyntaxError, LookupError, ValueError) as error:
            raise AssertionError(f"{_named(path)} cannot be read by Python: {shown(str(error))}") from None
        assert same, f"{_named(path)} is another text to Python: {encoding}"
        return text

    def json(self, path: str, max_mb: float = 5) -> Any:
        """A JSON document, read strictly: no NaN, no infinity, no duplicate keys, no byte order mark.

        At most two million values; takes up to six times its size, and half a gigabyte of Python's objects, whatever
        `max_mb` is.
        """
        text = self._text(path, max_mb, "utf-8")
        _check_nodes(path, text)
        return _json(path, text)

    def jsonl(self, path: str, max_mb: float = 20) -> list[Any]:
        """The values of a file with one JSON document a line, each read as by `json`; lines of spaces are passed over.

        At most two million values in all; takes up to six times its size, and half a gigabyte of Python's objects.
        """
        text = self._text(path, max_mb, "utf-8")
        _check_nodes(path, text, text.count("\n"))
        # Not splitlines: a text may hold U+2028 and its like as they are.
        lines = enumerate(text.split("\n"), start=1)
        return [_json(f"{path}, line {number},", line) for number, line in lines if line.strip()]

    def csv(self, path: str, max_mb: float = 20) -> list[dict[str, str]]:
        """Rows of a comma-separated table with a header; every row has exactly the header's columns.

        Names are taken as they stand, with their blanks; empty lines are passed over. At most two million fields; takes
        up to ten times its size, and 700 MB of Python's objects.
        """
        header: list[str] = []
        rows: list[dict[str, str]] = []
        fields = count = 0
        try:
            for row in csv.reader(io.StringIO(self.text(path, max_mb)), strict=True):
                fields += len(row)
                # An empty field takes a hundred times the memory of its comma.
                assert fields <= _MOST_FIELDS, f"{path} has more than {_MOST_FIELDS} fields"
                if not row:
                    continue
                count += 1
                if count == 1:
                    header = row
                    assert len(set(header)) == len(header), f"{path} names a column twice"
                    continue
                assert len(row) == len(header), (
                    f"{path}: row {count} has {len(row)} fields, the header has {len(header)}"
                )
                rows.append(dict(zip(header, row, strict=True)))
        except csv.Error as error:
            raise AssertionError(f"{path} is not a readable table: {error}") from None
        assert count, f"{path} is empty"
        return rows

    def npz(self, path: str, max_mb: float = 200) -> dict[str, NDArray[Any]]:
        """Numeric arrays of an .npz archive: file and arrays have at most `max_mb` MiB each, and it takes both."""
        content = self.bytes(path, max_mb)
        with _told_of(path):
            return read_npz(content, int(max_mb * _MIB))

    def npy(self, path: str, max_mb: float = 200) -> NDArray[Any]:
        """The numeric array of a .npy file of at most `max_mb` MiB: takes its size twice."""
        content = self.bytes(path, max_mb)
        with _told_of(path):
            return read_npy(content)

    def safetensors(self, path: str, max_mb: float = 500) -> dict[str, NDArray[Any]]:
        """Tensors of a .safetensors file as arrays: takes up to three times its size (bfloat16 becomes float32)."""
        content = self.bytes(path, max_mb)
        with _told_of(path):
            return read_safetensors(content)


def _named(path: str) -> str:
    """The path as a message can hold it: some are taken from what the agent has written."""
    return path if path.isprintable() and len(path) <= _LONGEST_SHOWN else shown(path)


@contextlib.contextmanager
def _blamed(what: str) -> Iterator[None]:
    """What the files themselves can be the reason of fails the check; an error of the machine stays what it is."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_FILES:
            raise
        raise AssertionError(f"{what}: {error.strerror}") from None


@contextlib.contextmanager
def _told_of(path: str) -> Iterator[None]:
    """A fault of what was read as bytes alone names the file."""
    try:
        yield
    except AssertionError as fault:
        raise AssertionError(f"{_named(path)}: {fault}") from None


def _check_nodes(path: str, text: str, lines: int = 0) -> None:
    """Counted before anything is parsed."""
    nodes = text.count(",") + text.count("[") + text.count("{") + lines
    assert nodes <= _MOST_NODES, f"{path} has more than {_MOST_NODES:,} values (commas and opening brackets)"


def _json(what: str, text: str) -> Any:
    # Such a mark is no part of JSON, and json.load refuses it.
    assert not text.startswith(_MARK), f"{what} begins with a byte order mark, which JSON does not have"
    try:
        return strict_json(text)
    except (ValueError, RecursionError) as error:
        raise AssertionError(f"{what} is not valid JSON: {str(error)[:200]}") from None
