"""The noise floor: what an agent differs from itself, on the same class of machines.

An A/A run has two arms of one agent (`run --base` with the same agent): whatever its arms differ by is not the agent's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.base.text import counted
from bench.formats.record import Record
from bench.stats.comparable import pair
from bench.stats.entrants import model_label, unique_cells
from bench.stats.intervals import Floats
from bench.stats.pairing import MEASURES, Sample, money, sample
from bench.stats.standing import Estimate, estimate
from bench.stats.tally import LOST

LEAST_CASES = 5
"""Of an A/A run that counts."""
MOST_RUNS = 20
"""The newest of a class of machines count."""
_SHOWN = 0.05
"""The level at which A/A runs show that their arms differ by more than their trials explain."""


@dataclass(frozen=True)
class Losses:
    """Cells that were lost to infrastructure or interrupted."""

    lost: int
    cells: int
    rate: Estimate | None
    """The mean over cases of their share, as on the board."""


@dataclass(frozen=True)
class MeasureNoise:
    """What A/A runs say of one measure; of a ratio, on its logarithm."""

    runs: int
    shift: float
    """Standard deviation of the difference between arms that trials do not explain; 0 where none was shown."""
    variance: float
    """Of the difference of one case, between one trial of each arm."""

    def floor(self, cases: int, share: float, alpha: float) -> float:
        """What equal agents differ by, in one direction, in a share of `alpha` of comparisons over `cases`.

        share: 1 over the trials of base and 1 over those of head together, mean over cases.
        """
        from scipy.special import ndtri

        return float(ndtri(1 - alpha)) * math.sqrt(self.shift**2 + self.variance * share / cases)


@dataclass(frozen=True)
class NoiseFloor:
    """What is known of one class of machines."""

    machine: str
    """Its fingerprint; empty where the comparison has more than one."""
    runs: Sequence[str]
    """The A/A runs that count, in order."""
    left_out: Sequence[str]
    """A/A runs of this class that do not count, each with the reason."""
    measures: Mapping[str, MeasureNoise]
    losses: Losses
    """Of the cells of `runs`."""

    def of(self, it: Sample, measure: str, alpha: float) -> float | None:
        """The floor of a comparison of this size; None where no A/A run measured it."""
        noise = self.measures.get(measure)
        if noise is None or not it.cases:
            return None
        base, head = it.effective
        return noise.floor(len(it.cases), float(np.mean(1 / base + 1 / head)), alpha)


@dataclass(frozen=True)
class _Seen:
    """One measure in one A/A run."""

    cases: int
    difference: float
    square: float
    """The squared standard error of the difference over cases."""
    variance: float


def noise_floor(base: Sequence[Record], head: Sequence[Record], others: Iterable[Record]) -> NoiseFloor:
    """The floor for a comparison of `base` with `head`, from the A/A runs among `others`.

    An A/A run counts if it has the machine class and the profile of the comparison, calls are paid in both or replayed
    in both, its arms are comparable, and it has `LEAST_CASES` cases. A run of head's does not count: it is what is
    asked of. One of base's may, as part of base's history.
    """
    sides = [*base, *head]
    machines = {record.machine.fingerprint for record in sides}
    machine = machines.pop() if len(machines) == 1 else ""
    compared = {record.provenance.run for record in head}
    found: dict[str, list[Sample]] = defaultdict(list)
    counted: dict[str, list[Record]] = {}
    left_out = []
    for run, records in _arms_of_one_agent(others, compared):
        if {record.machine.fingerprint for record in records} != {machine} or len(counted) == MOST_RUNS:
            continue
        samples, reason = _samples(records, sides)
        if reason:
            left_out.append(f"{run}: {reason}")
            continue
        counted[run] = records
        for name, it in samples.items():
            found[name].append(it)
    noise = {name: measure_noise(samples) for name, samples in found.items()}
    losses = losses_of([record for records in counted.values() for record in records])
    return NoiseFloor(machine, list(counted)[::-1], left_out, noise, losses)


def losses_of(records: Iterable[Record]) -> Losses:
    """Of the cells of `records`, each counted once."""
    cases: dict[str, list[bool]] = defaultdict(list)
    for record in unique_cells(records):
        cases[record.case.id].append(record.outcome in LOST)
    shares = [sum(them) / len(them) for them in cases.values()]
    return Losses(sum(map(sum, cases.values())), sum(map(len, cases.values())), estimate(shares))


def _arms_of_one_agent(records: Iterable[Record], without: Collection[str]) -> list[tuple[str, list[Record]]]:
    """The A/A runs by their names, the newest first.

    Two descriptions in one folder have the same digest and are different agents: the id must be equal, too.
    """
    runs: dict[str, list[Record]] = defaultdict(list)
    for record in unique_cells(records):
        if record.arm and record.provenance.run not in without:
            runs[record.provenance.run].append(record)
    found = [
        (run, them)
        for run, them in runs.items()
        if len({record.arm for record in them}) == 2
        and len({(record.agent.id, record.agent.digest, model_label(record.models)) for record in them}) == 1
    ]
    return sorted(found, key=lambda it: (min(record.started for record in it[1]), it[0]), reverse=True)


def _samples(records: Sequence[Record], sides: Sequence[Record]) -> tuple[dict[str, Sample], str]:
    """Each measure of the run, or the reason why the run does not count."""
    base, head = ([record for record in records if record.arm == arm] for arm in ("base", "head"))
    paired = pair(base, head)
    if paired.reasons:
        return {}, paired.reasons[0]
    if {record.profile for record in records} != {record.profile for record in sides}:
        return {}, "another profile"
    if (own := money(records)) != (other := money(sides)):
        return {}, f"its calls are {own}, those of the comparison {other}"
    if len(paired.pairs) < LEAST_CASES:
        return {}, f"has {counted(len(paired.pairs), 'case')}, {LEAST_CASES} are the least"
    samples = {name: sample(measure, paired.pairs, len(paired.nights)) for name, measure in MEASURES.items()}
    return {name: it for name, it in samples.items() if len(it.cases) >= LEAST_CASES}, ""


def measure_noise(samples: Sequence[Sample]) -> MeasureNoise:
    """Pooled over the runs, each with the weight of its cases.

    The mean of a run's difference is 0, for its arms are one agent; its variance is that of its trials and that of a
    shift between arms. The shift's is the moment estimate, the excess of the squared differences over the squared
    standard errors (Hedges and Olkin, Statistical Methods for Meta-Analysis, 1985, chapter 9, where the mean is
    known), once the excess is shown: the squared t-statistics, each turned into the chi-square of the same p, add up
    to one of as many degrees of freedom as there are runs (Lancaster, Biometrika 36, 1949).
    """
    seen = [_seen(it) for it in samples]
    weights = np.array([it.cases for it in seen], dtype=np.float64)
    weights /= weights.sum()
    excess = float(weights @ np.array([it.difference**2 - it.square for it in seen]))
    shift = math.sqrt(excess) if excess > 0 and shift_chance(_statistics(seen)) < _SHOWN else 0.0
    return MeasureNoise(len(seen), shift, float(weights @ np.array([it.variance for it in seen])))


def _seen(it: Sample) -> _Seen:
    differences: Floats = it.differences
    variance = float(differences.var(ddof=1))
    base, head = it.effective
    share = float(np.mean(1 / base + 1 / head))
    return _Seen(len(differences), float(differences.mean()), variance / len(differences), variance / share)


def _statistics(seen: Sequence[_Seen]) -> list[tuple[float, int]]:
    """The t-statistic of each run, with its degrees of freedom."""
    found = []
    for it in seen:
        error = math.sqrt(it.square)
        # Differences that agree to the last digit leave an error of rounding.
        surely = abs(it.difference) > 1e-9 and error < 1e-9
        found.append((math.inf if surely else it.difference / error if error >= 1e-9 else 0.0, it.cases - 1))
    return found


def shift_chance(statistics: Sequence[tuple[float, int]]) -> float:
    """The p-value of no shift: of t-statistics with their degrees of freedom, one for each run."""
    from scipy.special import chdtrc, chdtri, stdtr

    total = 0.0
    for statistic, freedom in statistics:
        chance = 2 * float(stdtr(freedom, -abs(statistic)))
        total += float(chdtri(1, max(chance, 1e-300)))
    return float(chdtrc(len(statistics), total))
