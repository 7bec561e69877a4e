"""Reading a folder that untrusted code has written: no links, no devices, no surprises of size."""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import json
import math
import os
import stat
import tokenize
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn

from bench.base.files import walk_files
from bench.judge.values import read_npy, read_npz, read_safetensors, shown, without_duplicates

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MIB = 1 << 20
_MOST_FIELDS = 2_000_000
"""Of a table: each takes up to 350 bytes, as a row of its own."""
_MOST_NODES = 2_000_000
"""Of a JSON document: each takes up to 250 bytes, as an object with one key."""
# Python's own limit of recursion, which `repr` and comparisons meet, is ten times as deep.
_DEEPEST = 100
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
        """Content of a UTF-8 file: takes up to six times its size, as one odd character makes all of them wide."""
        try:
            return self.bytes(path, max_mb).decode("utf-8-sig")
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
        """A JSON document, read strictly: no NaN, no infinity, no duplicate keys, at most two million values.

        Takes up to six times its size, and half a gigabyte of Python's objects, whatever `max_mb` is.
        """
        text = self.text(path, max_mb)
        _check_nodes(path, text)
        return _json(path, text)

    def jsonl(self, path: str, max_mb: float = 20) -> list[Any]:
        """The values of a file with one JSON document a line, each read as by `json`; lines of spaces are passed over.

        At most two million values in all; takes up to six times its size, and half a gigabyte of Python's objects.
        """
        text = self.text(path, max_mb)
        _check_nodes(path, text, text.count("\n"))
        # Not splitlines: a text may hold U+2028 and its like as they are.
        lines = enumerate(text.split("\n"), start=1)
        return [_json(f"{path}, line {number},", line) for number, line in lines if line.strip()]

    def csv(self, path: str, max_mb: float = 20) -> list[dict[str, str]]:
        """Rows of a comma-separated table with a header; every row has exactly the header's columns.

        At most two million fields; takes up to ten times its size, and 700 MB of Python's objects.
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
                    header = [name.strip() for name in row]
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
        return read_npz(self.bytes(path, max_mb), int(max_mb * _MIB))

    def npy(self, path: str, max_mb: float = 200) -> NDArray[Any]:
        """The numeric array of a .npy file of at most `max_mb` MiB: takes its size twice."""
        return read_npy(self.bytes(path, max_mb))

    def safetensors(self, path: str, max_mb: float = 500) -> dict[str, NDArray[Any]]:
        """Tensors of a .safetensors file as arrays: takes up to three times its size (bfloat16 becomes float32)."""
        return read_safetensors(self.bytes(path, max_mb))


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


def _check_nodes(path: str, text: str, lines: int = 0) -> None:
    """Counted before anything is parsed."""
    nodes = text.count(",") + text.count("[") + text.count("{") + lines
    assert nodes <= _MOST_NODES, f"{path} has more than {_MOST_NODES:,} values (commas and opening brackets)"


def _json(what: str, text: str) -> Any:
    try:
        found = json.loads(text, parse_constant=_no_constant, object_pairs_hook=without_duplicates, parse_float=_finite)
        _check_depth(found)
        return found
    except (ValueError, RecursionError) as error:
        raise AssertionError(f"{what} is not valid JSON: {str(error)[:200]}") from None


def _check_depth(value: object) -> None:
    """ValueError for what a check could not even show in a message."""
    level = [value]
    for _ in range(_DEEPEST):
        inner = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parts in inner for part in parts]
        if not level:
            return
    raise ValueError(f"nested more than {_DEEPEST} levels deep")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value
