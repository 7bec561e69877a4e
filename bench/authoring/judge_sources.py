"""Which sources decide verdicts besides the case's own files, and their digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from bench.base.files import sha256_file, write_atomic

_ROOMS = ("casekit", "guest", "judge", "sandbox")
"""Whole rooms: the judge, what runs beside the agent's code, what checks and data are written with, and what limits
and isolates all of it."""
_MODULES = (
    "cell/services.py",
    "cell/snapshot.py",
    "cell/start_state.py",
    "cell/workspace.py",
    "formats/case.py",
    "formats/verdict.py",
)
_PACKAGE = Path(__file__).resolve().parents[1]
_VERSION_FILE = "formats/judge_version.py"


def source_files(package: Path = _PACKAGE) -> Iterator[str]:
    """Paths of the sources in the package, sorted within each room."""
    for room in _ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            yield path.relative_to(package).as_posix()
    yield from _MODULES


def sources_digest(package: Path = _PACKAGE) -> str:
    """Of names and contents of all of them."""
    digest = hashlib.sha256()
    for name in source_files(package):
        digest.update(f"{name}\0{sha256_file(package / name)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def declared(package: Path = _PACKAGE) -> tuple[str, str]:
    """Version of the judge, and digest of the sources for which it was decided, as the file says them now."""
    text = (package / _VERSION_FILE).read_text(encoding="utf-8")
    values = dict(re.findall(r'^(JUDGE|SOURCES) = "([^"]+)"$', text, re.MULTILINE))
    return values["JUDGE"], values["SOURCES"]


def declare(*, other_verdicts: bool, package: Path = _PACKAGE) -> tuple[str, str]:
    """Write down a decision about the sources as they are: a new version, or that verdicts stay the same."""
    version, _ = declared(package)
    version = str(int(version) + 1) if other_verdicts else version
    sources = sources_digest(package)
    path = package / _VERSION_FILE
    text = path.read_text(encoding="utf-8")
    for name, value in (("JUDGE", version), ("SOURCES", sources)):
        text = re.sub(rf'^{name} = "[^"]+"$', f'{name} = "{value}"', text, flags=re.MULTILINE)
    write_atomic(path, text.encode())
    return version, sources
