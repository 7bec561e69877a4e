"""Traces: what is stored of a cell beside its record, as one archive that its own digest names.

An archive is a plain tar (sorted names, no times, no owners: the same files give the same bytes), compressed with gzip.
Its address is the SHA-256 of the tar, so that another compressor changes nothing. What it holds was written by agents:
it is only ever read with caps, and unpacked below a folder that did not exist.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.text import printable
from bench.formats.record import Record

MAX_TRACE_BYTES = 64 << 20
"""Before compression; larger files are left out and counted."""
MAX_MEMBERS = 2000
INLINE_BYTES = 16 << 10
"""A compressed trace of at most this size may lie on the results branch itself."""
INLINE_RUN_BYTES = 256 << 10
"""All inline traces of a run together."""
_MAX_NAME = 500
_MAX_DEPTH = 16
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True)
class Packed:
    """A trace, ready to be stored."""

    digest: str
    size: int
    """Bytes before compression."""
    data: bytes
    """The compressed archive."""
    left_out: int

    @property
    def key(self) -> str:
        return key_of(self.digest)


def key_of(digest: str) -> str:
    """The path of an archive in its storage: `sha256/<two digits>/<digest>.tar.gz`."""
    name = digest.removeprefix("sha256:")
    return f"sha256/{name[:2]}/{name}.tar.gz"


def inline_path(digest: str) -> str:
    """Where an inline trace lies on the results branch."""
    return f"traces/{key_of(digest)}"


def is_wanted(record: Record, sample: float) -> bool:
    """Is this cell's trace stored? Of everything but a success always, of successes a share of `sample` in [0, 1].

    The share is drawn from the run and the cell, so that every machine gets the same answer.
    """
    if not (record.outcome == "graded" and record.success):
        return True
    drawn = hashlib.sha256(f"{record.provenance.run}\0{record.cell}".encode()).digest()
    return int.from_bytes(drawn[:8], "big") < sample * 2**64


def storing_order(name: str, size: int) -> tuple[bool, int, str]:
    """Which files go first where the cap does not let in all: the runner's own, and of each kind the smallest.

    An agent could otherwise push the record of its calls out, with many files just below its size.
    """
    return name.startswith("out/"), size, name


def pack(files: Mapping[str, bytes], left_out: int = 0) -> Packed:
    """Files by their relative names as one archive, in `storing_order` where the cap does not let in all."""
    chosen: dict[str, bytes] = {}
    # tar pads its end to whole records, and each file to blocks; long names take an extended header.
    room = MAX_TRACE_BYTES - 2 * tarfile.RECORDSIZE
    for name, content in sorted(files.items(), key=lambda item: storing_order(item[0], len(item[1]))):
        room -= len(content) + 4 * tarfile.BLOCKSIZE + 2 * len(name.encode("utf-8", "surrogateescape"))
        if room < 0 or len(chosen) >= MAX_MEMBERS or not is_safe_name(name):
            left_out += 1
            continue
        chosen[name] = content
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(chosen.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    raw = archive.getvalue()
    # Without a time in the header, the same files are the same bytes.
    return Packed(sha256_bytes(raw), len(raw), gzip.compress(raw, compresslevel=6, mtime=0), left_out)


def inflate(data: bytes, digest: str, where: str) -> bytes:
    """The archive in `data`, decompressed to at most `MAX_TRACE_BYTES`; raises `UserError` unless it has `digest`."""
    stream = zlib.decompressobj(wbits=31)
    try:
        # One byte more than allowed tells too large an archive from one of exactly this size.
        raw = stream.decompress(data, MAX_TRACE_BYTES + 1)
    except zlib.error as error:
        raise UserError(f"is not a gzip archive: {error}", where=where, remedy="fetch it again") from None
    if len(raw) > MAX_TRACE_BYTES:
        raise UserError(
            f"unpacks to more than {MAX_TRACE_BYTES} bytes",
            where=where,
            remedy="this is not a stored trace",
        )
    if not stream.eof or sha256_bytes(raw) != digest:
        raise UserError("does not match its digest", where=where, remedy="fetch it again")
    return raw


def unpack(raw: bytes, target: Path) -> list[str]:
    """Write an archive's files below `target`, which must not exist; returns their names.

    Only regular files with safe names are accepted. Anything else is a `UserError`, before anything is written.
    """
    members = list(_members(raw))
    try:
        target.mkdir(parents=True)
    except FileExistsError:
        raise UserError("exists", where=target, remedy="name a folder that does not") from None
    for name, content in members:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
            file.write(content)
    return [name for name, _ in members]


def is_safe_name(name: str) -> bool:
    """Is this a relative path that stays where it is put, on any system, and that can be printed?"""
    parts = name.split("/")
    return (
        0 < len(name) <= _MAX_NAME
        and name.isprintable()
        and "\\" not in name
        and not _DRIVE.match(name)
        and len(parts) <= _MAX_DEPTH
        and all(part not in ("", ".", "..") for part in parts)
        and all(len(part.encode("utf-8", "surrogateescape")) < 256 for part in parts)
    )


def _members(raw: bytes) -> Iterator[tuple[str, bytes]]:
    seen: set[str] = set()
    total = 0
    try:
        # "r:": the archive is plain; decompressing once more could expand a bomb.
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as tar:
            for number, member in enumerate(tar):
                total += member.size
                if number >= MAX_MEMBERS or total > len(raw):
                    raise UserError("holds more than a trace can", where="archive", remedy="this is not a stored trace")
                file = tar.extractfile(member) if member.isreg() and not member.issparse() else None
                if file is None or not is_safe_name(member.name) or _clashes(member.name, seen):
                    where = printable(member.name, 200)
                    raise UserError("is not a file with a safe name", where=where, remedy="nothing was unpacked")
                yield member.name, file.read()
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise UserError(f"is not a tar archive: {error}", where="archive", remedy="fetch it again") from None


def _clashes(name: str, seen: set[str]) -> bool:
    """Would this file replace another one, or a folder, also on a file system that ignores case?"""
    folded = name.casefold()
    above = {folded[:end] for end in (m.start() for m in re.finditer("/", folded))}
    taken = folded in seen or f"{folded}/" in seen or any(folder in seen for folder in above)
    seen.add(folded)
    seen.update(f"{folder}/" for folder in above)
    return taken
