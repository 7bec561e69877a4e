"""Who was measured, and which of the records count for them.

Only records of one profile, and of the newest version of each case, are ever put together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.formats.help import HELPED
from bench.formats.record import Profile, Record


@dataclass(frozen=True, order=True)
class Entrant:
    """Who is measured: an agent with its model, in one profile."""

    profile: Profile
    agent: str
    model: str


def counted_cells(
    unique: Sequence[Record], suite: Mapping[Profile, Collection[str]]
) -> dict[tuple[Entrant, str], list[Record]]:
    """Those of `unique_cells` that count, by entrant and case in their order.

    Records of cases outside the suite, or of older versions of a case, do not count.
    """
    groups: dict[tuple[Entrant, str], list[Record]] = defaultdict(list)
    for record in current(unique):
        if record.case.id in suite.get(record.profile, ()):
            groups[entrant_of(record), record.case.id].append(record)
    return dict(sorted(groups.items()))


def entrant_of(record: Record) -> Entrant:
    return Entrant(record.profile, record.agent.id, model_label(record.models, helped=record.help is not None))


def model_label(models: Mapping[str, str], *, helped: bool = False) -> str:
    """The models of a run as one text: the bare name where there is only the main one, empty without any.

    helped: the agent could ask for help. That makes another entrant of it, which takes part in no other's means.
    """
    alone = set(models) == {"main"}
    text = models["main"] if alone else ", ".join(f"{role}={model}" for role, model in sorted(models.items()))
    return f"{text} {HELPED}".strip() if helped else text


def unique_cells(records: Iterable[Record]) -> list[Record]:
    """One record per cell of a run: a second attempt fills what was lost, and never replaces a verdict."""
    kept: dict[tuple[str, str], Record] = {}
    for record in records:
        key = (record.provenance.run, record.cell)
        if key not in kept or _precedence(record) < _precedence(kept[key]):
            kept[key] = record
    return sorted(kept.values(), key=lambda record: (record.started, record.provenance.run, record.cell))


def newest_versions(records: Iterable[Record]) -> dict[tuple[Profile, str], str]:
    """The version of each case that counts: the one graded last, or tried last where none was ever graded."""
    newest: dict[tuple[Profile, str], Record] = {}
    for record in records:
        key = (record.profile, record.case.id)
        if key not in newest or _recency(record) > _recency(newest[key]):
            newest[key] = record
    return {key: record.case_version for key, record in newest.items()}


def current(records: Sequence[Record]) -> list[Record]:
    """The records of the newest version of each case."""
    newest = newest_versions(records)
    return [record for record in records if record.case_version == newest[record.profile, record.case.id]]


def _precedence(record: Record) -> tuple[bool, str, str]:
    """The first verdict wins, so that running again until chance is kind gains nothing; then the latest failure."""
    graded = record.outcome == "graded"
    return not graded, record.finished if graded else "", "" if graded else _reversed(record.finished)


def _recency(record: Record) -> tuple[bool, str]:
    return record.outcome == "graded", record.started


def _reversed(instant: str) -> str:
    """A text that sorts the other way round."""
    return "".join(chr(0x7F - ord(character)) for character in instant)
