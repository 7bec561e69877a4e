"""What a build left in its folder: the digest of each file, and the key of what each page was made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.base.files import walk_files, write_atomic

MARKER = ".ml-dev-bench-site"
"""In every folder that a build made: no other folder is ever replaced. The same site has the same one."""
BUILT = ".ml-dev-bench-built"
"""Of a build that a command asked for, beside it: what it was asked, and when its files were last touched."""
_LENGTH = 24


@dataclass(frozen=True)
class MadeFile:
    """A file of a site."""

    digest: str
    key: str = ""
    """Of the facts that a page was made from; other files have none, and are written at every build."""


@dataclass(frozen=True)
class Built:
    """A build that was asked for by a command."""

    asked: str
    """The digest of all that it was made from."""
    notes: list[str]
    """What it said of the results, and what a build that has nothing to do must say again."""
    marker: str
    """The digest of the marker, which has those of all files."""
    touched: str
    """`_touched` when it had ended."""


class LastBuild:
    """What lies in a folder of an earlier build, as far as it is still as it was made."""

    def __init__(self, out: Path, sources: str) -> None:
        """`sources`: nothing is kept of a build by other ones."""
        self._out = out
        self._files = _read_marker(out, sources)

    def kept(self, address: str, key: str) -> MadeFile | None:
        """The page at `address` where it was made from `key`, and nobody has changed it since."""
        made = self._files.get(address)
        if made is None or made.key != key:
            return None
        return made if self._is_untouched or _is_whole(self._out / address, made) else None

    @cached_property
    def _is_untouched(self) -> bool:
        built = _read_built(self._out)
        return built is not None and built.touched == _touched(self._out)


def file_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_LENGTH]


def marker_of(sources: str, files: Mapping[str, MadeFile]) -> bytes:
    """The content of the marker of these files, by address."""
    listed = {address: [it.digest, it.key] for address, it in sorted(files.items())}
    return json.dumps({"sources": sources, "files": listed}, indent=0).encode()


def remember(out: Path, asked: str, notes: list[str]) -> None:
    """Note in a folder that was just built what it was asked, for `notes_if_unchanged`."""
    built = Built(asked, notes, file_digest((out / MARKER).read_bytes()), _touched(out))
    write_atomic(out / BUILT, json.dumps(vars(built), indent=0).encode())


def notes_if_unchanged(out: Path, asked: str) -> list[str] | None:
    """What the last build said, where it was asked the same and each of its files is still there as it was made.

    None: there is something to build.
    """
    built = _read_built(out)
    if built is None or built.asked != asked:
        return None
    if built.touched != _touched(out):
        if not _is_all_whole(out, built.marker):
            return None
        # As after a copy: the next look need not read every file again.
        remember(out, asked, built.notes)
    return built.notes


def _is_all_whole(out: Path, marker: str) -> bool:
    files = _read_marker(out)
    there = {name for name, _ in walk_files(out, skip=frozenset())} - {MARKER, BUILT}
    return (
        there == files.keys()
        and _is_whole(out / MARKER, MadeFile(marker))
        and all(_is_whole(out / address, made) for address, made in files.items())
    )


def _is_whole(path: Path, made: MadeFile) -> bool:
    try:
        return not path.is_symlink() and file_digest(path.read_bytes()) == made.digest
    except OSError:
        return False


def _touched(out: Path) -> str:
    """Equal as long as no file came, went or was written, nor replaced by one of the same size and time."""
    found = hashlib.sha256()
    for name, entry in walk_files(out, skip=frozenset()):
        if name != BUILT:
            stat = entry.stat(follow_symlinks=False)
            line = f"{name}\0{stat.st_mode} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}\n"
            found.update(line.encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def _read_marker(out: Path, sources: str = "") -> dict[str, MadeFile]:
    """The files of a build by `sources`, or by any; none where the marker was not written by this program."""
    try:
        found = json.loads((out / MARKER).read_bytes())
        if sources and found["sources"] != sources:
            return {}
        return {address: MadeFile(digest, key) for address, (digest, key) in found["files"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _read_built(out: Path) -> Built | None:
    try:
        found = json.loads((out / BUILT).read_bytes())
        return Built(str(found["asked"]), list(found["notes"]), str(found["marker"]), str(found["touched"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
