"""Where traces go: a folder (which may become an artifact), or whatever fsspec reaches by a URL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.base.errors import UserError
from bench.base.files import sha256_bytes, write_atomic
from bench.formats.record import Record
from bench.store.append import manifest_of
from bench.store.artifacts import Artifact, Refusal, read_file
from bench.store.bundle import StoredTrace, parse_manifest
from bench.store.collect import Taken
from bench.store.git.backend import BranchBackend, Tip, TryAgain, find
from bench.store.git.git_backend import open_backend
from bench.store.traces import (
    INLINE_BYTES,
    INLINE_RUN_BYTES,
    MAX_TRACE_BYTES,
    Packed,
    inflate,
    is_kept,
    is_safe_name,
    key_of,
    pack,
)

INLINE = "inline"
_FOLDER = "folder:"
_MAX_STORED_BYTES = MAX_TRACE_BYTES + (1 << 20)
"""gzip makes nothing larger than this out of a trace."""
SAMPLE = 0.1
"""Share of the successes whose traces are kept."""


class TraceStorage(Protocol):
    """Somewhere to keep archives by the digest of what they hold; the same one twice is one."""

    def put(self, packed: Packed) -> str:
        """Store an archive; the place as manifests name it. Raises `UserError`."""

    def get(self, digest: str) -> bytes:
        """The stored archive, still compressed; raises `UserError`."""


@dataclass(frozen=True)
class FolderStorage:
    """A folder of this machine. Manifests name the path below it, because the folder itself will travel."""

    folder: Path

    def put(self, packed: Packed) -> str:
        path = self.folder / packed.key
        try:
            if not path.is_file() or path.stat().st_size != len(packed.data):
                write_atomic(path, packed.data)
        except OSError as error:
            raise UserError(f"cannot be written: {error.strerror}", where=path, remedy="name another folder") from None
        return f"{_FOLDER}{packed.key}"

    def get(self, digest: str) -> bytes:
        path = self.folder / key_of(digest)
        try:
            with path.open("rb") as file:
                return file.read(_MAX_STORED_BYTES)
        except OSError as error:
            raise UserError(f"cannot be read: {error.strerror}", where=path, remedy="is it the right folder?") from None


@dataclass(frozen=True)
class UrlStorage:
    """A place that fsspec knows: s3, gs, az, sftp, memory and others, each with its own package."""

    url: str
    system: Any
    """An fsspec file system; fsspec has no types."""
    root: str

    def put(self, packed: Packed) -> str:
        path = f"{self.root}/{packed.key}"
        try:
            if not self.system.exists(path) or self.system.size(path) != len(packed.data):
                self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self.system.pipe_file(path, packed.data)
        except Exception as error:  # every back end has its own kinds
            raise _failed(error, self.url) from None
        return f"{self.url}/{packed.key}"

    def get(self, digest: str) -> bytes:
        path = f"{self.root}/{key_of(digest)}"
        try:
            content = self.system.cat_file(path, start=0, end=_MAX_STORED_BYTES)
        except Exception as error:
            raise _failed(error, f"{self.url}/{key_of(digest)}") from None
        assert isinstance(content, bytes)
        return content


def open_trace_storage(where: str) -> TraceStorage:
    """The place named by a folder or a URL; raises `UserError`. Credentials never belong into the URL."""
    if "://" not in where:
        return FolderStorage(Path(where))
    if re.match(r"[^:/?#]+://[^/]*@", where):
        raise UserError(
            "carries credentials, which every manifest would show",
            where="--traces",
            remedy="leave them to the environment, where fsspec finds them",
        )
    try:
        import fsspec
    except ImportError:
        raise UserError(
            "needs fsspec", where="--traces", remedy="pip install 'ml-dev-bench[traces]', or name a folder"
        ) from None
    url = where.rstrip("/")
    try:
        system, root = fsspec.core.url_to_fs(url)
    except Exception as error:
        raise _failed(error, url) from None
    return UrlStorage(url, system, str(root))


def fetch(trace: StoredTrace, place: TraceStorage | None) -> bytes:
    """The archive that a manifest names, whole and proven; `place` None: where the manifest says.

    Raises `UserError`, also for a trace that lies inline: that one is read from the branch.
    """
    if place is None:
        if trace.place == INLINE or trace.place.startswith(_FOLDER):
            raise UserError(f"was kept in {trace.place}", where=trace.cell, remedy="name the folder with --traces")
        place = open_trace_storage(trace.place.removesuffix(f"/{key_of(trace.digest)}"))
    return inflate(place.get(trace.digest), trace.digest, key_of(trace.digest))


def _failed(error: Exception, url: str) -> UserError:
    text = " ".join(str(error).split())[:300]
    return UserError(f"{type(error).__name__}: {text}", where=url, remedy="check the address, the package, the access")


@dataclass(frozen=True)
class StoredTraces:
    """The traces of a run."""

    traces: list[StoredTrace]
    place: BranchBackend
    tip: Tip

    def read(self, trace: StoredTrace, where: TraceStorage | None) -> bytes:
        """The archive of a trace, proven to be what was stored; `where` None: as the manifest says.

        Raises `UserError`.
        """
        if trace.place != INLINE:
            return fetch(trace, where)
        path = f"traces/{key_of(trace.digest)}"
        entry = find(self.place, self.tip.tree, [path]).get(path)
        if entry is None:
            raise UserError("is gone", where=path, remedy="`results verify` tells what else is")
        return inflate(self.place.blob(entry.sha), trace.digest, path)


@contextmanager
def open_stored_traces(repository: Path | str, branch: str, run: str, attempt: int) -> Iterator[StoredTraces]:
    """The traces of a stored run; raises `UserError` where there is no such run."""
    try:
        with open_backend(repository, branch) as place:
            tip = place.tip()
            path = manifest_of(place, tip, f"{run}-{attempt}") if tip else None
            entry = find(place, tip.tree, [path]).get(path) if tip and path else None
            if tip is None or path is None or entry is None:
                raise UserError("no such run is stored", where=f"run {run}, attempt {attempt}", remedy="name another")
            yield StoredTraces(parse_manifest(place.blob(entry.sha), path).traces, place, tip)
    except TryAgain as fault:
        raise UserError(str(fault), where=str(repository), remedy="check the address and the network") from None


@dataclass(frozen=True)
class Kept:
    """The traces that were stored, or that the bundle shall bring along."""

    traces: list[StoredTrace]
    inline: dict[str, bytes]
    """Path on the results branch and content."""
    refused: list[Refusal]


def keep_traces(
    taken: Sequence[Taken],
    place: TraceStorage | None,
    sample: float,
    progress: Callable[[str], None] = lambda line: None,
) -> Kept:
    """Store the traces of all that did not succeed and of a sample of the rest.

    place: None keeps small ones inline, a few of the run, failures before successes. Raises `UserError` where the
    place fails: results without their evidence are not published.
    """
    kept = Kept([], {}, [])
    wanted = [item for item in taken if is_kept(item.record, sample)]
    room = INLINE_RUN_BYTES
    for number, item in enumerate(sorted(wanted, key=lambda item: (bool(item.record.success), item.record.cell)), 1):
        progress(f"trace {number} of {len(wanted)}")
        packed = _packed(item, kept.refused)
        if packed is None:
            continue
        if place is not None:
            where = place.put(packed)
        elif len(packed.data) <= min(INLINE_BYTES, room):
            where = INLINE
            room -= len(packed.data)
            kept.inline[inline_path(packed)] = packed.data
        else:
            continue
        kept.traces.append(
            StoredTrace(
                cell=item.record.cell,
                digest=packed.digest,
                size=packed.size,
                stored=len(packed.data),
                place=where,
                left_out=packed.left_out,
            )
        )
    return kept


def inline_traces(records: Sequence[Record], folder: Path) -> Kept:
    """The small traces of a run of this machine, from its own folder."""
    artifact = Artifact(folder.name, folder)
    return keep_traces([Taken(record, artifact, record.cell, 0) for record in records], None, SAMPLE)


def inline_path(packed: Packed) -> str:
    """Where an inline trace lies on the results branch."""
    return f"traces/{packed.key}"


def _packed(item: Taken, refused: list[Refusal]) -> Packed | None:
    """The files that the record names, each proven to be what it says; None where there are none."""
    files: dict[str, bytes] = {}
    left_out, room = 0, MAX_TRACE_BYTES
    for artifact in item.record.artifacts:
        if not artifact.place.startswith("traces/") or not is_safe_name(artifact.name) or artifact.size > room:
            left_out += 1
            continue
        content = read_file(item.artifact, artifact.place, artifact.size)
        where = f"{item.artifact.name}/{artifact.place}"
        if isinstance(content, str):
            refused.append(Refusal(where, content))
        elif sha256_bytes(content) != artifact.digest:
            refused.append(Refusal(where, "is not the file that its record names: its digest differs"))
        else:
            files[artifact.name] = content
            room -= len(content)
    try:
        return pack(files, left_out) if files else None
    except (ValueError, UnicodeError) as error:
        raise UserError(str(error), where=item.where, remedy="this is a fault of ml-dev-bench: report it") from None
