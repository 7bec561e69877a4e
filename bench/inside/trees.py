"""Removing what untrusted code has built, however deep and however locked. Standard library only."""

from __future__ import annotations

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
        path.unlink(missing_ok=True)
        return
    root, mark, count = str(path), secrets.token_hex(8), 0
    pending = [root]
    while pending:
        folder = pending.pop()
        os.chmod(folder, stat.S_IRWXU)
        with os.scandir(folder) as found:
            entries = list(found)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, stat.S_IRWXU)
                count += 1
                place = f"{root}/.{mark}-{count}"
                os.rename(entry.path, place)
                pending.append(place)
            else:
                os.unlink(entry.path)
        if folder != root:
            os.rmdir(folder)
    os.rmdir(root)
