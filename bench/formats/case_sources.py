"""What a case takes from others: the task that it re-creates, with what is corrected, and published data."""

from __future__ import annotations

import posixpath
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from bench.base.model import Model

_UNPACKED = 3
"""Times the size of an archive: what it takes unpacked, where case.yaml does not say it."""


class Source(Model):
    """The published task that the case re-creates."""

    benchmark: Literal["ml-dev-bench", "mlagentbench", "own"]
    id: str
    thresholds: str = ""
    """What the original asked for success."""


class Correction(Model):
    """One thing that is judged in another way here."""

    original: Annotated[str, Field(min_length=1, max_length=2000)]
    """What the original's evaluation did."""
    here: Annotated[str, Field(min_length=1, max_length=2000)]
    """What is judged instead."""


class Corrections(Model):
    """How far results of the case may be set beside published ones of its original."""

    points: Annotated[list[Correction], Field(min_length=1)]
    figures: Annotated[str, Field(min_length=1, max_length=2000)]
    """What it means for the published figures."""

    def as_markdown(self) -> str:
        """A table of the points, and the sentence on the figures."""
        rows = [f"| {_one_cell(it.original)} | {_one_cell(it.here)} |" for it in self.points]
        table = "\n".join(["| the original | here |", "|---|---|", *rows])
        return f"{table}\n\n**Published figures.** {self.figures.strip()}"


def _one_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


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
