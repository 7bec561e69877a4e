"""Files that are either whole or absent, their digests, locks, and folders for the time of one command.

A temporary folder lies below TMPDIR and is removed at the end, or by the next start if its process was killed: the
process holds a lock on it, which ends with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import math
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UserError
from bench.guest.trees import remove_tree

NAME = "SHA256SUMS"
_LOCK_TICK_S = 0.1
_RESERVED = 4 << 30
"""Bytes of a disk that cells at work need: of these little stays with those that have ended."""
_SHARE, _SMALL_SHARE, _LEAST_KEPT = 16, 256, 1 << 20
"""One of so many bytes beyond what is reserved, or of all that is left; and as much in any case."""
_COMPILED = (".so", ".pyd", ".pyc")
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write `data` to `path` by temporary file, fsync and rename; parents are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def lock(
    path: Path, *, patience_s: float = math.inf, busy: str = "", waiting: Callable[[], None] | None = None
) -> Iterator[int]:
    """Hold the file `path` against every other process, and yield its descriptor.

    After `patience_s`, `busy` is raised as a `UserError` about the folder; `waiting` is called all the time before. The
    lock ends with its process, however that ends. The lock file is never deleted: deleting it would let two processes
    hold the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + patience_s
        blocks = patience_s == math.inf and waiting is None
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if blocks else fcntl.LOCK_NB))
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise UserError(busy, where=path.parent, remedy="wait for it to end") from None
                if waiting is not None:
                    waiting()
                time.sleep(_LOCK_TICK_S)
        yield descriptor
    finally:
        os.close(descriptor)


def room_to_keep(folder: Path) -> int:
    """Bytes on the disk of `folder` that one part of what a cell leaves may take for the rest of a run.

    However many cells there are, those that have ended never take all of the room: each gets a share of what is left.
    """
    info = os.statvfs(folder)
    free = info.f_bavail * info.f_frsize
    return max((free - _RESERVED) // _SHARE, free // _SMALL_SHARE, _LEAST_KEPT)


def sha256_bytes(data: bytes) -> str:
    """`sha256:<hex>` of `data`."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def sha256_file(path: Path) -> str:
    """`sha256:<hex>` of the regular file at `path`, read in chunks and without following a link."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def walk_files(
    root: Path, *, skip: frozenset[str] = frozenset({"__pycache__"})
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry below `root` that is not a directory, as (relative path, entry), sorted; links are not followed."""
    if not root.is_dir():
        return
    pending = [("", str(root))]
    found: list[tuple[str, os.DirEntry[str]]] = []
    while pending:
        prefix, folder = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                relative = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in skip:
                        pending.append((f"{relative}/", entry.path))
                else:
                    found.append((relative, entry))
    found.sort(key=lambda item: item[0])
    yield from found


def shadows(module: Path) -> Iterator[Path]:
    """What lies beside the file `module` and Python would import in its place: a package, or something compiled."""
    if module.suffix != ".py":
        return
    for path in module.parent.iterdir():
        if path.name == module.stem and path.is_dir():
            yield from [path] * any(path.glob("__init__.*"))
        elif path.name.startswith(f"{module.stem}.") and path.suffix in _COMPILED:
            yield path


def digest_folder(
    root: Path,
    *,
    skip: frozenset[str] = frozenset({"__pycache__"}),
    without: frozenset[str] = frozenset(),
    instead: Mapping[str, str] | None = None,
) -> str:
    """One digest over names, executable bits and contents of the regular files below `root`.

    skip: names of folders. without: relative paths of files, and of folders with a slash behind. instead: digests that
    stand for the contents of files, by relative path.
    """
    digest = hashlib.sha256()
    folders = tuple(name for name in without if name.endswith("/"))
    for relative, entry in walk_files(root, skip=skip):
        left_out = relative in without or relative.startswith(folders)
        if entry.is_file(follow_symlinks=False) and not left_out:
            executable = bool(entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR)
            line = f"{relative}\0{int(executable)}\0{(instead or {}).get(relative) or sha256_file(Path(entry.path))}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return f"sha256:{digest.hexdigest()}"


def lay_over(source: Path, target: Path) -> None:
    """Copy all regular files below `source` over `target`, keeping modes; caches and links are left out."""
    for relative, entry in walk_files(source):
        if entry.is_file(follow_symlinks=False):
            copy = target / relative
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry.path, copy, follow_symlinks=False)
            copy.chmod(0o755 if entry.stat().st_mode & stat.S_IXUSR else 0o644)


@dataclass(frozen=True)
class Checksums:
    """The digests of the files below `root`. A file that was written again has several, and each of them is valid."""

    root: Path

    def add(self, name: str, data: bytes) -> None:
        """Note that `name` is about to hold `data`; to be called before it is written."""
        self.root.mkdir(parents=True, exist_ok=True)
        line = f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode()
        descriptor = os.open(self.root / NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                # A full disk or a kill has cut off the last line.
                line = b"\n" + line
            # In one call: several processes append, and only a whole write keeps their lines apart.
            if os.write(descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.root / NAME))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def known(self) -> dict[str, set[str]]:
        """The valid digests (`sha256:<hex>`) by name; lines of another form are left out."""
        found: dict[str, set[str]] = {}
        try:
            text = (self.root / NAME).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return found
        for line in text.splitlines():
            if match := _LINE.fullmatch(line):
                found.setdefault(match[2], set()).add(f"sha256:{match[1]}")
        return found


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
