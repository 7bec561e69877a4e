"""Changes at the very moment at which the workspace is looked at."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import facts
from survive import _detach

_LIFE_S = 10.0


def _swap(path: Path, other: Path, until: float) -> None:
    """Let `path` be a file, a link, a folder and a pipe in turn, as fast as it goes."""
    target = facts.FACTS["places"]["solution"][0]
    turn = 0
    while time.monotonic() < until:
        turn += 1
        with contextlib.suppress(OSError):
            if turn % 4 == 0:
                other.write_bytes(b"{}")
            elif turn % 4 == 1:
                other.symlink_to(target)
            elif turn % 4 == 2:
                other.mkdir()
            else:
                os.mkfifo(other)
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            os.rename(other, path)


def swapped_results() -> None:
    """Processes that swap results with links, folders and pipes while the agent ends and afterwards."""
    for path in facts.outputs():
        for number in range(2):
            if _detach():
                _swap(path, path.with_name(f".{path.name}.{number}"), time.monotonic() + _LIFE_S)
                os._exit(0)
    time.sleep(0.3)


def swapped_folders() -> None:
    """The folder that holds a result becomes a link out of the workspace and back."""
    inner = facts.WORKSPACE / "inner"
    inner.mkdir(exist_ok=True)
    (inner / "file").write_text("x")
    if _detach():
        until = time.monotonic() + _LIFE_S
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                os.rename(inner, facts.WORKSPACE / "away")
                os.symlink("/proc/self/root", inner)
                os.unlink(inner)
                os.rename(facts.WORKSPACE / "away", inner)
        os._exit(0)
    time.sleep(0.3)


def growing_files() -> None:
    """Files that are cut short and grow while somebody reads them."""
    for path in facts.outputs():
        if _detach():
            until = time.monotonic() + _LIFE_S
            with path.open("r+b" if path.exists() else "w+b") as file:
                while time.monotonic() < until:
                    file.truncate(0)
                    file.write(b"x" * 65536)
                    file.flush()
            os._exit(0)
    time.sleep(0.2)


def locked_folders() -> None:
    """Folders without any permission, and files that nobody may read, write or remove."""
    for path in facts.outputs():
        with contextlib.suppress(OSError):
            path.write_bytes(b"{}")
        path.chmod(0)
    for number in range(20):
        folder = facts.WORKSPACE / f"locked-{number}" / "inner"
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
        folder.chmod(0)
        folder.parent.chmod(0)
    facts.WORKSPACE.chmod(0)
    facts.OUT.chmod(0o700)
