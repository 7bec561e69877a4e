"""Removing what untrusted code has left, however deep and locked, and where its links lead. Standard library only."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
"""On one way, as the kernel has it."""


def remove_tree(path: Path) -> None:
    """Remove `path` and everything below it, unwritable folders included; a missing one is fine.

    One folder is open at a time and reached from the one above or below it: an agent can nest them deeper than the
    system takes paths, and deeper than Python recurses.
    """
    if path.is_symlink() or not path.is_dir():
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
        return
    os.chmod(path, stat.S_IRWXU)
    here = os.open(path, _FOLDER)
    # By level: the folders that are still to be removed there.
    left = [_remove_files(here)]
    try:
        while len(left) > 1 or left[0]:
            if left[-1]:
                name = left[-1][-1]
                os.chmod(name, stat.S_IRWXU, dir_fd=here)
                here = _step(here, name)
                left.append(_remove_files(here))
            else:
                here = _step(here, "..")
                left.pop()
                os.rmdir(left[-1].pop(), dir_fd=here)
    finally:
        os.close(here)
    os.rmdir(path)


def _remove_files(folder: int) -> list[str]:
    """Remove everything in the open folder but the folders in it, and name those."""
    folders = []
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        else:
            os.unlink(entry.name, dir_fd=folder)
    return folders


def _step(here: int, name: str) -> int:
    """Open the folder `name` of the open folder `here` in its place."""
    there = os.open(name, _FOLDER, dir_fd=here)
    os.close(here)
    return there


def _opened(folder: str) -> list[os.DirEntry[str]]:
    """What is in `folder`, which its owner is allowed to change from now on."""
    os.chmod(folder, stat.S_IRWXU)
    with os.scandir(folder) as found:
        return list(found)


def listing(folder: str) -> set[str]:
    """Paths of everything below `folder`, not looking into what is mounted there."""
    device = os.lstat(folder).st_dev
    found: set[str] = set()
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                found.add(entry.path)
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode) and info.st_dev == device:
                    pending.append(entry.path)
    return found


def clear(folder: str, kept: set[str]) -> None:
    """Remove everything below `folder` but the paths in `kept`; what is mounted there is left alone."""
    device = os.lstat(folder).st_dev
    pending = [folder]
    while pending:
        for entry in _opened(pending.pop()):
            info = entry.stat(follow_symlinks=False)
            if entry.path not in kept:
                remove_tree(Path(entry.path))
            elif stat.S_ISDIR(info.st_mode) and info.st_dev == device:
                pending.append(entry.path)


def stays_within(link: str, root: Path, place: Path) -> bool:
    """Whether a link really leads below `root`, through all others on its way.

    place: where `root` will lie, which links may name already.
    """
    at, words, followed = os.path.dirname(link), [os.path.basename(link)], 0
    while words:
        word = words.pop()
        if word in ("", "."):
            continue
        at = os.path.dirname(at) if word == ".." else os.path.join(at, word)
        if not f"{at}/".startswith(f"{root}/"):
            return False
        if os.path.islink(at):
            followed += 1
            target, at = os.readlink(at), os.path.dirname(at)
            if os.path.isabs(target):
                inside, target, at = target.startswith(f"{place}/"), target.removeprefix(f"{place}/"), str(root)
                if not inside:
                    return False
            if followed > _MOST_LINKS:
                return False
            words += reversed(target.split("/"))
    return at != str(root)
