"""A folder reduced to some of its files, whatever else it holds. Standard library only."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.guest.trees import remove_tree


@dataclass(frozen=True)
class Bounds:
    """How much of a folder is kept."""

    size: int = 1 << 62
    """Bytes, holes in files included, and a file counts under each of its names."""
    entries: int = 1 << 62
    """Files, folders and everything else."""


FULL = (errno.ENOSPC, errno.EDQUOT)
"""Of a disk."""
GONE = ".gone-"
"""How folders begin that hold nothing but what is to be removed."""


def reduce_to(root: Path, names: Iterable[str], bounds: Bounds, parent: Path) -> None:
    """Keep nothing of the folder but the regular files of these names, as far as they fit; the rest goes to `parent`.

    Looks at nothing else, so it takes no longer the more there is.
    """
    aside = parent / f"{GONE}{secrets.token_hex(6)}"
    os.chmod(root, stat.S_IRWXU)
    root.rename(aside)
    try:
        root.mkdir()
    except OSError as error:
        if error.errno not in FULL:
            raise
        # Not even a folder fits: what has filled the disk goes, whatever it is.
        remove_tree(aside)
        root.mkdir()
    left = bounds.size
    for name in dict.fromkeys(names):
        source = aside / name
        size = _size_within(source, aside)
        if size is not None and size <= left:
            left -= size
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            source.rename(root / name)


def _size_within(path: Path, root: Path) -> int | None:
    """The size of the regular file at `path`, whose parents below `root` are real folders; None for anything else."""
    try:
        for parent in reversed(list(path.relative_to(root).parents)[:-1]):
            if not stat.S_ISDIR(os.lstat(root / parent).st_mode):
                return None
            os.chmod(root / parent, stat.S_IRWXU)
        info = os.lstat(path)
    except OSError:
        return None
    return max(info.st_size, info.st_blocks * 512) if stat.S_ISREG(info.st_mode) else None
