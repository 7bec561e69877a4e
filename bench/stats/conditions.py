"""Under which conditions an agent was measured, where these are not those of its earlier results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.formats.record import Record
from bench.stats.entrants import Entrant, counting_versions, entrant_of

_NAMED = 5
_CONDITIONS: tuple[tuple[str, Callable[[Record], str]], ...] = (
    ("sandbox", lambda record: record.provenance.sandbox),
    ("machine class", lambda record: record.machine.fingerprint),
)


@dataclass(frozen=True)
class Conditions:
    """What the graded cells of one entrant were measured in, each name once, in order."""

    sandboxes: Sequence[str]
    machines: Sequence[str]


def conditions_of(counted: Mapping[tuple[Entrant, str], Sequence[Record]]) -> dict[Entrant, Conditions]:
    """The conditions of each entrant's cells that count and have a verdict."""
    graded: dict[Entrant, list[Record]] = defaultdict(list)
    for (entrant, _), records in counted.items():
        graded[entrant] += [record for record in records if record.outcome == "graded"]
    return {
        entrant: Conditions(*(sorted({condition(it) for it in records}) for _, condition in _CONDITIONS))
        for entrant, records in graded.items()
        if records
    }


def mixed_conditions(found: Mapping[Entrant, Conditions]) -> list[str]:
    """A line for each entrant whose results come from more than one sandbox or class of machine."""
    lines = []
    for entrant, conditions in sorted(found.items()):
        kinds = (("sandboxes", conditions.sandboxes), ("machine classes", conditions.machines))
        mixed = [f"{len(names)} {kind} ({_listed(set(names))})" for kind, names in kinds if len(names) > 1]
        if mixed:
            told = f"{_who(entrant)} was measured in {' and '.join(mixed)}"
            lines.append(f"{told}: its results may differ from each other by that alone")
    return lines


def changed_conditions(records: Iterable[Record], earlier: Iterable[Record]) -> list[str]:
    """A line for each condition of a run that none of its agents' earlier results had: they compare badly.

    earlier: what of them is of these runs, or has no verdict, is left out.
    """
    new = [record for record in records if record.outcome == "graded"]
    runs = {record.provenance.run for record in new}
    known = [it for it in earlier if it.outcome == "graded" and it.provenance.run not in runs]
    lines = []
    for entrant in sorted({entrant_of(record) for record in new}):
        now, before = ([it for it in side if entrant_of(it) == entrant] for side in (new, known))
        if before:
            lines += _changes(entrant, now, before)
    return lines


def _changes(entrant: Entrant, now: Sequence[Record], before: Sequence[Record]) -> list[str]:
    who = _who(entrant)
    lines = []
    for name, condition in _CONDITIONS:
        one, other = {condition(it) for it in now}, {condition(it) for it in before}
        if one - other:
            lines.append(
                f"{who}: {name} {_listed(one)}, and {_listed(other)} in its earlier results; "
                "a difference between them may come from that alone"
            )
    versions = counting_versions(before)
    cases = {it.case.id for it in now if versions.get((it.profile, it.case.id), it.case_version) != it.case_version}
    if cases:
        lines.append(f"{who}: {_listed(cases)}: not the version of its earlier results, which no longer count with it")
    return lines


def _who(entrant: Entrant) -> str:
    return f"{entrant.agent} with {entrant.model}" if entrant.model else entrant.agent


def _listed(names: set[str]) -> str:
    shown = sorted(names)[:_NAMED]
    return ", ".join(shown) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
