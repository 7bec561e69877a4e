"""A copy of a workspace in which an agent is still at work, stored by content. Standard library only.

Runs as a fork of the trusted server (`serve`) at the lowest priority, so the agent is never stopped and hardly slowed.
The agent may change anything at any moment: no link is followed, nothing but regular files is read, and a file that
changed meanwhile is counted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

_MAX_PATH = 1000
"""Bytes, as in the final snapshot."""
_CACHE = "__pycache__"
_CHUNK = 1 << 20
_BLOCK = 4096
"""Of a disk: what the smallest file takes."""
_LONGEST_LIST = 32 << 20
"""Bytes of the list of a snapshot's files, which `score-steps` reads whole."""
_LIST_ENTRY = 90
"""Bytes of a file in that list beside its name."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOWEST = 19


class _FullError(Exception):
    """A bound was met; its text is the bound's name."""


def serve(orders: dict[str, Any], answers: BinaryIO) -> None:
    """Remove from the store what none of the trees `keep` names, where `prune` says so; then copy `root`, if any."""
    with contextlib.suppress(OSError):
        os.nice(_LOWEST)
    store = _Store(Path(orders["store"]), orders["stored"], orders["objects"])
    if orders["prune"]:
        store.prune(orders["keep"])
    if not orders["root"]:
        answers.write(b"{}")
        return
    try:
        facts = _Copy(orders, store).made()
    except _FullError as full:
        store.forget_new()
        facts = {"left_out": str(full)}
    answers.write(json.dumps(facts).encode())


class _Store:
    """Files by the SHA-256 of their content."""

    def __init__(self, folder: Path, most: int, most_objects: int) -> None:
        """most: bytes that all files together may take of the disk, and most_objects: how many they may be."""
        self._folder = folder
        self._most, self._most_objects = most, most_objects
        folder.mkdir(parents=True, exist_ok=True)
        self._held, self._objects = held_by(folder)
        self._new: list[Path] = []

    def add(self, descriptor: int, size: int) -> str:
        """Keep the first `size` bytes of the open file, unless they are here; returns their digest."""
        name = _digest(descriptor, size)
        if (self._folder / name).exists():
            return name
        self._make_room(size)
        # It may be another content by now: what was written is what counts.
        os.lseek(descriptor, 0, os.SEEK_SET)
        draft, digest = self._folder / ".draft", hashlib.sha256()
        with draft.open("wb") as file:
            for data in _pieces(descriptor, size):
                digest.update(data)
                file.write(data)
        return self._take(draft, digest.hexdigest())

    def add_bytes(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        if not (self._folder / name).exists():
            self._make_room(len(data))
            draft = self._folder / ".draft"
            draft.write_bytes(data)
            self._take(draft, name)
        return name

    def _make_room(self, size: int) -> None:
        size = _on_disk(size)
        if self._held + size > self._most:
            raise _FullError("bytes of all snapshots")
        if self._objects >= self._most_objects:
            raise _FullError("files of all snapshots")
        self._held, self._objects = self._held + size, self._objects + 1

    def _take(self, draft: Path, name: str) -> str:
        place = self._folder / name
        draft.rename(place)
        self._new.append(place)
        return name

    def forget_new(self) -> None:
        for path in self._new:
            path.unlink(missing_ok=True)

    def prune(self, keep: list[str]) -> None:
        """Remove what is in none of the trees; a draft of a process that was ended goes, too."""
        wanted = set(keep)
        for tree in keep:
            files = json.loads((self._folder / tree).read_bytes())["files"]
            wanted.update(digest for digest, _, _ in files.values())
        for path in list(self._folder.iterdir()):
            if path.name not in wanted:
                path.unlink()
        self._held, self._objects = held_by(self._folder)


def held_by(store: Path) -> tuple[int, int]:
    """Bytes that the files of a store take of the disk, and how many they are."""
    size = count = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(store) as found:
        for entry in found:
            info = entry.stat(follow_symlinks=False)
            size, count = size + max(_on_disk(info.st_size), info.st_blocks * 512), count + 1
    return size, count


def _on_disk(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _pieces(descriptor: int, size: int) -> Iterator[bytes]:
    left = size
    while left > 0 and (data := os.read(descriptor, min(_CHUNK, left))):
        left -= len(data)
        yield data


def _digest(descriptor: int, size: int) -> str:
    digest = hashlib.sha256()
    for data in _pieces(descriptor, size):
        digest.update(data)
    return digest.hexdigest()


class _Copy:
    """One pass over the workspace."""

    def __init__(self, orders: dict[str, Any], store: _Store) -> None:
        self._root: str = orders["root"]
        self._size: int = orders["size"]
        self._entries: int = orders["entries"]
        self._store = store
        self._seen = 0
        self._bytes = 0
        self._dropped = 0
        self._unsteady = 0
        self._list_bytes = 0
        self._files: dict[str, tuple[str, int, bool]] = {}
        self._folders: dict[str, None] = {}

    def made(self) -> dict[str, Any]:
        """Copy everything; raises `_FullError`."""
        root = os.open(self._root, _FOLDER)
        try:
            pending: list[str] = [""]
            while pending:
                pending += self._folder(root, pending.pop())
        finally:
            os.close(root)
        tree = {"files": dict(sorted(self._files.items())), "folders": sorted(self._folders)}
        return {
            "tree": self._store.add_bytes(json.dumps(tree).encode()),
            "files": len(self._files),
            "size": self._bytes,
            "dropped": self._dropped,
            "unsteady": self._unsteady,
        }

    def _folder(self, root: int, path: str) -> list[str]:
        """Copy the files of one folder; returns the folders in it."""
        below: list[str] = []
        try:
            here = _descend(root, path)
        except OSError:
            # It is gone, or something else by now, or closed to us.
            self._dropped += 1
            return below
        try:
            for name, info in self._listed(here):
                inner = f"{path}/{name}" if path else name
                if inner in self._files or inner in self._folders:
                    # Removed and made anew meanwhile: what a name was first, it stays.
                    self._unsteady += 1
                    continue
                self._list(inner)
                if stat.S_ISDIR(info.st_mode):
                    if name != _CACHE:
                        self._folders[inner] = None
                        below.append(inner)
                elif stat.S_ISREG(info.st_mode):
                    self._file(here, name, inner)
                else:
                    self._dropped += 1
        finally:
            os.close(here)
        return below

    def _list(self, path: str) -> None:
        self._list_bytes += len(json.dumps(path)) + _LIST_ENTRY
        if self._list_bytes > _LONGEST_LIST:
            raise _FullError("list of the files")

    def _listed(self, here: int) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(here) as found:
            for entry in found:
                self._seen += 1
                if self._seen > self._entries:
                    raise _FullError("files and folders")
                try:
                    entry.name.encode("utf-8")
                    yield entry.name, entry.stat(follow_symlinks=False)
                except (OSError, UnicodeEncodeError):
                    self._dropped += 1

    def _file(self, here: int, name: str, path: str) -> None:
        try:
            if len(path.encode()) > _MAX_PATH:
                raise OSError
            descriptor = os.open(name, _FILE, dir_fd=here)
        except OSError:
            self._dropped += 1
            return
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                self._dropped += 1
                return
            self._bytes += max(before.st_size, before.st_blocks * 512)
            if self._bytes > self._size:
                raise _FullError("bytes of the workspace")
            digest = self._store.add(descriptor, before.st_size)
            after = os.fstat(descriptor)
            self._unsteady += (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
            self._files[path] = digest, before.st_size, bool(before.st_mode & stat.S_IXUSR)
        finally:
            os.close(descriptor)


def _descend(root: int, path: str) -> int:
    """The open folder at `path` below `root`, one step at a time: none of them may be a link."""
    here = os.dup(root)
    for name in filter(None, path.split("/")):
        above = here
        try:
            here = os.open(name, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return here
