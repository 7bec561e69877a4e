"""Reading the artifacts of jobs: folders with untrusted content.

Every file is reached by descriptors of its folders, none of them through a link, and is looked at before it is opened:
a pipe cannot block the reader, nor a device do anything, nor a link lead out. Sizes and counts are capped.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.base.errors import UserError
from bench.base.text import printable
from bench.store.bundle import MAX_FILE_BYTES

LONGEST_WHY = 440
"""Characters of a reason: file, cell, field, value and remedy have to fit."""
_CELL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}\.json")
_EARLIER = re.compile(r"\.try\d{1,6}\.json$")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe that replaced the file after `stat` would wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


@dataclass(frozen=True)
class Caps:
    """What an artifact may contain. A cap counts for each artifact alone, so that none uses up what others need."""

    artifacts: int = 10_000
    cells: int = 20_000
    """Files in `cells/`."""
    record_bytes: int = 1 << 20
    records_bytes: int = 256 << 20
    entries: int = 200_000
    """Files and folders looked at in search of links and devices."""
    depth: int = 32
    lines: int = 20
    """Refusals listed one by one; the rest is counted."""
    file_bytes: int = MAX_FILE_BYTES
    """Records of one agent, from all artifacts together: they become one file on the branch."""
    manifest_bytes: int = 8 << 20
    """What the manifest of a run says of where its records come from: thousands of honest provenances."""


@dataclass(frozen=True)
class Refusal:
    """What was not taken, and why; as text one line on which neither a terminal nor a workflow log acts."""

    where: str
    why: str

    def __str__(self) -> str:
        return f"{printable(self.where, 250)}: {printable(self.why, LONGEST_WHY)}"


@dataclass(frozen=True)
class Artifact:
    """One job's folder: a run folder, or what claims to be one."""

    name: str
    path: Path


@dataclass(frozen=True)
class Found:
    """A file of `cells/` as it was read, once."""

    artifact: Artifact
    name: str
    content: bytes

    @property
    def where(self) -> str:
        return f"{self.artifact.name}/cells/{self.name}"


def find_artifacts(arguments: Sequence[Path], caps: Caps) -> tuple[list[Artifact], list[Refusal]]:
    """The artifacts that the command line names.

    A folder with a regular file run.json is one artifact; of any other, each folder in it is one, as
    actions/download-artifact lays them out. (What it lays out are folders: no artifact can bring that file.)
    """
    artifacts: list[Artifact] = []
    refused: list[Refusal] = []
    for argument in arguments:
        if _is_regular(argument / "run.json"):
            artifacts.append(Artifact(argument.resolve().name, argument))
            continue
        try:
            with os.scandir(argument) as entries:
                found = sorted(islice(entries, caps.artifacts + 1), key=lambda entry: entry.name)
        except OSError as error:
            refused.append(Refusal(str(argument), f"cannot be read: {error.strerror}"))
            continue
        if len(found) > caps.artifacts:
            refused.append(Refusal(str(argument), f"holds more than {caps.artifacts} artifacts: the rest is left out"))
        for entry in found[: caps.artifacts]:
            if entry.is_dir(follow_symlinks=False):
                artifacts.append(Artifact(entry.name, Path(entry.path)))
            else:
                refused.append(Refusal(entry.name, f"is {_kind(entry.stat(follow_symlinks=False))}, not a folder"))
    return artifacts, refused


def unpack_artifact(archive: bytes, folder: Path, caps: Caps) -> None:
    """Write the files of an untrusted zip archive below the new folder `folder`; raises `UserError`, all or nothing.

    Sizes are counted as they are unpacked: what an archive says of them is a claim.
    """
    import zipfile

    # Counted before zipfile lists them: each entry costs it memory.
    if archive.count(b"PK\x01\x02") > caps.entries:
        raise UserError(f"holds more than {caps.entries} files", where=folder.name)
    left = caps.records_bytes
    folders = caps.entries
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            for entry in opened.infolist():
                path = folder / _entry_path(entry.filename, folder.name)
                if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR) or entry.flag_bits & 1:
                    raise UserError(f"{entry.filename[:200]!r} is not a plain file", where=folder.name)
                # The others unpack a few bytes to gigabytes at once, before anything can count them.
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise UserError(f"{entry.filename[:200]!r} is not packed as artifacts are", where=folder.name)
                if entry.is_dir():
                    continue
                # A file of a few bytes can ask for as many folders as its path has parts.
                folders -= _make_folders(path.parent)
                if folders < 0:
                    raise UserError(f"holds more than {caps.entries} folders", where=folder.name)
                with opened.open(entry) as source, path.open("xb") as target:
                    while chunk := source.read(min(1 << 20, left + 1)):
                        left -= len(chunk)
                        if left < 0:
                            raise UserError(f"unpacks to more than {caps.records_bytes} bytes", where=folder.name)
                        target.write(chunk)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise UserError(f"is not a whole zip archive: {type(error).__name__}: {error}", where=folder.name) from None


def _make_folders(folder: Path) -> int:
    """Make it and those above it; how many were not there."""
    if folder.is_dir():
        return 0
    above = _make_folders(folder.parent)
    folder.mkdir()
    return above + 1


def _entry_path(name: str, where: str) -> str:
    """The path of an entry, which must be a plain one below the folder."""
    parts = name.rstrip("/").split("/")
    if (
        len(parts) > 32
        or any(part in ("", ".", "..") or len(part.encode()) > 255 for part in parts)
        or re.search(r"[\\\0:]", name)
        or not name.isprintable()
    ):
        raise UserError(f"{name[:200]!r} is not a path inside of it", where=where)
    return "/".join(parts)


def read_cells(artifact: Artifact, caps: Caps) -> Iterator[Found | Refusal]:
    """The files of `cells/` one by one, and a refusal for each that is not taken."""
    with contextlib.ExitStack() as stack:
        try:
            root = _open(stack, str(artifact.path), _FOLDER, None)
            cells = _open(stack, "cells", _FOLDER, root)
        except OSError:
            yield Refusal(f"{artifact.name}/cells", "is not a folder: `ml-dev-bench run` makes one")
            return
        with os.scandir(cells) as entries:
            # One more than allowed shows that there are too many, without listing them all.
            names = sorted(islice((entry.name for entry in entries), caps.cells + 1))
        if len(names) > caps.cells:
            yield Refusal(f"{artifact.name}/cells", f"holds more than {caps.cells} files: nothing was taken")
            return
        left, folded = caps.records_bytes, set()
        for name in names:
            where = f"{artifact.name}/cells/{name}"
            if not _CELL.fullmatch(name):
                yield Refusal(where, "is not a name of a record")
            # On some file systems they would be one file.
            elif name.casefold() in folded:
                yield Refusal(where, "differs from another name only in upper and lower case")
            elif not _EARLIER.search(name):
                content = _read(name, cells, min(caps.record_bytes, left))
                if isinstance(content, bytes):
                    left -= len(content)
                    yield Found(artifact, name, content)
                else:
                    yield Refusal(where, content)
            folded.add(name.casefold())


def survey(artifact: Artifact, caps: Caps) -> Iterator[Refusal]:
    """Everything in an artifact that is neither a folder nor a plain file with one name."""
    pending = [("", 0)]
    seen = 0
    while pending:
        folder, depth = pending.pop()
        where = f"{artifact.name}/{folder}"
        try:
            with contextlib.ExitStack() as stack, os.scandir(_descend(stack, artifact, folder)) as entries:
                for entry in entries:
                    seen += 1
                    if seen > caps.entries:
                        yield Refusal(
                            artifact.name, f"holds more than {caps.entries} files: the rest was not looked at"
                        )
                        return
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(info.st_mode) and depth < caps.depth:
                        pending.append((path, depth + 1))
                    elif stat.S_ISDIR(info.st_mode):
                        yield Refusal(f"{artifact.name}/{path}", f"lies deeper than {caps.depth} folders")
                    # `read_cells` reports those in `cells/`.
                    elif folder != "cells" and (not stat.S_ISREG(info.st_mode) or info.st_nlink > 1):
                        yield Refusal(f"{artifact.name}/{path}", f"is {_kind(info)}")
        except OSError as error:
            yield Refusal(where, f"cannot be read: {error.strerror}")


def read_file(artifact: Artifact, path: str, cap: int) -> bytes | str:
    """A file by its path below the artifact, or why it was not taken."""
    folder, _, name = path.rpartition("/")
    with contextlib.ExitStack() as stack:
        try:
            return _read(name, _descend(stack, artifact, folder), cap)
        except OSError as error:
            return f"cannot be read: {error.strerror}"


def _descend(stack: contextlib.ExitStack, artifact: Artifact, folder: str) -> int:
    here = _open(stack, str(artifact.path), _FOLDER, None)
    for part in folder.split("/") if folder else []:
        if part in ("", ".", ".."):
            raise OSError(0, "leaves the artifact")
        here = _open(stack, part, _FOLDER, here)
    return here


def _open(stack: contextlib.ExitStack, path: str, flags: int, folder: int | None) -> int:
    descriptor = os.open(path, flags, dir_fd=folder)
    stack.callback(os.close, descriptor)
    return descriptor


def _read(name: str, folder: int, cap: int) -> bytes | str:
    """The content of a plain file of at most `cap` bytes, or why it was not taken."""
    try:
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(before.st_mode) or before.st_nlink > 1:
            return f"is {_kind(before)}"
        with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            info = os.fstat(file.fileno())
            if (info.st_dev, info.st_ino) != (before.st_dev, before.st_ino):
                return "was replaced while it was read"
            if info.st_size > cap:
                return f"has {info.st_size} bytes, more than the {cap} left for it"
            # The file may have grown since it was looked at.
            content = file.read(cap + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return content if len(content) <= cap else f"has more than the {cap} bytes left for it"


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _kind(info: os.stat_result) -> str:
    plain = "a file with several names (a hard link)" if info.st_nlink > 1 else "a file"
    return _KINDS.get(stat.S_IFMT(info.st_mode), plain)
