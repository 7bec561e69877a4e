"""The only folder an agent may write: made fresh for each trial, and made harmless afterwards."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

from bench.files import lay_over, sha256_file

_MAX_NOTED = 200


@dataclass
class Snapshot:
    """A workspace after the agent: regular files only, protected ones restored."""

    folder: Path
    tampered: list[str] = field(default_factory=list)
    """Protected files that had been changed or removed, now restored."""
    dropped: list[str] = field(default_factory=list)
    """Devices, sockets and unreadable names, taken out."""
    links: list[str] = field(default_factory=list)
    """Symbolic links, taken out. Honest tools make them for convenience; as an output one is suspicious."""
    files: int = 0


def prepare(start: Path, workspace: Path) -> None:
    """A fresh copy of the start of a trial."""
    workspace.mkdir(parents=True)
    lay_over(start, workspace)


def take_snapshot(workspace: Path, start: Path, protected: list[str]) -> Snapshot:
    """Make the finished workspace harmless in place: nobody runs in it any more, so nothing need be copied."""
    snapshot = Snapshot(workspace)
    _sanitize(workspace, snapshot)
    for name in protected:
        original, present = start / name, workspace / name
        if not original.is_file():
            continue
        if not _is_plain(present, workspace) or sha256_file(present) != sha256_file(original):
            snapshot.tampered.append(name)
            _restore(original, present, workspace)
    return snapshot


def _sanitize(root: Path, snapshot: Snapshot) -> None:
    """Drop everything that is neither a folder nor a regular file of this folder alone."""
    pending = [str(root)]
    while pending:
        folder = pending.pop()
        os.chmod(folder, 0o755)
        with os.scandir(folder) as found:
            entries = list(found)
        for entry in entries:
            info = entry.stat(follow_symlinks=False)
            if not _is_text(entry.name) or not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
                _drop(entry, root, snapshot)
            elif stat.S_ISDIR(info.st_mode):
                pending.append(entry.path)
            else:
                snapshot.files += 1
                _own(entry, info)


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _drop(entry: os.DirEntry[str], root: Path, snapshot: Snapshot) -> None:
    noted = snapshot.links if entry.is_symlink() else snapshot.dropped
    if len(noted) < _MAX_NOTED:
        name = os.path.relpath(entry.path, root)
        noted.append(name.encode("utf-8", "backslashreplace").decode())
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        os.unlink(entry.path)


def _own(entry: os.DirEntry[str], info: os.stat_result) -> None:
    """Readable by us, and without a second name elsewhere through which it could still change."""
    if info.st_nlink > 1:
        copy = f"{entry.path}.own"
        shutil.copyfile(entry.path, copy, follow_symlinks=False)
        os.replace(copy, entry.path)
    os.chmod(entry.path, 0o755 if info.st_mode & stat.S_IXUSR else 0o644)


def _is_plain(path: Path, root: Path) -> bool:
    """A regular file of which no parent inside `root` is anything but a folder."""
    parents = list(path.relative_to(root).parents)[:-1]
    return all((root / parent).is_dir() for parent in parents) and path.is_file()


def _restore(original: Path, place: Path, root: Path) -> None:
    for parent in reversed(list(place.relative_to(root).parents)[:-1]):
        if (root / parent).is_file():
            (root / parent).unlink()
        (root / parent).mkdir(exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    shutil.copyfile(original, place)
