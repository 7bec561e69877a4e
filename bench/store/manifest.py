"""The manifest of a run: what was stored, where it comes from, and which manifest came before."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from bench.errors import UserError
from bench.record import Digest, Instant, Name, Outcome, Provenance
from bench.schema import Model, explain


class StoredFile(Model):
    """One file of records."""

    path: str
    agent: Name
    digest: Digest
    size: int = Field(ge=0)
    records: int = Field(ge=1)


class StoredTrace(Model):
    """The trace of one cell: an archive that is kept outside git, or inline where it is small."""

    cell: str
    digest: Digest
    """Of the archive before compression; it names the stored file."""
    size: int = Field(ge=0)
    """Bytes before compression."""
    stored: int = Field(ge=0)
    """Bytes as stored."""
    place: str
    """`inline`: on this branch. `folder:PATH`: below whatever folder or artifact the traces went to. Else a URL."""
    left_out: int = Field(0, ge=0)
    """Files that were too large to be kept."""


class SchemaRef(Model):
    """The JSON Schema the records follow."""

    version: int
    digest: Digest


class Manifest(Model):
    """Everything needed to prove that the files of a run are whole and unchanged.

    `previous` is the digest of the manifest stored before: the manifests are a chain, and none can be taken out,
    put in or changed without breaking it.
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
    run: Name
    attempt: Annotated[int, Field(ge=1)]
    started: Instant
    record_schema: SchemaRef
    files: list[StoredFile]
    outcomes: dict[Outcome, int]
    provenance: list[Provenance]
    """Each distinct provenance of the records once."""
    traces: list[StoredTrace] = []
    previous: Digest | None = None

    @property
    def key(self) -> str:
        return f"{self.run}-{self.attempt}"

    @property
    def path(self) -> str:
        return f"manifests/{self.started[:10].replace('-', '/')}/{self.key}.json"

    def to_bytes(self) -> bytes:
        text = json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, sort_keys=True, ensure_ascii=False)
        return f"{text}\n".encode()

    def holds_the_same(self, other: Manifest) -> bool:
        """Are these the same records? The link to the manifest before, and where traces went, may differ."""
        loose: dict[str, object] = {"previous": None, "traces": []}
        return self.model_copy(update=loose) == other.model_copy(update=loose)


def parse_manifest(content: bytes, path: str) -> Manifest:
    """A stored manifest; a fault is a `UserError` that names the file."""
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise UserError(explain(error, Manifest), where=path, remedy="this is no manifest of schema 1") from None
