"""Under which conditions an agent was measured, where these are not those of its earlier results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bench.formats.record import Record
from bench.stats.standing import Entrant, entrant_of, newest_versions

_NAMED = 5
_CONDITIONS: tuple[tuple[str, Callable[[Record], str]], ...] = (
    ("sandbox", lambda record: record.provenance.sandbox),
    ("machine class", lambda record: record.machine.fingerprint),
)


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
    who = f"{entrant.agent} with {entrant.model}" if entrant.model else entrant.agent
    lines = []
    for name, condition in _CONDITIONS:
        one, other = {condition(it) for it in now}, {condition(it) for it in before}
        if one - other:
            lines.append(
                f"{who}: {name} {_listed(one)}, and {_listed(other)} in its earlier results; "
                "a difference between them may come from that alone"
            )
    versions = newest_versions(before)
    cases = {it.case.id for it in now if versions.get((it.profile, it.case.id), it.case_version) != it.case_version}
    if cases:
        lines.append(f"{who}: {_listed(cases)}: not the version of its earlier results, which no longer count with it")
    return lines


def _listed(names: set[str]) -> str:
    shown = sorted(names)[:_NAMED]
    return ", ".join(shown) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
