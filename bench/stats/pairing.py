"""Which results of two sets may be compared, and which belongs to which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.formats.record import Record
from bench.stats.intervals import Floats
from bench.stats.standing import entrant_of, unique_cells
from bench.stats.tally import agent_seconds, input_tokens, output_tokens

Allowance = Literal["coverage", "limits", "machine"]
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
    machines = [{record.machine.fingerprint for record in side} for side in (one, other)]
    first, second = _by_case(one), _by_case(other)
    faults, common = _unlike_cases(first, second)
    for allowance, found in (
        ("machine", _unlike("machine class", *machines, many=True)),
        ("limits", _unlike_limits(first, second)),
        ("coverage", faults),
    ):
        (notes if allowance in allow else reasons).extend(found)
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


def _trials(base: Sequence[Record], head: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Pairs of graded trials: those of the same number first, the newest first, then what is left."""
    waiting: dict[int, list[Record]] = defaultdict(list)
    for record in reversed(base):
        if record.outcome == "graded":
            waiting[record.trial].append(record)
    # From the newest on: of several trials of one number it is the newest that are paired.
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
    if {record.provenance.seed_secret for record in base} != {record.provenance.seed_secret for record in head}:
        notes.append("data: seeds of different secrets; a pair has the same case and trial number, and other data")
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


def _list(names: Iterable[str]) -> str:
    ordered = sorted(name or "(none)" for name in names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return f"{', '.join(ordered[:_NAMED])}{more}" if ordered else "(nothing)"


@dataclass(frozen=True)
class Measure:
    """`ratio`: compared as the logarithm of head over base, and less is better. Otherwise by difference."""

    name: str
    value: Callable[[Record], float | None]
    """None: not known of this cell, which is not 0."""
    ratio: bool


@dataclass(frozen=True)
class Sample:
    """One measure over paired cases; every array has one entry a case."""

    cases: Sequence[str]
    base: Sequence[Floats]
    """The trials of each case."""
    head: Sequence[Floats]
    differences: Floats
    noise: Floats | None
    """The part of each difference's variance that comes of its trials; None where some case has but one trial."""

    @property
    def trials(self) -> float:
        """A case and side, on average."""
        return sum(map(len, self.base)) / len(self.base) if self.base else 0.0


def _tokens(record: Record) -> float | None:
    sent, received = input_tokens(record), output_tokens(record)
    return None if sent is None or received is None else float(sent + received)


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("success", lambda record: float(bool(record.success)), ratio=False),
        Measure("score", lambda record: record.score, ratio=False),
        Measure("cost", lambda record: None if record.cost_status == "unknown" else record.cost_usd, ratio=True),
        Measure("tokens", _tokens, ratio=True),
        Measure("time", agent_seconds, ratio=True),
    )
}


def sample(measure: Measure, pairs: Sequence[Pair]) -> Sample:
    """The numbers of `measure` in all pairs of trials where both are known.

    A ratio is that of a case's means (what a case costs, not its typical trial); cases where a side took nothing have
    none, and are left out.
    """
    cases, bases, heads = [], [], []
    for pair in pairs:
        known = [
            (b, h)
            for base, head in pair.trials
            if (b := measure.value(base)) is not None and (h := measure.value(head)) is not None
        ]
        one, other = (np.array([values[side] for values in known], dtype=np.float64) for side in (0, 1))
        if known and (not measure.ratio or (one.sum() > 0 and other.sum() > 0)):
            cases.append(pair.case)
            bases.append(one)
            heads.append(other)
    return make_sample(cases, bases, heads, ratio=measure.ratio)


def make_sample(cases: Sequence[str], base: Sequence[Floats], head: Sequence[Floats], *, ratio: bool) -> Sample:
    """`base`, `head`: the trials of each case."""
    one, other = _means(base), _means(head)
    differences = np.log(other) - np.log(one) if ratio else other - one
    repeated = len(cases) > 0 and min(len(values) for values in (*base, *head)) > 1
    noise = _noise(base, one, ratio) + _noise(head, other, ratio) if repeated else None
    return Sample(cases, base, head, differences, noise)


def money(records: Iterable[Record]) -> str:
    """What the costs of `records` are: paid and replayed money are never compared with each other."""
    kinds = {record.cost_status for record in records if record.outcome == "graded"}
    paid = bool(kinds & {"exact", "estimated"})
    if "simulated" in kinds:
        return "paid and replayed" if paid else "replayed"
    return "paid" if paid else "unknown" if "unknown" in kinds else "free"


def _means(values: Sequence[Floats]) -> Floats:
    return np.array([float(trials.mean()) for trials in values], dtype=np.float64)


def _noise(values: Sequence[Floats], means: Floats, ratio: bool) -> Floats:
    """The sampling variance of each case's mean; of its logarithm by the delta method."""
    variances = np.array([float(trials.var(ddof=1)) / len(trials) for trials in values], dtype=np.float64)
    return variances / means**2 if ratio else variances
