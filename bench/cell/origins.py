"""Where a file of a known digest may come from: its address, or a cache that machines share.

A cache is a folder, an object storage that fsspec knows (`s3://`, `gs://`), or a mirror at `https://`, which is only
read.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from bench.base.errors import UserError

SHARED_CACHE = "MLDB_DATA_CACHE"
"""Environment variable that names the shared cache."""
_CHUNK = 1 << 18
_TIMEOUT_S = 60.0
_WORTH_ANOTHER_TRY = (408, 425, 429)
_SATISFIED = 416


class RefusedError(Exception):
    """The file is not to be had there."""


class BrokenOffError(Exception):
    """It may be, at another try."""


class Origin(Protocol):
    """One place to read from."""

    @property
    def name(self) -> str:
        """For people."""

    def open(self, offset: int, size: int) -> tuple[int, Iterator[bytes]]:
        """Where the answer begins, which is `offset` or 0, and its bytes; raises `RefusedError`, `BrokenOffError`."""

    def look(self, size: int) -> None:
        """Raise one of them where a file of this size is not there now."""


@dataclass(frozen=True)
class HttpOrigin:
    """A web server; one that does not know ranges sends everything again."""

    url: str
    timeout_s: float = _TIMEOUT_S

    @property
    def name(self) -> str:
        return self.url

    def look(self, size: int) -> None:
        # Some servers answer HEAD in another way than GET.
        with closing(self._answer({"Range": "bytes=0-0"})) as answer:
            _begin(answer, 0, size)

    def open(self, offset: int, size: int) -> tuple[int, Iterator[bytes]]:
        answer = self._answer({"Range": f"bytes={offset}-"} if offset else {})
        try:
            start = _begin(answer, offset, size)
        except BaseException:
            answer.close()
            raise
        return start, _pieces(answer)

    def _answer(self, headers: Mapping[str, str]) -> HTTPResponse:
        usual = {"User-Agent": "ml-dev-bench", "Accept-Encoding": "identity"}
        request = Request(self.url, headers={**usual, **headers})  # noqa: S310  DataSource lets only http pass
        try:
            answer = urlopen(request, timeout=self.timeout_s)  # noqa: S310
        except HTTPError as error:
            error.close()
            if error.code == _SATISFIED:
                raise RefusedError("it is shorter than case.yaml says (HTTP 416)") from None
            kind = BrokenOffError if error.code >= 500 or error.code in _WORTH_ANOTHER_TRY else RefusedError
            raise kind(f"HTTP {error.code}") from None
        except (URLError, OSError, HTTPException) as error:
            raise BrokenOffError(f"does not answer: {getattr(error, 'reason', error)}") from None
        assert isinstance(answer, HTTPResponse)
        return answer


def _begin(answer: HTTPResponse, offset: int, size: int) -> int:
    """The first byte of an answer; raises `RefusedError` where the whole has another size."""
    said = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
    start, total = 0, answer.headers.get("Content-Length", "")
    if answer.status == 206:
        if said is None or int(said[1]) != offset:
            raise RefusedError("its answer is not the part that was asked for")
        start, total = offset, said[2]
    if total.isdigit() and int(total) != size:
        raise RefusedError(f"it has {int(total):,} bytes, case.yaml says {size:,}")
    return start


def _pieces(answer: HTTPResponse) -> Iterator[bytes]:
    with closing(answer):
        while True:
            try:
                piece = answer.read(_CHUNK)
            except (OSError, HTTPException) as error:
                raise BrokenOffError(f"broke off: {error}") from None
            if not piece:
                return
            yield piece


@dataclass(frozen=True)
class _StoredOrigin:
    """A file in a shared cache."""

    storage: _Storage
    key: str

    @property
    def name(self) -> str:
        return f"{self.storage.where}/{self.key}"

    def look(self, size: int) -> None:
        found = self.storage.size(self.key)
        if found is None:
            raise RefusedError("it is not there")
        if found != size:
            raise RefusedError(f"it has {found:,} bytes, case.yaml says {size:,}")

    def open(self, offset: int, size: int) -> tuple[int, Iterator[bytes]]:
        self.look(size)
        return offset, self.storage.read(self.key, offset)


class _Storage(Protocol):
    @property
    def where(self) -> str: ...
    def size(self, key: str) -> int | None: ...
    def read(self, key: str, offset: int) -> Iterator[bytes]: ...
    def put(self, key: str, path: Path) -> None: ...


@dataclass(frozen=True)
class _Folder:
    where: str

    def size(self, key: str) -> int | None:
        try:
            return (Path(self.where) / key).stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BrokenOffError(str(error)) from None

    def read(self, key: str, offset: int) -> Iterator[bytes]:
        try:
            with (Path(self.where) / key).open("rb") as file:
                file.seek(offset)
                while piece := file.read(_CHUNK):
                    yield piece
        except OSError as error:
            raise BrokenOffError(str(error)) from None

    def put(self, key: str, path: Path) -> None:
        target = Path(self.where) / key
        # Beside its place, so that what others see there is whole.
        fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, fresh)
            os.replace(fresh, target)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            remedy = "name another folder, or make it writable"
            raise UserError(f"cannot be written: {error.strerror}", where=target, remedy=remedy) from None


@dataclass(frozen=True)
class _ObjectStorage:
    where: str
    system: Any
    """An fsspec file system; fsspec has no types."""
    root: str

    def size(self, key: str) -> int | None:
        try:
            return int(self.system.size(f"{self.root}/{key}"))
        except FileNotFoundError:
            return None
        except Exception as error:  # every back end has its own kinds
            raise BrokenOffError(_in_one_line(error)) from None

    def read(self, key: str, offset: int) -> Iterator[bytes]:
        try:
            with self.system.open(f"{self.root}/{key}", "rb", cache_type="none") as file:
                file.seek(offset)
                while piece := file.read(_CHUNK * 16):
                    yield piece
        except Exception as error:
            raise BrokenOffError(_in_one_line(error)) from None

    def put(self, key: str, path: Path) -> None:
        try:
            self.system.makedirs(f"{self.root}/{key}".rpartition("/")[0], exist_ok=True)
            self.system.put_file(str(path), f"{self.root}/{key}")
        except Exception as error:
            remedy = "check the address, the package and the access"
            raise UserError(_in_one_line(error), where=f"{self.where}/{key}", remedy=remedy) from None


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


@dataclass(frozen=True)
class SharedCache:
    """Files by their digests, for many machines."""

    where: str
    storage: _Storage | None
    """None: a mirror, which is read only."""

    @classmethod
    def at(cls, where: str) -> SharedCache:
        """The one at a folder or a URL; raises `UserError`."""
        where = where.rstrip("/") or where
        if re.match(r"[^:/?#]+://[^/]*@", where):
            remedy = "put them into the environment, where fsspec finds them"
            raise UserError("contains credentials", where="the data cache", remedy=remedy)
        if where.startswith(("http://", "https://")):
            return cls(where, None)
        if "://" not in where:
            return cls(where, _Folder(where))
        try:
            import fsspec

            system, root = fsspec.core.url_to_fs(where)
        except ImportError as error:
            remedy = "pip install 'ml-dev-bench[traces]' and the package of the storage (s3fs, gcsfs), or name a folder"
            raise UserError(f"needs a package: {error}", where=where, remedy=remedy) from None
        except Exception as error:
            raise UserError(_in_one_line(error), where=where, remedy="check the address") from None
        return cls(where, _ObjectStorage(where, system, str(root)))

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> SharedCache | None:
        where = environment.get(SHARED_CACHE, "")
        return cls.at(where) if where else None

    def origin(self, sha256: str) -> Origin:
        key = _key(sha256)
        return HttpOrigin(f"{self.where}/{key}") if self.storage is None else _StoredOrigin(self.storage, key)

    def put(self, sha256: str, size: int, path: Path) -> bool:
        """Store a file of this digest unless it is there; returns whether it was stored. Raises `UserError`."""
        if self.storage is None:
            raise UserError("can only be read", where=self.where, remedy="name the storage behind it (s3://, gs://)")
        try:
            if self.storage.size(_key(sha256)) == size:
                return False
        except BrokenOffError as error:
            raise UserError(str(error), where=self.where, remedy="check the address and the access") from None
        self.storage.put(_key(sha256), path)
        return True


def _key(sha256: str) -> str:
    return f"sha256/{sha256[:2]}/{sha256}"
