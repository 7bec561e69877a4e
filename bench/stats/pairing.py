"""Which results of two sets may be compared, and which belongs to which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.record import Record
from bench.stats.standing import entrant_of, unique_cells

Allowance = Literal["coverage", "limits", "machine"]
ALLOWANCES: tuple[Allowance, ...] = ("coverage", "limits", "machine")
MOST_LOST = 0.1
"""The share of cases that infrastructure may take before the rest no longer speaks for the suite."""
_NAMED = 5


@dataclass(frozen=True)
class Pair:
    """The trials of one case: as many of head as of base, the same numbers (and so the same data) where possible."""

    case: str
    trials: Sequence[tuple[Record, Record]]
    """(base, head), all graded."""


@dataclass(frozen=True)
class Pairing:
    """What can be compared, or why nothing can."""

    pairs: Sequence[Pair]
    reasons: Sequence[str]
    """Why the sets are not comparable; empty when they are."""
    notes: Sequence[str]
    """What a reader should know of the comparison."""
    one_machine: bool
    """All records come from one class of machines, so that times mean the same."""


def pair(base: Iterable[Record], head: Iterable[Record], allow: Collection[Allowance] = ()) -> Pairing:
    """`base` and `head`: each of one agent with its models, in one profile. Only graded trials are paired."""
    one, other = unique_cells(base), unique_cells(head)
    reasons = [
        *_unlike("profile", {r.profile for r in one}, {r.profile for r in other}),
        *_unlike("suite", {_suite(r) for r in one}, {_suite(r) for r in other}),
        *_unlike("model", {entrant_of(r).model for r in one}, {entrant_of(r).model for r in other}),
    ]
    notes: list[str] = []
    machines = [{_machine(record) for record in side} for side in (one, other)]
    for fault in _unlike("machine class", *machines, many=True):
        (notes if "machine" in allow else reasons).append(fault)
    first, second = _by_case(one), _by_case(other)
    for fault in _unlike_limits(first, second):
        (notes if "limits" in allow else reasons).append(fault)
    faults, common = _unlike_cases(first, second)
    for fault in faults:
        (notes if "coverage" in allow else reasons).append(fault)
    pairs = [Pair(case, _trials(first[case], second[case])) for case in common]
    kept = [it for it in pairs if it.trials]
    lost = [it.case for it in pairs if not it.trials]
    if lost:
        text = f"{_list(lost)}: no verdict on one of the sides"
        few = len(lost) <= MOST_LOST * len(pairs) or "coverage" in allow
        (notes if few else reasons).append(text if few else f"{text}; too many of {len(pairs)} cases")
    if len(kept) < 2 and not reasons:
        reasons.append(f"{len(kept)} cases with a verdict on both sides; two are the least")
    notes += _counts(one, other, kept)
    return Pairing([] if reasons else kept, reasons, notes, len(machines[0] | machines[1]) == 1)


def _unlike(what: str, base: set[str], head: set[str], *, many: bool = False) -> list[str]:
    """One line when the sides differ, or when one of them is a mixture and may not be."""
    if base == head and (many or len(base) == 1):
        return []
    return [f"{what}: base {_list(base)}, head {_list(head)}"]


def _unlike_cases(base: Mapping[str, list[Record]], head: Mapping[str, list[Record]]) -> tuple[list[str], list[str]]:
    """What is wrong, and the cases both sides have in the same single version."""
    faults = []
    for name, these, those in (("base", base, head), ("head", head, base)):
        if missing := sorted(those.keys() - these.keys()):
            faults.append(f"cases: {name} has no {_list(missing)}")
    both = sorted(base.keys() & head.keys())
    same = [case for case in both if len({record.case.digest for record in (*base[case], *head[case])}) == 1]
    if changed := sorted(set(both) - set(same)):
        faults.append(f"case digests: {_list(changed)} changed between the sets or within one")
    return faults, same


def _unlike_limits(base: Mapping[str, list[Record]], head: Mapping[str, list[Record]]) -> list[str]:
    unlike = [
        case
        for case in sorted(base.keys() & head.keys())
        if len({record.limits.model_dump_json() for record in (*base[case], *head[case])}) > 1
    ]
    return [f"limits: not the same for {_list(unlike)}"] if unlike else []


def _trials(base: Sequence[Record], head: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Pairs of graded trials: those of the same number first, the newest first, then what is left."""
    waiting: dict[int, list[Record]] = defaultdict(list)
    for record in reversed(base):
        if record.outcome == "graded":
            waiting[record.trial].append(record)
    found, alone = [], []
    for record in reversed(head):
        if record.outcome == "graded":
            if waiting[record.trial]:
                found.append((waiting[record.trial].pop(0), record))
            else:
                alone.append(record)
    left = [record for number in sorted(waiting) for record in waiting[number]]
    return found + list(zip(left, alone, strict=False))


def _counts(base: Sequence[Record], head: Sequence[Record], pairs: Sequence[Pair]) -> list[str]:
    notes = []
    for name, side in (("base", base), ("head", head)):
        graded = sum(record.outcome == "graded" for record in side)
        used = sum(len(it.trials) for it in pairs)
        parts = []
        if len(side) > graded:
            parts.append(f"{len(side) - graded} without a verdict (never scored)")
        if graded > used:
            parts.append(f"{graded - used} graded ones without a partner on the other side")
        if parts:
            notes.append(f"{name}: {len(side)} cells, {' and '.join(parts)}")
    versions = sorted({record.provenance.bench_version for record in (*base, *head)})
    if len(versions) > 1:
        notes.append(f"measured by several versions of the benchmark: {', '.join(versions)}")
    return notes


def _by_case(records: Iterable[Record]) -> dict[str, list[Record]]:
    cases: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        cases[record.case.id].append(record)
    return cases


def _suite(record: Record) -> str:
    return f"{record.provenance.suite or '(none)'} {record.provenance.suite_version}".strip()


def _machine(record: Record) -> str:
    return record.machine.fingerprint


def _list(names: Iterable[str]) -> str:
    ordered = sorted(name or "(none)" for name in names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return f"{', '.join(ordered[:_NAMED])}{more}" if ordered else "(nothing)"
