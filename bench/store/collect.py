"""From the artifacts of many jobs to one bundle: what agrees with the plan is taken, everything else is named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from bench.files import sha256_bytes
from bench.record import Record
from bench.store.admission import Admission
from bench.store.artifacts import Artifact, Caps, Found, Refusal, read_cells, survey
from bench.store.bundle import MAX_FILE_BYTES, Bundle, line_of
from bench.store.shown import shown


@dataclass(frozen=True)
class Taken:
    """A record, and where it came from."""

    record: Record
    artifact: Artifact
    where: str
    size: int
    """Bytes of its line."""


@dataclass(frozen=True)
class Collected:
    """What became of the artifacts."""

    taken: list[Taken]
    """Sorted by cell."""
    refused: list[Refusal]
    untold: int
    """Refusals beyond those that are told one by one."""
    missing: list[str]
    """Planned cells without a record."""

    def bundle(self, admission: Admission, attempt: int) -> Bundle:
        """The bundle of what was taken; raises `UserError` where that is nothing."""
        plan = admission.plan
        records = [taken.record for taken in self.taken]
        return Bundle(plan.run, attempt, records, datetime.fromisoformat(plan.created))


@dataclass
class _Claims:
    """What the artifacts say of one cell."""

    first: Taken
    digest: str
    again: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)


def collect(
    artifacts: Sequence[Artifact], admission: Admission, caps: Caps, progress: Callable[[str], None] = lambda line: None
) -> Collected:
    """Read artifacts, hold each record against the plan, and merge what is left. Nothing outside is written."""
    refused: list[Refusal] = []
    untold = 0
    claims: dict[str, _Claims] = {}
    for number, artifact in enumerate(artifacts, start=1):
        progress(f"artifact {number} of {len(artifacts)}: {shown(artifact.name)}")
        faults = [*_claim(artifact, admission, caps, claims), *islice(survey(artifact, caps), caps.lines + 1)]
        refused += faults[: caps.lines]
        untold += max(0, len(faults) - caps.lines)
    taken, disputed = _settle(claims)
    taken, bulky = _fitting(taken)
    refused += [*disputed, *bulky]
    have = {item.record.cell for item in taken}
    missing = [cell for cell in admission.cells if cell not in have]
    return Collected(sorted(taken, key=lambda item: item.record.cell), refused, untold, sorted(missing))


def _claim(artifact: Artifact, admission: Admission, caps: Caps, claims: dict[str, _Claims]) -> list[Refusal]:
    """Enter what an artifact says into `claims`; returns what of it is not worth entering."""
    refused = []
    for found in read_cells(artifact, caps):
        if isinstance(found, Refusal):
            refused.append(found)
            continue
        record = admission.read(found.content, artifact.name)
        if isinstance(record, str):
            refused.append(Refusal(found.where, record))
        else:
            _enter(found, record, claims)
    return refused


def _enter(found: Found, record: Record, claims: dict[str, _Claims]) -> None:
    line = line_of(record)
    digest = sha256_bytes(line)
    held = claims.get(record.cell)
    if held is None:
        claims[record.cell] = _Claims(Taken(record, found.artifact, found.where, len(line)), digest)
    elif held.digest == digest:
        held.again.append(found.where)
    else:
        held.differing.append(found.where)


def _settle(claims: dict[str, _Claims]) -> tuple[list[Taken], list[Refusal]]:
    """One record a cell. Where artifacts contradict each other nobody can tell who lies, and none is taken."""
    taken: list[Taken] = []
    refused: list[Refusal] = []
    for cell, claim in claims.items():
        if claim.differing:
            places = [claim.first.where, *claim.again, *claim.differing]
            others = f"{len(places) - 1} more file{'s' if len(places) > 2 else ''}"
            refused += [Refusal(where, f"and {others} say different things of the cell {cell}") for where in places]
            continue
        taken.append(claim.first)
        refused += [Refusal(where, f"says again what {claim.first.where} says") for where in claim.again]
    return taken, refused


def _fitting(taken: list[Taken]) -> tuple[list[Taken], list[Refusal]]:
    """What fits into the files of the agents; the largest records go first, for they are what makes it not fit."""
    by_agent: dict[str, list[Taken]] = defaultdict(list)
    for item in taken:
        by_agent[item.record.agent.id].append(item)
    kept: list[Taken] = []
    refused: list[Refusal] = []
    for agent, items in by_agent.items():
        room = MAX_FILE_BYTES
        for item in sorted(items, key=lambda item: (item.size, item.record.cell)):
            room -= item.size
            if room >= 0:
                kept.append(item)
            else:
                refused.append(Refusal(item.where, f"makes the file of agent {agent} too large ({item.size} bytes)"))
    return kept, refused
