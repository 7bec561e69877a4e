"""Which results of two sets may be compared, and which belongs to which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.base.text import counted
from bench.formats.record import Record
from bench.stats.entrants import entrant_of, unique_cells
from bench.stats.nights import tell_nights

Allowance = Literal["coverage", "limits", "machine"]
MOST_LOST = 0.1
"""The share of cases that infrastructure may take before the rest no longer speaks for the suite."""
_NAMED = 5
_MOST_NIGHTS = 8


@dataclass(frozen=True)
class Pair:
    """All graded trials of one case."""

    case: str
    base: Sequence[Record]
    head: Sequence[Record]
    base_nights: Sequence[int]
    """Of each trial: its place in `Pairing.nights`."""
    head_nights: Sequence[int]

    def of_shared_nights(self) -> Pair:
        """The trials of nights that both sides met; itself where they share none.

        A night that one side alone met says as much of the night as of the agent.
        """
        shared = set(self.base_nights) & set(self.head_nights)
        if not shared:
            return self
        sides = []
        for records, nights in ((self.base, self.base_nights), (self.head, self.head_nights)):
            kept = [(record, night) for record, night in zip(records, nights, strict=True) if night in shared]
            sides.append(([record for record, _ in kept], [night for _, night in kept]))
        (base, base_nights), (head, head_nights) = sides
        return Pair(self.case, base, head, base_nights, head_nights)


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
    nights: Sequence[str]
    """Every night of either side, in order."""


def pair(base: Iterable[Record], head: Iterable[Record], allow: Collection[Allowance] = ()) -> Pairing:
    """`base` and `head`: each of one agent with its models, in one profile. Only graded trials are compared."""
    one, other = unique_cells(base), unique_cells(head)
    one, left_out = _comparable_history(one, other)
    reasons = [
        *_unlike("profile", {r.profile for r in one}, {r.profile for r in other}),
        *_unlike("suite", {_suite(r) for r in one}, {_suite(r) for r in other}),
        *_unlike("model", {entrant_of(r).model for r in one}, {entrant_of(r).model for r in other}),
    ]
    notes = [left_out] if left_out else []
    machines = [{record.machine.fingerprint for record in side} for side in (one, other)]
    first, second = _by_case(one), _by_case(other)
    faults, common = _unlike_cases(first, second)
    for allowance, found in (
        ("machine", _unlike("machine class", *machines, many=True)),
        ("limits", _unlike_limits(first, second)),
        ("coverage", faults),
    ):
        (notes if allowance in allow else reasons).extend(found)
    nights, night_of = _nights(one, other)
    pairs = [_pair(case, first[case], second[case], night_of) for case in common]
    kept = [it for it in pairs if it.base and it.head]
    lost = [it.case for it in pairs if not (it.base and it.head)]
    if lost:
        text = f"{_list(lost)}: no verdict on one of the sides"
        few = len(lost) <= MOST_LOST * len(pairs) or "coverage" in allow
        (notes if few else reasons).append(text if few else f"{text}; too many of {counted(len(pairs), 'case')}")
    if len(kept) < 2 and not reasons:
        reasons.append(f"{counted(len(kept), 'case')} with a verdict on both sides; two are the least")
    notes += [*_counts(one, other, kept), *_night_notes(kept, nights)]
    return Pairing([] if reasons else kept, reasons, notes, len(machines[0] | machines[1]) == 1, nights)


def _pair(case: str, base: Sequence[Record], head: Sequence[Record], night_of: Mapping[int, int]) -> Pair:
    one, other = ([record for record in side if record.outcome == "graded"] for side in (base, head))
    return Pair(case, one, other, [night_of[id(it)] for it in one], [night_of[id(it)] for it in other])


def _nights(base: Sequence[Record], head: Sequence[Record]) -> tuple[list[str], dict[int, int]]:
    """The nights of both sides together, and that of each record by its `id()`."""
    records = [*base, *head]
    names = tell_nights(records)
    nights = sorted(set(names))
    places = {name: place for place, name in enumerate(nights)}
    return nights, {id(record): places[name] for record, name in zip(records, names, strict=True)}


def _comparable_history(base: list[Record], head: list[Record]) -> tuple[list[Record], str]:
    """Without base trials that cannot be compared with head, of cases where others can; and what to say of it."""
    _, night_of = _nights(base, head)
    of_head = {night_of[id(record)] for record in head}
    wanted = {(record.case.id, _conditions(record)) for record in head}
    fits = [(record.case.id, _conditions(record)) in wanted for record in base]
    known = {record.case.id for record, fit in zip(base, fits, strict=True) if fit and record.outcome == "graded"}
    kept = [
        record
        for record, fit in zip(base, fits, strict=True)
        if fit or record.case.id not in known or night_of[id(record)] in of_head
    ]
    gone = len(base) - len(kept)
    return kept, f"history: {gone} base cells left out, made under other conditions than head" if gone else ""


def _conditions(record: Record) -> tuple[str, ...]:
    """What must be equal for two results of a case to be put together."""
    return (
        record.case_version,
        record.profile,
        _suite(record),
        entrant_of(record).model,
        record.machine.fingerprint,
        record.limits.model_dump_json(),
    )


def _night_notes(pairs: Sequence[Pair], nights: Sequence[str]) -> list[str]:
    base = {night for it in pairs for night in it.base_nights}
    head = {night for it in pairs for night in it.head_nights}
    notes = []
    if base & head:
        notes.append(f"nights: base and head share {_named([nights[at] for at in sorted(base & head)])}")
    elif base and head:
        notes.append(
            f"nights: none is shared: base {_named([nights[at] for at in sorted(base)])}, head"
            f" {_named([nights[at] for at in sorted(head)])}; the difference between nights counts as error. Run both"
            " arms in one night to be freed of it"
        )
    if base & head and base - head:
        notes.append(f"history: base ran on {_named([nights[at] for at in sorted(base - head)])} as well")
    one = [record.started for it in pairs for record in it.base]
    other = [record.started for it in pairs for record in it.head]
    if len(nights) == 1 and pairs and (max(one) < min(other) or max(other) < min(one)):
        notes.append("arms: one ran after the other; what changed within the night is not told apart from the agent")
    return notes


def _named(nights: Sequence[str]) -> str:
    """Nights in words, in order; all of up to eight."""
    if len(nights) == 1:
        return nights[0]
    shown = nights if len(nights) <= _MOST_NIGHTS else [*nights[:3], "...", *nights[-3:]]
    return f"{counted(len(nights), 'night')} ({', '.join(shown)})"


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
    same = [case for case in both if len({record.case_version for record in (*base[case], *head[case])}) == 1]
    changed = [case for case in both if len({record.case.digest for record in (*base[case], *head[case])}) > 1]
    if changed:
        faults.append(f"case digests: {_list(changed)} changed between the sets or within one")
    if judged_otherwise := sorted(set(both) - set(same) - set(changed)):
        faults.append(f"judge: {_list(judged_otherwise)} judged by several versions of the judge")
    return faults, same


def _unlike_limits(base: Mapping[str, list[Record]], head: Mapping[str, list[Record]]) -> list[str]:
    unlike = [
        case
        for case in sorted(base.keys() & head.keys())
        if len({record.limits.model_dump_json() for record in (*base[case], *head[case])}) > 1
    ]
    return [f"limits: not the same for {_list(unlike)}"] if unlike else []


def _counts(base: Sequence[Record], head: Sequence[Record], pairs: Sequence[Pair]) -> list[str]:
    notes = []
    for name, side in (("base", base), ("head", head)):
        graded = sum(record.outcome == "graded" for record in side)
        used = sum(len(it.base if name == "base" else it.head) for it in pairs)
        parts = []
        if len(side) > graded:
            parts.append(f"{len(side) - graded} without a verdict (never scored)")
        if graded > used:
            parts.append(f"{graded - used} graded ones of cases that the other side lacks")
        if parts:
            notes.append(f"{name}: {counted(len(side), 'cell')}, {' and '.join(parts)}")
    both = {_key(record) for record in base} & {_key(record) for record in head}
    if both:
        notes.append(f"{len(both)} cells are in both sets: what is compared with itself cannot differ")
    if {record.provenance.seed_secret for record in base} != {record.provenance.seed_secret for record in head}:
        notes.append("data: seeds of different secrets; a pair has the same case and trial number, and other data")
    prices = [{usage.price_version for record in side for usage in record.usage} - {""} for side in (base, head)]
    if all(prices) and prices[0] != prices[1]:
        tables = f"base by {_list(prices[0])}, head by {_list(prices[1])}"
        notes.append(f"prices: {tables}; a difference of cost may be that of the price tables, one of tokens is not")
    versions = sorted({record.provenance.bench_version for record in (*base, *head)})
    if len(versions) > 1:
        notes.append(f"measured by several versions of the benchmark: {', '.join(versions)}")
    return notes


def _key(record: Record) -> tuple[str, str]:
    return record.provenance.run, record.cell


def _by_case(records: Iterable[Record]) -> dict[str, list[Record]]:
    cases: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        cases[record.case.id].append(record)
    return cases


def _suite(record: Record) -> str:
    return f"{record.provenance.suite or '(none)'} {record.provenance.suite_version}".strip()


def _list(names: Iterable[str]) -> str:
    ordered = sorted(name or "(none)" for name in names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return f"{', '.join(ordered[:_NAMED])}{more}" if ordered else "(nothing)"
