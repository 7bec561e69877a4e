"""Pending bundles: each is a folder until it is stored, so that no end of the process loses records."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from bench.base.errors import UserError
from bench.base.files import digest_folder, sha256_bytes, write_atomic
from bench.base.model import Model, explain
from bench.formats.names import Digest, Instant, Name
from bench.formats.older_records import parse_records
from bench.guest.trees import remove_tree
from bench.store.bundle import Bundle, StoredTrace, line_of
from bench.store.git.backend import check_path

_RECORDS = "records.jsonl"
_ABOUT = "bundle.json"
_INLINE = "inline"


class PendingBundle(Model):
    """The content of bundle.json."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    run: Name
    attempt: Annotated[int, Field(ge=1)]
    started: Instant
    records: Digest
    """Of records.jsonl."""
    traces: list[StoredTrace] = []
    inline: list[str] = []


def save_pending(bundle: Bundle, parent: Path) -> Path:
    """Write a bundle below `parent`, whole or not at all; returns its folder."""
    folder = parent / f"{bundle.key}-{os.getpid()}"
    parent.mkdir(parents=True, exist_ok=True)
    lines = b"".join(line_of(record) for record in bundle.records)
    about = PendingBundle(
        run=bundle.run,
        attempt=bundle.attempt,
        started=bundle.started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        records=sha256_bytes(lines),
        traces=list(bundle.traces),
        inline=sorted(bundle.inline),
    )
    new = Path(tempfile.mkdtemp(prefix=f".{bundle.key}-", dir=parent))
    write_atomic(new / _RECORDS, lines)
    for path, content in bundle.inline.items():
        check_path(path)
        write_atomic(new / _INLINE / path, content)
    write_atomic(new / _ABOUT, about.model_dump_json(by_alias=True, indent=1).encode() + b"\n")
    remove_tree(folder)
    # bundle.json was written last, and the rename comes after it: a folder with this name is complete.
    new.rename(folder)
    return folder


def digests_of_pending(parent: Path) -> list[str]:
    """Of each complete bundle below `parent`, by which `load_pending` knows it again."""
    return [digest_folder(it.parent) for it in sorted(parent.glob(f"*/{_ABOUT}")) if not it.parent.name.startswith(".")]


def load_pending(folder: Path, digests: Collection[str] = ()) -> Bundle:
    """The pending bundle in `folder`; raises `UserError` where it is not complete, or is none of these `digests`.

    An artifact of its name can be another job's: every job of a workflow run chooses the names of what it uploads.
    """
    try:
        about = PendingBundle.model_validate_json((folder / _ABOUT).read_bytes())
        lines = (folder / _RECORDS).read_bytes()
        for path in about.inline:
            check_path(path)
        inline = {path: (folder / _INLINE / path).read_bytes() for path in about.inline}
    except OSError as error:
        raise UserError(
            f"cannot be read: {error.strerror}", where=folder, remedy="name a folder of `results collect --keep`"
        ) from None
    except ValidationError as error:
        raise UserError(explain(error, PendingBundle), where=folder / _ABOUT, remedy="collect again") from None
    if digests and digest_folder(folder) not in digests:
        remedy = "collect again, from what the shards left; another job may have uploaded something under this name"
        raise UserError("is not the bundle that was kept: its digest is another", where=folder, remedy=remedy)
    if sha256_bytes(lines) != about.records:
        raise UserError("does not match the digest in bundle.json", where=folder / _RECORDS, remedy="collect again")
    records = list(parse_records(lines, str(folder / _RECORDS)))
    return Bundle(about.run, about.attempt, records, datetime.fromisoformat(about.started), tuple(about.traces), inline)


def discard_pending(folder: Path) -> None:
    """Remove a pending bundle that is stored now; a kill in between leaves it complete, or under another name."""
    renamed = folder.with_name(f".{folder.name}.stored")
    remove_tree(renamed)
    folder.rename(renamed)
    remove_tree(renamed)
