"""Published data that a profile of a case is made of and that the case's folder does not hold."""

from __future__ import annotations

import posixpath
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from bench.base.model import Model

_UNPACKED = 3
"""Times the size of an archive: what it takes unpacked, where case.yaml does not say it."""


class DataSource(Model):
    """A file of somebody else's, known by its digest: fetched once for each machine, and never kept in the case."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s/@]+/\S+$", max_length=2000)]
    """Where it is published; credentials do not belong here."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=1, le=10**13)]
    licence: Annotated[str, Field(min_length=3, max_length=300)]
    """Under what terms it may be used, or that its authors name none."""
    digest_from: str = ""
    """Public place that states digest and size."""
    unpack: Literal["no", "tar", "zip", "gzip"] = "no"
    """`tar`: also compressed. data.py finds a folder in each case: with the file itself, or with what it holds."""
    unpacked_mb: Annotated[float, Field(gt=0, le=1e7)] | None = None
    """At most; by default three times the size of the archive."""

    @property
    def file_name(self) -> str:
        return posixpath.basename(urlsplit(self.url).path) or "data"

    @property
    def unpacked_bytes(self) -> int:
        """The most that it may become on the disk, beside the file itself; 0 where it is not unpacked."""
        if self.unpack == "no":
            return 0
        return self.bytes * _UNPACKED if self.unpacked_mb is None else int(self.unpacked_mb * (1 << 20))
