"""A bundle, which is the records of one run, as the files and the manifest that are stored of it.

The manifest says what was stored, where it comes from, and which manifest was stored before it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.model import Model, parse_json
from bench.formats.names import Digest, Instant, Name
from bench.formats.older_records import read_line
from bench.formats.provenance import Provenance
from bench.formats.record import RECORD_SCHEMA, Outcome, Record
from bench.store.decisions import Decision

MAX_FILE_BYTES = 95_000_000
"""GitHub refuses a push that contains a file of more than 100 MB."""


class StoredFile(Model):
    """One file of records."""

    path: str
    agent: Name
    digest: Digest
    size: int = Field(ge=0)
    records: int = Field(ge=1)


class StoredTrace(Model):
    """The trace of one cell: an archive that is stored outside git, or inline where it is small."""

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
    """Files that were too large to be stored."""


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
        # Sorted: the chain needs the same bytes from every version of this program.
        text = json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, sort_keys=True, ensure_ascii=False)
        return f"{text}\n".encode()

    def holds_the_same(self, other: Manifest) -> bool:
        """Are these the same records? The link to the manifest before, and where traces went, may differ."""
        loose: dict[str, object] = {"previous": None, "traces": []}
        return self.model_copy(update=loose) == other.model_copy(update=loose)


def parse_manifest(content: bytes, path: str) -> Manifest:
    """A stored manifest; a fault is a `UserError` that names the file."""
    return parse_json(content, Manifest, where=path, remedy="this is not a manifest of schema 1")


@dataclass(frozen=True)
class Bundle:
    """The records of one attempt at one run. `started` fixes the folder, so it must be the same at every retry."""

    run: str
    attempt: int
    records: Sequence[Record]
    started: datetime
    traces: Sequence[StoredTrace] = ()
    inline: Mapping[str, bytes] = field(default_factory=dict)
    """The traces that are stored on the branch itself: path and content."""

    def __post_init__(self) -> None:
        try:
            TypeAdapter(Name).validate_python(self.run)
        except ValidationError:
            raise UserError(f"`{self.run}` is not a run name", remedy="use 1 to 64 of a-z, 0-9, _ and -") from None
        if self.attempt < 1:
            raise UserError(f"attempt {self.attempt} of run {self.run}: attempts count from 1")
        if self.started.tzinfo is None:
            raise UserError(f"the start of run {self.run} has no time zone", remedy="pass an aware datetime")
        if not self.records:
            raise UserError(f"run {self.run} has no records", remedy="there is nothing to store")
        self._check_cells()

    @property
    def key(self) -> str:
        return f"{self.run}-{self.attempt}"

    @property
    def day(self) -> str:
        return self.started.astimezone(UTC).strftime("%Y/%m/%d")

    def _check_cells(self) -> None:
        cells = Counter(record.cell for record in self.records)
        twice = [cell for cell, count in cells.items() if count > 1]
        if twice:
            raise UserError(f"run {self.run} has {len(twice)} cells twice, the first is {twice[0]}")
        for record in self.records:
            if record.provenance.run != self.run:
                raise UserError(f"cell {record.cell} belongs to run {record.provenance.run}, not to {self.run}")


@dataclass(frozen=True)
class Rendered:
    """The records of a bundle as files; the manifest still lacks its link to the previous one."""

    files: dict[str, bytes]
    manifest: Manifest


def render(bundle: Bundle) -> Rendered:
    """The files of a bundle: the same bytes for the same bundle, always."""
    by_agent: dict[str, list[Record]] = defaultdict(list)
    for record in bundle.records:
        by_agent[record.agent.id].append(record)
    files: dict[str, bytes] = {}
    stored: list[StoredFile] = []
    for agent, records in sorted(by_agent.items()):
        path = f"runs/{bundle.day}/{bundle.key}-{agent}.jsonl"
        # Sorted, so that publishing twice gives the same file whatever the order of the jobs.
        content = b"".join(stored_line(record) for record in sorted(records, key=lambda record: record.cell))
        if len(content) > MAX_FILE_BYTES:
            raise UserError(
                f"has {len(content)} bytes, more than a git host accepts", where=path, remedy="store it as several runs"
            )
        files[path] = content
        stored.append(
            StoredFile(path=path, agent=agent, digest=sha256_bytes(content), size=len(content), records=len(records))
        )
    provenance = {record.provenance.model_dump_json(): record.provenance for record in bundle.records}
    manifest = Manifest(
        run=bundle.run,
        attempt=bundle.attempt,
        started=bundle.started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        record_schema=SchemaRef(version=RECORD_SCHEMA, digest=sha256_bytes(schema_of(Record))),
        files=stored,
        outcomes=dict(sorted(Counter(record.outcome for record in bundle.records).items())),
        provenance=[provenance[key] for key in sorted(provenance)],
        traces=sorted(bundle.traces, key=lambda trace: trace.cell),
    )
    return Rendered(files, manifest)


def provenance_of(record: Record) -> tuple[str, int]:
    """The record's provenance as a manifest has it, each distinct one once; and its bytes there, a line for a field."""
    # As deep as it lies there, so with as many spaces.
    text = json.dumps([[record.provenance.model_dump(mode="json", by_alias=True)]], indent=1, ensure_ascii=False)
    return text, len(text.encode("utf-8", "surrogatepass"))


def stored_files(bundle: Bundle) -> Sequence[StoredFile]:
    """The files of records that a branch holds of the bundle, with their digests."""
    return render(bundle).manifest.files


def exported_schemas() -> dict[str, bytes]:
    """The JSON Schema of everything on the branch, by the plain name of its file."""
    models: dict[str, type[Model]] = {"record": Record, "manifest": Manifest, "decision": Decision}
    return {f"{name}-{RECORD_SCHEMA}": schema_of(model) for name, model in models.items()}


def schema_of(model: type[Model]) -> bytes:
    """A JSON Schema, as stored."""
    schema = model.model_json_schema(by_alias=True, mode="serialization")
    return f"{json.dumps(schema, indent=1, sort_keys=True)}\n".encode()


def stored_line(record: Record) -> bytes:
    """A record's line as stored: without its artifacts.

    They name files of the run folder, which is not on the branch. The manifest names the stored traces, with a digest
    each; a digest of every file would double the size of a branch, because digests do not compress.
    """
    return line_of(record.model_copy(update={"artifacts": []}))


def line_of(record: Record) -> bytes:
    """A record's line, after a check that it reads back: an unreadable line could never be removed from the branch."""
    where = f"cell {record.cell}"
    try:
        line = record.to_line().encode()
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise UserError(f"cannot be written as JSON: {error}", where=where) from None
    read_line(line, where)
    return line + b"\n"
