"""Where traces go: a folder (which may become an artifact), or whatever fsspec reaches by a URL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.errors import UserError
from bench.files import write_atomic
from bench.store.manifest import StoredTrace
from bench.store.traces import MAX_TRACE_BYTES, Packed, inflate, key_of

INLINE = "inline"
_FOLDER = "folder:"
_MAX_STORED_BYTES = MAX_TRACE_BYTES + (1 << 20)
"""gzip makes nothing larger than this out of a trace."""


class TracePlace(Protocol):
    """Somewhere to keep archives by the digest of what they hold; the same one twice is one."""

    def put(self, packed: Packed) -> str:
        """Store an archive; the place as manifests name it. Raises `UserError`."""

    def get(self, digest: str) -> bytes:
        """The stored archive, still compressed; raises `UserError`."""


@dataclass(frozen=True)
class FolderPlace:
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
class UrlPlace:
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


def open_trace_place(where: str) -> TracePlace:
    """The place named by a folder or a URL; raises `UserError`. Credentials never belong into the URL."""
    if "://" not in where:
        return FolderPlace(Path(where))
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
    return UrlPlace(url, system, str(root))


def fetch(trace: StoredTrace, place: TracePlace | None) -> bytes:
    """The archive that a manifest names, whole and proven; `place` None: where the manifest says.

    Raises `UserError`, also for a trace that lies inline: that one is read from the branch.
    """
    if place is None:
        if trace.place == INLINE or trace.place.startswith(_FOLDER):
            raise UserError(f"was kept in {trace.place}", where=trace.cell, remedy="name the folder with --traces")
        place = open_trace_place(trace.place.removesuffix(f"/{key_of(trace.digest)}"))
    return inflate(place.get(trace.digest), trace.digest, key_of(trace.digest))


def _failed(error: Exception, url: str) -> UserError:
    text = " ".join(str(error).split())[:300]
    return UserError(f"{type(error).__name__}: {text}", where=url, remedy="check the address, the package, the access")
