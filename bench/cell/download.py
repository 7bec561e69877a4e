"""One file of a known digest: resumed where it broke off, and put in its place whole or not at all."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import lock
from bench.cell.origins import BrokenOffError, Origin, RefusedError
from bench.formats.case_sources import DataSource

Progress = Callable[[int], None]
"""Is told how many bytes are there."""
Wait = Callable[[float], object]
_TRIES = 5
"""Without a single new byte."""
_MOST_TRIES = 1000
_LONGEST_WAIT_S = 30.0
_CHUNK = 1 << 20


def download(
    source: DataSource,
    place: Path,
    origins: Sequence[Origin],
    progress: Progress,
    wait: Wait = time.sleep,
) -> str:
    """Have the file at `place`, from the first of `origins` that gives it; returns its name, empty: it was there.

    What an earlier download has left is gone on with. Of two processes the second waits, and finds the file. Raises
    `UserError` naming why each origin failed.
    """
    with lock(place.with_name(f".{place.name}.lock")):
        if holds(place, source):
            return ""
        faults = []
        for origin in origins:
            try:
                _fetch(source, place, origin, progress, wait)
                return origin.name
            except (RefusedError, BrokenOffError) as fault:
                faults.append(f"{origin.name}: {fault}")
    remedy = "check address and network, then start again; what has arrived is kept"
    raise UserError("; ".join(faults) or "it has no address", where=source.file_name, remedy=remedy)


def holds(place: Path, source: DataSource) -> bool:
    """Whether the file at `place` is the one: by size and digest."""
    try:
        return place.stat().st_size == source.bytes and _sha256(place) == source.sha256
    except OSError:
        return False


def partial_bytes(place: Path) -> int:
    """Bytes that an unfinished download has left."""
    try:
        return _part(place).stat().st_size
    except OSError:
        return 0


def _part(place: Path) -> Path:
    return place.with_name(f"{place.name}.part")


def _fetch(source: DataSource, place: Path, origin: Origin, progress: Progress, wait: Wait) -> None:
    part = _part(place)
    # What an earlier one has left may be another origin's wrong bytes: then once more, from the beginning.
    tries = 2 if partial_bytes(place) else 1
    for number in range(1, tries + 1):
        _fill(part, source.bytes, origin, progress, wait)
        if (found := _sha256(part)) == source.sha256:
            os.replace(part, place)
            return
        part.unlink()
        if number == tries:
            raise RefusedError(f"its sha256 is {found}, case.yaml says {source.sha256}")


def _fill(part: Path, size: int, origin: Origin, progress: Progress, wait: Wait) -> None:
    """Have `size` bytes in `part`; a connection that breaks off is made again, from there."""
    fruitless = 0
    for _ in range(_MOST_TRIES):
        have = _size(part)
        if have > size:
            part.unlink()
            have = 0
        if have == size:
            return
        try:
            _append(part, have, size, origin, progress)
            fault = BrokenOffError(f"broke off after {_size(part):,} of {size:,} bytes")
        except BrokenOffError as error:
            fault = error
        if _size(part) == size:
            return
        fruitless = 0 if _size(part) > have else fruitless + 1
        if fruitless == _TRIES:
            raise fault
        wait(min(2.0**fruitless, _LONGEST_WAIT_S))
    raise BrokenOffError(f"broke off {_MOST_TRIES} times")


def _append(part: Path, have: int, size: int, origin: Origin, progress: Progress) -> None:
    start, pieces = origin.open(have, size)
    with part.open("r+b" if have else "wb") as file:
        file.truncate(start)
        file.seek(start)
        for piece in pieces:
            if file.tell() + len(piece) > size:
                raise RefusedError(f"it sends more than the {size:,} bytes that case.yaml says")
            file.write(piece)
            progress(file.tell())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()
