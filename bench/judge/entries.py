"""Whether a folder of the agent's holds what it shall and nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from bench.judge.values import shown

if TYPE_CHECKING:
    from bench.judge.files import Folder

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def holds_only(folder: Folder, below: str, names: Iterable[str], parts: Sequence[str] = (".",)) -> None:
    """A failed check unless the folder `below` holds the regular files `names`, their folders, and nothing else.

    For what task.md calls "nothing else": an empty folder, a link, a file that is nested deeper or of another ending
    are something else, and so are `__pycache__` and names that begin with a dot. names: paths within `below`. parts:
    folders of it, such as `train`, if elsewhere in it more may lie.
    """
    wanted, what = set(names), shown(below)
    folders = {*parts, *(str(parent) for name in wanted for parent in PurePosixPath(name).parents)}
    there, other = set(), []
    for name, entry in _entries(folder, below, folders):
        if name in wanted and entry.is_file(follow_symlinks=False):
            there.add(name)
        elif name not in folders or not entry.is_dir(follow_symlinks=False):
            other += [name] * any(PurePosixPath(name).is_relative_to(part) for part in parts)
    missing = sorted(wanted - there)
    assert not missing, f"{what} lacks {len(missing)} of {len(wanted)} files, such as {shown(missing[0])}"
    assert not other, f"{what} has {len(other)} entries that do not belong there, such as {shown(min(other))}"


def _entries(folder: Folder, below: str, folders: set[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """What lies in `below` and in the `folders` that belong there, as paths within it; links are not followed."""
    inside = not below.startswith("/") and ".." not in PurePosixPath(below).parts
    assert inside, f"{shown(below)} is not a path inside the workspace"
    for name in sorted(folders):
        place = PurePosixPath(below, name)
        try:
            if _linked(folder.root, place):
                continue
            with os.scandir(folder.root / place) as entries:
                yield from ((str(PurePosixPath(name, entry.name)), entry) for entry in entries)
        except PermissionError:
            raise AssertionError(f"{shown(str(place))} cannot be listed") from None
        except (OSError, ValueError) as error:
            # Some paths come from what the agent has written, and some of these no folder can have.
            if isinstance(error, OSError) and error.errno not in _ABSENT:
                raise


def _linked(root: Path, place: PurePosixPath) -> bool:
    """Whether a link is on the way to a place inside of `root`."""
    return any((root / part).is_symlink() for part in (place, *place.parents) if part.parts)
