"""Folders for the time of one command, below TMPDIR: removed at its end, or by the next start if it was killed.

A process that uses such a folder holds a lock on it, which ends with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.base.errors import UserError
from bench.guest.trees import remove_tree


def temporary_path(kind: str, name: str) -> Path:
    """Where the folder `name` of this kind lies; short, since there are Unix sockets below it."""
    return Path(tempfile.gettempdir()) / f"{_prefix()}{kind}.{name}"


@contextlib.contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """A folder of a name that is not used yet."""
    with held_folder(temporary_path(kind, secrets.token_hex(4))) as folder:
        yield folder


@contextlib.contextmanager
def held_folder(path: Path) -> Iterator[Path]:
    """The empty folder `path`, held; what killed processes of this user have left is removed first."""
    sweep(path.parent)
    lock = _hold(path)
    try:
        yield path
    finally:
        # What is still at work in there ends with this process; the next start removes the rest.
        with contextlib.suppress(OSError):
            remove_tree(path)
        os.close(lock)


def sweep(parent: Path) -> list[Path]:
    """Remove the folders of this user whose holders are gone; returns them."""
    removed = []
    for path in parent.glob(f"{_prefix()}*"):
        with contextlib.suppress(OSError):
            lock = _try_lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock is not None:
                remove_tree(path)
                removed.append(path)
                os.close(lock)
    return removed


def _prefix() -> str:
    return f"mldb-{os.getuid()}."


def _hold(path: Path) -> int:
    """Make and lock `path`; until it is locked, another process that sweeps may remove it."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.lstat().st_uid != os.getuid():
                raise UserError("belongs to another user", where=path, remedy="set TMPDIR to a folder of yours")
            lock = _try_lock(path, fcntl.LOCK_EX)
            if lock is not None:
                return lock


def _try_lock(path: Path, how: int) -> int | None:
    """The lock of a folder of this user; None when another process holds or has replaced it."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    with contextlib.suppress(BlockingIOError):
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, how)
            # Since it was opened, another process may have swept it and its user may have made it again.
            if _is_still(lock, path):
                return lock
    os.close(lock)
    return None


def _is_still(lock: int, path: Path) -> bool:
    """Is the locked folder the one at `path`? From then on only its holder removes it."""
    try:
        return os.path.samestat(os.fstat(lock), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
