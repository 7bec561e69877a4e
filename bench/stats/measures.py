"""What is compared: a number of each graded cell, and how two sides' numbers make a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.effort import agent_seconds, input_tokens, output_tokens
from bench.record import Record
from bench.stats.draws import Floats
from bench.stats.pairing import Pair


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
