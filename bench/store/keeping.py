"""Which traces of a run are kept, and where each of them goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import UserError
from bench.files import sha256_bytes
from bench.record import Record
from bench.store.artifacts import Artifact, Refusal, read_file
from bench.store.collect import Taken
from bench.store.manifest import StoredTrace
from bench.store.traceplace import INLINE, TracePlace
from bench.store.traces import INLINE_BYTES, INLINE_RUN_BYTES, MAX_TRACE_BYTES, Packed, is_kept, is_safe_name, pack

SAMPLE = 0.1
"""Share of the successes whose traces are kept."""


@dataclass(frozen=True)
class Kept:
    """The traces that were stored, or that the bundle shall bring along."""

    traces: list[StoredTrace]
    inline: dict[str, bytes]
    """Path on the results branch and content."""
    refused: list[Refusal]


def keep_traces(
    taken: Sequence[Taken], place: TracePlace | None, sample: float, progress: Callable[[str], None] = lambda line: None
) -> Kept:
    """Store the traces of all that did not succeed and of a sample of the rest.

    place: None keeps small ones inline, a few of the run, failures before successes. Raises `UserError` where the
    place fails: results without their evidence are not published.
    """
    kept = Kept([], {}, [])
    wanted = [item for item in taken if is_kept(item.record, sample)]
    room = INLINE_RUN_BYTES
    for number, item in enumerate(sorted(wanted, key=lambda item: (bool(item.record.success), item.record.cell)), 1):
        progress(f"trace {number} of {len(wanted)}")
        packed = _packed(item, kept.refused)
        if packed is None:
            continue
        if place is not None:
            where = place.put(packed)
        elif len(packed.data) <= min(INLINE_BYTES, room):
            where = INLINE
            room -= len(packed.data)
            kept.inline[inline_path(packed)] = packed.data
        else:
            continue
        kept.traces.append(
            StoredTrace(
                cell=item.record.cell,
                digest=packed.digest,
                size=packed.size,
                stored=len(packed.data),
                place=where,
                left_out=packed.left_out,
            )
        )
    return kept


def inline_traces(records: Sequence[Record], folder: Path) -> Kept:
    """The small traces of a run of this machine, from its own folder."""
    artifact = Artifact(folder.name, folder)
    return keep_traces([Taken(record, artifact, record.cell, 0) for record in records], None, SAMPLE)


def inline_path(packed: Packed) -> str:
    """Where an inline trace lies on the results branch."""
    return f"traces/{packed.key}"


def _packed(item: Taken, refused: list[Refusal]) -> Packed | None:
    """The files that the record names, each proven to be what it says; None where there are none."""
    files: dict[str, bytes] = {}
    left_out, room = 0, MAX_TRACE_BYTES
    for artifact in item.record.artifacts:
        if not artifact.place.startswith("traces/") or not is_safe_name(artifact.name) or artifact.size > room:
            left_out += 1
            continue
        content = read_file(item.artifact, artifact.place, artifact.size)
        where = f"{item.artifact.name}/{artifact.place}"
        if isinstance(content, str):
            refused.append(Refusal(where, content))
        elif sha256_bytes(content) != artifact.digest:
            refused.append(Refusal(where, "is not the file that its record names: its digest differs"))
        else:
            files[artifact.name] = content
            room -= len(content)
    try:
        return pack(files, left_out) if files else None
    except (ValueError, UnicodeError) as error:
        raise UserError(str(error), where=item.where, remedy="this is a fault of ml-dev-bench: report it") from None
