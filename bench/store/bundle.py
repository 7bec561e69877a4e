"""A bundle: the records of one run, and the files they become on the results branch."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from bench.errors import UserError
from bench.files import sha256_bytes
from bench.record import RECORD_SCHEMA, Name, Record
from bench.schema import Model
from bench.store.decisions import Decision
from bench.store.manifest import Manifest, SchemaRef, StoredFile, StoredTrace
from bench.store.migrate import read_line

MAX_FILE_BYTES = 95_000_000
"""GitHub refuses a push that brings a file of more than 100 MB."""


@dataclass(frozen=True)
class Bundle:
    """The records of one attempt at one run. `started` fixes the folder, so it must be the same at every retry."""

    run: str
    attempt: int
    records: Sequence[Record]
    started: datetime
    traces: Sequence[StoredTrace] = ()
    inline: Mapping[str, bytes] = field(default_factory=dict)
    """Of the traces, those that are kept on the branch itself: path and content."""

    def __post_init__(self) -> None:
        try:
            TypeAdapter(Name).validate_python(self.run)
        except ValidationError:
            raise UserError(f"`{self.run}` is no run name", remedy="use 1 to 64 of a-z, 0-9, _ and -") from None
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

    @property
    def manifest_path(self) -> str:
        return f"manifests/{self.day}/{self.key}.json"

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
        content = b"".join(stored_line(record) for record in sorted(records, key=lambda record: record.cell))
        if len(content) > MAX_FILE_BYTES:
            raise UserError(
                f"has {len(content)} bytes, more than a git host takes", where=path, remedy="store it as several runs"
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


def exported_schemas() -> dict[str, bytes]:
    """The JSON Schema of everything on the branch, by the plain name of its file."""
    models: dict[str, type[Model]] = {"record": Record, "manifest": Manifest, "decision": Decision}
    return {f"{name}-{RECORD_SCHEMA}": schema_of(model) for name, model in models.items()}


def schema_of(model: type[Model]) -> bytes:
    """A JSON Schema, as stored."""
    schema = model.model_json_schema(by_alias=True, mode="serialization")
    return f"{json.dumps(schema, indent=1, sort_keys=True)}\n".encode()


def stored_line(record: Record) -> bytes:
    """As it lies on the branch: without its artifacts.

    They name files of the run folder, which is not there. What was kept of them the manifest names, with a digest; a
    digest of each would be half of what a branch weighs, for it is the one thing in a record that does not compress.
    """
    return line_of(record.model_copy(update={"artifacts": []}))


def line_of(record: Record) -> bytes:
    """One line, proven to read back: what cannot be read must not be stored, for it could never be removed."""
    place = f"cell {record.cell}"
    try:
        line = record.to_line().encode()
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise UserError(f"cannot be written as JSON: {error}", where=place) from None
    read_line(line, place)
    return line + b"\n"
