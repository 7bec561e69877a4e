"""The digest of the program that makes pages: another one may make others of the same facts."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.base.files import walk_files

_PACKAGE = Path(__file__).resolve().parents[1]
_NOT_CODE = frozenset({"data", "__pycache__"})
"""Of the package: cases, agents and sources of the site as a wheel holds them, which are told apart."""
_LIBRARIES = (
    "Jinja2", "MarkupSafe", "markdown-it-py", "vl-convert-python", "numpy", "pydantic", "duckdb", "msgspec", "pyarrow",
)  # fmt: skip
"""Those that have a say in the bytes of a page or a file; one that is not installed may be why a file is missing."""


@cache
def program_digest(package: Path = _PACKAGE) -> str:
    """Of every room: a page stands on formats, statistics and the gateway's traces as much as on this one."""
    found = hashlib.sha256(" ".join([sys.version, *map(version_of, _LIBRARIES)]).encode())
    for name, path in _sources(package):
        found.update(f"\0{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _sources(package: Path) -> Iterator[tuple[str, Path]]:
    return ((name, Path(entry.path)) for name, entry in walk_files(package, skip=_NOT_CODE))


def version_of(library: str) -> str:
    """Empty where it is not installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
