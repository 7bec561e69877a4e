"""Storing and reading traces: in a folder (which may become an artifact), at a URL, or inline on the branch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bench.base.errors import UserError
from bench.base.files import sha256_bytes, write_atomic
from bench.formats.record import Record
from bench.store.append import key_path, manifest_of, stored_manifest
from bench.store.artifacts import Artifact, Refusal, read_file
from bench.store.bundle import StoredTrace
from bench.store.git.backend import BranchBackend, Tip, TryAgain, find
from bench.store.git.git_backend import open_backend
from bench.store.traces import (
    INLINE_BYTES,
    INLINE_RUN_BYTES,
    MAX_TRACE_BYTES,
    Packed,
    inflate,
    inline_path,
    is_safe_name,
    is_wanted,
    key_of,
    pack,
    storing_order,
)

if TYPE_CHECKING:
    from bench.store.merge import Taken

INLINE = "inline"
_FOLDER = "folder:"
_MAX_STORED_BYTES = MAX_TRACE_BYTES + (1 << 20)
"""gzip makes nothing larger than this out of a trace."""
_MOST_ATTEMPTS = 9
"""At one run, whose traces are looked for."""
SAMPLE = 0.1
"""Share of the successes whose traces are stored."""


class TraceStorage(Protocol):
    """Somewhere to keep archives by the digest of what they hold; the same one twice is one."""

    def put(self, packed: Packed) -> str:
        """Store an archive; its place as manifests name it. Raises `UserError`."""

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
    """A storage that fsspec knows: s3, gs, az, sftp, memory and others, each with its own package."""

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
    """The storage named by a folder or a URL; raises `UserError`. Credentials never belong in the URL."""
    if "://" not in where:
        return FolderStorage(Path(where))
    if re.match(r"[^:/?#]+://[^/]*@", where):
        raise UserError(
            "contains credentials, which every manifest would show",
            where="--traces",
            remedy="put them into the environment, where fsspec finds them",
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


def fetch(trace: StoredTrace, storage: TraceStorage | None) -> bytes:
    """The archive that a manifest names, with its digest checked; `storage` None: where the manifest says.

    Raises `UserError`, also for a trace that lies inline: that one is read from the branch.
    """
    if storage is None:
        if trace.place == INLINE or trace.place.startswith(_FOLDER):
            raise UserError(f"was stored in {trace.place}", where=trace.cell, remedy="name the folder with --traces")
        storage = open_trace_storage(trace.place.removesuffix(f"/{key_of(trace.digest)}"))
    return inflate(storage.get(trace.digest), trace.digest, key_of(trace.digest))


def _failed(error: Exception, url: str) -> UserError:
    text = " ".join(str(error).split())[:300]
    return UserError(f"{type(error).__name__}: {text}", where=url, remedy="check the address, the package, the access")


@dataclass(frozen=True)
class StoredTraces:
    """The traces of a run."""

    traces: list[StoredTrace]
    backend: BranchBackend
    tip: Tip

    def read(self, trace: StoredTrace, where: TraceStorage | None) -> bytes:
        """The archive of a trace, with its digest checked; `where` None: as the manifest says.

        Raises `UserError`.
        """
        if trace.place != INLINE:
            return fetch(trace, where)
        path = inline_path(trace.digest)
        entry = find(self.backend, self.tip, [path]).get(path)
        if entry is None:
            raise UserError("file is missing", where=path, remedy="`results verify` lists what else is missing")
        return inflate(self.backend.blob(entry.sha), trace.digest, path)


@contextmanager
def open_stored_traces(repository: Path | str, branch: str, run: str, attempt: int) -> Iterator[StoredTraces]:
    """The traces of a stored run; raises `UserError` where there is no such run."""
    try:
        with open_backend(repository, branch) as backend:
            tip = backend.tip()
            path = manifest_of(backend, tip, f"{run}-{attempt}") if tip else None
            manifest = stored_manifest(backend, tip, path) if tip and path else None
            if tip is None or manifest is None:
                raise UserError("no such run is stored", where=f"run {run}, attempt {attempt}", remedy="name another")
            yield StoredTraces(manifest.traces, backend, tip)
    except TryAgain as fault:
        raise UserError(str(fault), where=str(repository), remedy="check the address and the network") from None


class TraceReader:
    """The traces of every run of a branch, each manifest read once."""

    def __init__(self, backend: BranchBackend) -> None:
        self._backend, self._tip = backend, backend.tip()
        self._of_run: dict[str, list[StoredTrace]] = {}

    def of_run(self, run: str) -> list[StoredTrace]:
        """Of all its attempts, the first one first; empty where there is no such run. Raises `UserError`."""
        if run not in self._of_run:
            keys = [key_path(f"{run}-{attempt}") for attempt in range(1, _MOST_ATTEMPTS + 1)]
            held = find(self._backend, self._tip, keys)
            paths = [
                self._backend.blob(held[key].sha).decode("utf-8", "replace").strip() for key in keys if key in held
            ]
            found = [stored_manifest(self._backend, self._tip, path) for path in paths if self._tip is not None]
            self._of_run[run] = [trace for manifest in found if manifest for trace in manifest.traces]
        return self._of_run[run]

    def read(self, trace: StoredTrace) -> bytes:
        """The archive of a trace, with its digest checked; raises `UserError`."""
        assert self._tip is not None
        return StoredTraces([trace], self._backend, self._tip).read(trace, None)


@contextmanager
def open_trace_reader(repository: Path | str, branch: str) -> Iterator[TraceReader]:
    """The traces of a branch; raises `UserError` where it cannot be reached."""
    try:
        with open_backend(repository, branch) as backend:
            yield TraceReader(backend)
    except TryAgain as fault:
        raise UserError(str(fault), where=str(repository), remedy="check the address and the network") from None


@dataclass(frozen=True)
class PreparedTraces:
    """Traces that are stored already, or that the bundle brings along."""

    traces: list[StoredTrace]
    inline: dict[str, bytes]
    """Path on the results branch and content."""
    refused: list[Refusal]


def store_traces(
    taken: Sequence[Taken],
    storage: TraceStorage | None,
    sample: float,
    progress: Callable[[str], None] = lambda line: None,
) -> PreparedTraces:
    """Store the traces of all that did not succeed and of a sample of the rest.

    storage: None puts small ones inline, a few of the run, failures before successes. Raises `UserError` where the
    storage fails: results without their evidence are not published.
    """
    prepared = PreparedTraces([], {}, [])
    wanted = [item for item in taken if is_wanted(item.record, sample)]
    room = INLINE_RUN_BYTES
    for number, item in enumerate(sorted(wanted, key=lambda item: (bool(item.record.success), item.record.cell)), 1):
        progress(f"trace {number} of {len(wanted)}")
        packed = _packed(item, prepared.refused)
        if packed is None:
            continue
        if storage is not None:
            where = storage.put(packed)
        elif len(packed.data) <= min(INLINE_BYTES, room):
            where = INLINE
            room -= len(packed.data)
            prepared.inline[inline_path(packed.digest)] = packed.data
        else:
            continue
        prepared.traces.append(
            StoredTrace(
                cell=item.record.cell,
                digest=packed.digest,
                size=packed.size,
                stored=len(packed.data),
                place=where,
                left_out=packed.left_out,
            )
        )
    return prepared


def inline_traces(records: Sequence[Record], folder: Path) -> PreparedTraces:
    """The small traces of a run of this machine, from its own folder."""
    from bench.store.merge import Taken  # whoever reads a trace would wait for it

    here = Artifact(folder.name, folder)
    return store_traces([Taken(record, here, record.cell, 0) for record in records], None, SAMPLE)


def _packed(item: Taken, refused: list[Refusal]) -> Packed | None:
    """The files that the record names, each with its digest checked; None where there are none."""
    files: dict[str, bytes] = {}
    left_out, room = 0, MAX_TRACE_BYTES
    for artifact in sorted(item.record.artifacts, key=lambda it: storing_order(it.name, it.size)):
        if not artifact.place.startswith("traces/") or not is_safe_name(artifact.name) or artifact.size > room:
            left_out += 1
            continue
        content = read_file(item.artifact, artifact.place, artifact.size)
        if isinstance(content, bytes) and sha256_bytes(content) == artifact.digest:
            files[artifact.name] = content
            room -= len(content)
        else:
            why = content if isinstance(content, str) else "does not match the digest in its record"
            refused.append(Refusal(f"{item.artifact.name}/{artifact.place}", why))
    try:
        return pack(files, left_out) if files else None
    except (ValueError, UnicodeError) as error:
        raise UserError(str(error), where=item.where, remedy="report this fault of ml-dev-bench") from None
