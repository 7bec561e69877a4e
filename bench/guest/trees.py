"""Removing what untrusted code has left, however deep and however locked. Standard library only."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Remove `path` and everything below it, unwritable folders included; a missing one is fine.

    Folders are moved up to the root before they are emptied: an agent can nest them deeper than the system
    takes paths, and deeper than Python recurses.
    """
    if path.is_symlink() or not path.is_dir():
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
        return
    root, mark, count = str(path), secrets.token_hex(8), 0
    pending = [root]
    while pending:
        folder = pending.pop()
        for entry in _opened(folder):
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, stat.S_IRWXU)
                count += 1
                moved = f"{root}/.{mark}-{count}"
                os.rename(entry.path, moved)
                pending.append(moved)
            else:
                os.unlink(entry.path)
        if folder != root:
            os.rmdir(folder)
    os.rmdir(root)


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
