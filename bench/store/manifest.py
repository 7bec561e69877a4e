"""The manifest of a run: what was stored, where it comes from, and which manifest came before."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from bench.record import Digest, Instant, Name, Outcome, Provenance
from bench.schema import Model


class StoredFile(Model):
    """One file of records."""

    path: str
    agent: Name
    digest: Digest
    size: int = Field(ge=0)
    records: int = Field(ge=1)


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
    previous: Digest | None = None

    def to_bytes(self) -> bytes:
        text = json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, sort_keys=True, ensure_ascii=False)
        return f"{text}\n".encode()
