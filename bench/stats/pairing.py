"""The numbers of two sets of records, side by side for each case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.formats.record import Record
from bench.stats.comparable import Pair
from bench.stats.intervals import Floats
from bench.stats.nights import (
    DEFAULT_RATIO_SD,
    NO_ERROR,
    Counts,
    NightError,
    Table,
    default_spread,
    night_levels,
    night_weights,
    spread_of,
)
from bench.stats.ratios import log_levels
from bench.stats.tally import agent_seconds, input_tokens, output_tokens
from bench.stats.tests import Stratum

_SAME = 1e-9
# Of a difference of shares or logarithms: what is less is rounding, and neither a change nor a spread between cases.
_ROUNDING = 1e-12


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
    base_means: Floats
    """Each weighted by night, so that what a night does to both sides falls out of the difference."""
    head_means: Floats
    differences: Floats
    noise: Floats | None
    """The part of each difference's variance that comes of its trials; None where some case has but one trial."""
    effective: tuple[Floats, Floats]
    """Trials of base and of head that the weighted means are worth."""
    night: NightError
    """What nights add to the error of the mean difference."""
    strata: Sequence[Stratum]
    """Trials that could have been exchanged: of one case, and of one night where the sides share any."""
    strata_night: NightError
    """What nights add to the error of the mean difference over `strata`."""

    @property
    def shared_cases(self) -> int:
        """Those of `strata`: a case that shares no night with the other side is not in them."""
        return round(sum(it.weight for it in self.strata))

    @property
    def trials(self) -> float:
        """Of a case, on the side that has fewer, on average."""
        return min(_per_case(self.base), _per_case(self.head))

    @property
    def sizes(self) -> tuple[float, float]:
        """Trials a case of base and of head, on average."""
        return _per_case(self.base), _per_case(self.head)


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


def sample(measure: Measure, pairs: Sequence[Pair], nights: int) -> Sample:
    """The numbers of `measure` in all trials where it is known; `nights`: how many there are in all.

    A ratio is that of a case's means (what a case costs, not its typical trial), each of as many trials as the side
    with fewer has (`log_levels`); cases where a side took nothing have none, and are left out.
    """
    cases: list[str] = []
    values: tuple[list[Floats], list[Floats]] = [], []
    places: tuple[list[Counts], list[Counts]] = [], []
    for pair in pairs:
        known = [
            [
                (value, night)
                for record, night in zip(side, own, strict=True)
                if (value := measure.value(record)) is not None
            ]
            for side, own in ((pair.base, pair.base_nights), (pair.head, pair.head_nights))
        ]
        if all(known) and (not measure.ratio or all(sum(value for value, _ in side) > 0 for side in known)):
            cases.append(pair.case)
            for side, of_values, of_places in zip(known, values, places, strict=True):
                of_values.append(np.array([value for value, _ in side], dtype=np.float64))
                of_places.append(np.array([night for _, night in side], dtype=np.int64))
    return make_sample(cases, *values, ratio=measure.ratio, base_nights=places[0], head_nights=places[1], nights=nights)


def make_sample(
    cases: Sequence[str],
    base: Sequence[Floats],
    head: Sequence[Floats],
    *,
    ratio: bool,
    base_nights: Sequence[Counts] | None = None,
    head_nights: Sequence[Counts] | None = None,
    nights: int = 1,
) -> Sample:
    """`base`, `head`: the trials of each case; `base_nights`, `head_nights`: the night of each, from 0 on."""
    if not cases:
        empty = np.zeros(0)
        return Sample(cases, base, head, empty, empty, empty, None, (empty, empty), NO_ERROR, [], NO_ERROR)
    tables = _table(base, base_nights, nights), _table(head, head_nights, nights)
    spread = _spread(base, head, tables, ratio)
    one_trial = _one_trial(base, head, ratio) / len(cases)
    weights = night_weights(tables[0].nights, tables[1].nights, one_trial, spread.sd)
    (one, of_base), (other, of_head) = (table.weighted(own) for table, own in zip(tables, weights, strict=True))
    differences = other - one
    if ratio:
        levels = log_levels(base, head, (_places(base_nights, base), _places(head_nights, head)), nights)
        differences = (of_head * levels[1] - of_base * levels[0]).sum(axis=1)
    differences[np.abs(differences) < _ROUNDING] = 0.0
    repeated = min(len(values) for values in (*base, *head)) > 1
    noise = None
    if repeated:
        noise = _noise(base, tables[0], of_base, one, ratio) + _noise(head, tables[1], of_head, other, ratio)
    strata, apart = _strata(base, head, base_nights, head_nights, tables)
    return Sample(
        cases,
        base,
        head,
        one,
        other,
        differences,
        noise,
        (tables[0].effective(of_base), tables[1].effective(of_head)),
        _night_error(spread, of_head - of_base),
        strata,
        NO_ERROR if apart is None else _night_error(spread, apart),
    )


def _places(nights: Sequence[Counts] | None, values: Sequence[Floats]) -> Sequence[Counts]:
    """The night of each trial."""
    return [np.zeros(len(trials), dtype=np.int64) for trials in values] if nights is None else nights


def _per_case(values: Sequence[Floats]) -> float:
    return sum(map(len, values)) / len(values) if values else 0.0


def _table(values: Sequence[Floats], nights: Sequence[Counts] | None, width: int) -> Table:
    rows = np.repeat(np.arange(len(values)), [len(trials) for trials in values])
    places = rows * width + (0 if nights is None else np.concatenate(nights))
    shape, size = (len(values), width), len(values) * width
    counts = np.bincount(places, minlength=size).reshape(shape)
    sums = np.bincount(places, weights=np.concatenate(values), minlength=size).reshape(shape)
    return Table(counts, sums / np.maximum(counts, 1))


def _spread(base: Sequence[Floats], head: Sequence[Floats], tables: tuple[Table, Table], ratio: bool) -> NightError:
    """Of the mean over cases, between nights: from the side with more nights, else as stated."""
    if tables[0].counts.shape[1] == 1:
        return NO_ERROR
    found = []
    for table in tables:
        values = np.where(table.counts > 0, table.means, np.nan)
        if ratio:
            values = np.log(np.where(values > 0, values, np.nan))
        found.append(night_levels(values))
    estimated = spread_of(max(found, key=len))
    if estimated is not None:
        return estimated
    if ratio:
        return NightError(DEFAULT_RATIO_SD)
    both = [np.concatenate([b, h]) for b, h in zip(base, head, strict=True)]
    return default_spread(
        np.array([values.sum() for values in both]), np.array([len(values) for values in both], dtype=np.float64)
    )


def _one_trial(base: Sequence[Floats], head: Sequence[Floats], ratio: bool) -> float:
    """The variance of one trial within its case, mean over cases."""
    found = []
    for b, h in zip(base, head, strict=True):
        both = np.concatenate([b, h])
        found.append(float(both.var(ddof=1)) / (float(both.mean()) ** 2 if ratio else 1.0))
    return float(np.mean(found))


def _night_error(spread: NightError, apart: Floats) -> NightError:
    """apart: shape (cases, nights), the weight of each night in head less that in base."""
    share = float(np.sqrt((apart.mean(axis=0) ** 2).sum()))
    return NightError(spread.sd * share, spread.freedom) if share > _SAME else NO_ERROR


def _strata(
    base: Sequence[Floats],
    head: Sequence[Floats],
    base_nights: Sequence[Counts] | None,
    head_nights: Sequence[Counts] | None,
    tables: tuple[Table, Table],
) -> tuple[list[Stratum], Floats | None]:
    """The strata; and, where the sides share no night, the weights of the nights, head less base."""
    if base_nights is None or head_nights is None or tables[0].counts.shape[1] == 1:
        return [Stratum(1.0, b, h) for b, h in zip(base, head, strict=True)], None
    shared = (tables[0].counts > 0) & (tables[1].counts > 0)
    if not shared.any():
        weights = [table.counts / table.counts.sum(axis=1, keepdims=True) for table in tables]
        return [Stratum(1.0, b, h) for b, h in zip(base, head, strict=True)], weights[1] - weights[0]
    counts = np.where(
        shared, tables[0].counts * tables[1].counts / np.maximum(tables[0].counts + tables[1].counts, 1), 0
    )
    known = shared.any(axis=1)
    # Cases that share no night have no say.
    found = []
    for case in map(int, np.flatnonzero(known)):
        for night in np.flatnonzero(shared[case]):
            weight = counts[case, night] / counts[case].sum()
            own = base[case][base_nights[case] == night], head[case][head_nights[case] == night]
            found.append(Stratum(float(weight), *own))
    return found, None


def money(records: Iterable[Record]) -> str:
    """What the costs of `records` are: paid and replayed money are never compared with each other."""
    kinds = {record.cost_status for record in records if record.outcome == "graded"}
    paid = bool(kinds & {"exact", "estimated"})
    if "simulated" in kinds:
        return "paid and replayed" if paid else "replayed"
    return "paid" if paid else "unknown" if "unknown" in kinds else "free"


def _noise(values: Sequence[Floats], table: Table, weights: Floats, means: Floats, ratio: bool) -> Floats:
    """The sampling variance of each case's weighted mean; of its logarithm by the delta method."""
    one = np.array([float(trials.var(ddof=1)) for trials in values], dtype=np.float64)
    variances: Floats = one / table.effective(weights)
    return variances / means**2 if ratio else variances
