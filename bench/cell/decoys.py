"""Decoys where the hidden files of a case would lie if the sandbox did not hide them: opening one is noticed.

The real files are not in the sandbox at all. What stands in their place says only what it is, and the kernel's
inotify tells when it is opened, through any mount. Listing names is harmless and is not noticed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from bench.base.files import walk_files, write_atomic
from bench.formats.case import Case
from bench.sandbox import Mount

_IN_OPEN = 0x20
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
# Each watch counts against the user's limit of inotify watches, which all cells share.
_MAX_DECOYS = 200
_USED_UP = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM)
"""Refusals of the kernel for want of handles or watches."""
_MAX_NAMED = 5
_SECRET_PARTS = ("hidden", "solution", "wrong")
_TEXT = b"Nothing of the judge's is in this sandbox. Opening this file has been noted in the record.\n"


class Decoys:
    """Decoys of one cell, watched from their making until `close`."""

    def __init__(self, folder: Path, case: Case, run_folder: Path) -> None:
        """`folder`: for the decoys, of this cell alone. `run_folder`: where other cells leave their files."""
        self._notify: _Inotify | None = None
        self.unwatched = ""
        """Why openings of some go unnoticed; empty: they do not. An agent beside this cell may have used up what the
        kernel gives a user to watch with, and is not to cost this cell its verdict."""
        with self._as_far_as_possible():
            self._notify = _Inotify()
        self.mounts: list[Mount] = []
        """The decoys at the paths of this machine, and at a path that is easily guessed."""
        self._names: dict[int, str] = {}
        checkout = case.folder.parents[2]
        folders = {
            "case": (case.folder, _secret_names(case)),
            **({"parent": (case.parent, _secret_names(case))} if case.parent is not None else {}),
            "git": (checkout / ".git", ["HEAD", "index", "packed-refs"]),
            "run": (run_folder, ["run.json", "cells/other.json", "traces/other/agent.log"]),
        }
        for kind, (real, names) in folders.items():
            for name in names:
                decoy = folder / kind / name
                write_atomic(decoy, _TEXT)
                if self._notify is not None:
                    with self._as_far_as_possible():
                        self._names[self._notify.watch(decoy)] = f"{real.name}/{name}"
            self.mounts.append(Mount(folder / kind, str(real)))
        self.mounts.append(Mount(folder / "case", f"/cases/{case.spec.category}/{case.id}"))

    def evidence(self) -> str:
        """What was opened since the last call, in words and in order of the first time; empty when nothing was."""
        if self._notify is None:
            return ""
        found = list(dict.fromkeys(self._names[watch] for watch in self._notify.opened() if watch in self._names))
        more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
        return f"opened decoys of {', '.join(found[:_MAX_NAMED])}{more}" if found else ""

    def close(self) -> None:
        if self._notify is not None:
            self._notify.close()

    @contextlib.contextmanager
    def _as_far_as_possible(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in _USED_UP:
                raise
            self.unwatched = f"the kernel refused to watch decoys: {error.strerror}"


def _secret_names(case: Case) -> list[str]:
    """Relative paths of what the agent must not see; a case's folder has no other secret."""
    names = ["check.py"]
    for part in _SECRET_PARTS:
        names += [f"{part}/{name}" for name, _ in walk_files(case.part(part))]
    return names[:_MAX_DECOYS]


class _Inotify:
    """The kernel's inotify, as far as it is needed here: openings of single files."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")

    def watch(self, path: Path) -> int:
        number = int(self._libc.inotify_add_watch(self._handle, os.fsencode(path), _IN_OPEN))
        if number < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch failed", str(path))
        return number

    def opened(self) -> Iterator[int]:
        """Numbers of the watches that have reported since the last call."""
        while True:
            try:
                data = os.read(self._handle, _READ_BYTES)
            except BlockingIOError:
                return
            position = 0
            while position < len(data):
                watch, _, _, length = _EVENT.unpack_from(data, position)
                position += _EVENT.size + length
                yield watch

    def close(self) -> None:
        os.close(self._handle)
