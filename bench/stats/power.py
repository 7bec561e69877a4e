"""Where the variance of an agent's results comes from: its cases, or its trials."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean, pvariance, variance

import numpy as np

from bench.formats.record import Record
from bench.stats.entrants import current, unique_cells
from bench.stats.intervals import SEED, Floats, signs
from bench.stats.pairing import Measure
from bench.stats.sign_flips import all_signs, flipped_chances
from bench.stats.tally import Cost, tally_of
from bench.stats.tests import DEFAULT_RULES, MOST_CASES, MOST_TRIALS, POWER, Rules

TRIALS = (1, 2, 3, 5, 8, 10, 15, 20)
# The error of a simulated power near 0.8 is then 0.013.
_ROUNDS = 1_000
_SIGNS = 1_000
_MOST_SIMULATED = 300
_MOST_EXACT = 10


@dataclass(frozen=True)
class Components:
    """Of one measure, over the cases of one agent with its models in one profile."""

    mean: float
    """Over cases."""
    between: float
    """The variance of the cases' true means."""
    within: float
    """The mean over cases of the variance of one trial."""
    cases: int
    trials: int
    """Graded, in all."""
    repeated: bool
    """False: no case has two trials of one version. `within` is then its upper bound, and `between` 0."""


def components(records: Iterable[Record], measure: Measure) -> Components | None:
    """The parts, by the method of moments of one-way analysis of variance; None for fewer than two graded cases.

    Searle, Casella and McCulloch, Variance Components, 1992, section 3.6. Trials of different versions of the agent
    are not trials of one thing: the variance within is taken inside each version.
    """
    groups: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in current(unique_cells(records)):
        value = measure.value(record)
        if record.outcome == "graded" and value is not None:
            groups[record.case.id][record.agent.digest].append(value)
    if len(groups) < 2:
        return None
    pooled = {case: [value for values in versions.values() for value in values] for case, versions in groups.items()}
    means = [fmean(values) for values in pooled.values()]
    trials = sum(map(len, pooled.values()))
    inside = [
        fmean([variance(values) for values in versions.values() if len(values) > 1])
        for versions in groups.values()
        if any(len(values) > 1 for values in versions.values())
    ]
    if not inside:
        return Components(fmean(means), 0.0, pvariance(means), len(means), trials, repeated=False)
    within = fmean(inside)
    of_means = fmean([within / len(values) for values in pooled.values()])
    between = max(0.0, variance(means) - of_means)
    return Components(fmean(means), between, within, len(means), trials, repeated=True)


@dataclass(frozen=True)
class Price:
    """What a graded cell takes, from history."""

    cost: Cost
    machine_hours: float
    """From preparing to judging."""
    gpu_hours: float
    """The same, of the cells that ran on machines with a GPU."""


@dataclass(frozen=True)
class Design:
    """One way to measure."""

    cases: int
    trials: int
    """A case and side."""
    power: float
    """The chance that the drop is found."""
    cells: int
    usd: float | None
    """To be paid for all cells; None where no cost is known."""
    machine_hours: float
    gpu_hours: float


def price(records: Iterable[Record]) -> Price | None:
    """Means over the graded records; None without any."""
    graded = [record for record in records if record.outcome == "graded"]
    if not graded:
        return None
    hours = [sum(phase.seconds for phase in record.phases) / 3600 for record in graded]
    on_gpu = [time if record.machine.gpu else 0.0 for record, time in zip(graded, hours, strict=True)]
    return Price(tally_of(graded).cost, fmean(hours), fmean(on_gpu))


@dataclass(frozen=True)
class Question:
    """What must be seen, and by which rule of `compare`."""

    parts: Components
    drop: float
    binary: bool
    """Of successes; otherwise of scores."""
    rules: Rules = DEFAULT_RULES


def power(question: Question, cases: int, trials: int) -> float:
    """The chance that `compare` calls the drop a regression, by simulating its very test `_ROUNDS` times.

    Cases are drawn anew each time. Their chances of success follow the Beta distribution with the history's mean and
    variance between cases, which has most of its mass near 0 and 1 where many cases are sure; the drop takes the same
    share of each. Scores follow normal distributions instead. For more than `_MOST_SIMULATED` cases the normal
    approximation takes the test's place: a simulation is only needed where few cases differ, because the signs of few
    pairs are a coarse test, and the approximation promises too much.
    """
    if cases > _MOST_SIMULATED:
        return _approximate(question, cases, trials)
    return found_share(_draw(question, cases, trials), question.rules)


def found_share(differences: Floats, rules: Rules) -> float:
    """The share of the rows of `differences`, shape (rounds, cases), that `compare` calls a regression.

    Head minus base, a case each. Of few cases every choice of signs is tried, of more `_SIGNS` that are drawn.
    """
    cases = differences.shape[1]
    if cases < fewest_cases(rules.alpha):
        return 0.0
    means = differences.mean(axis=1)
    exact = cases <= _MOST_EXACT
    tried = all_signs(cases) if exact else signs(cases, _SIGNS)
    p = flipped_chances(differences, tried, exact=exact)
    return float(((p < rules.alpha) & (means <= 1e-9 - rules.margin)).mean())


def fewest_cases(alpha: float) -> int:
    """Cases below which no result is significant: n signs alone give no p-value below 2^-n."""
    return max(2, math.floor(-math.log2(alpha) + 1e-12) + 1)


def trials_needed(question: Question, cases: int, aim: float = POWER) -> int | None:
    """The fewest trials a case and side that see the drop on so many cases; None beyond `MOST_TRIALS`."""
    if cases < fewest_cases(question.rules.alpha):
        return None
    return _fewest(lambda trials: power(question, cases, trials) >= aim, MOST_TRIALS)


def cases_needed(question: Question, trials: int, aim: float = POWER) -> int | None:
    """The fewest cases like these that see the drop with so many trials; None beyond `MOST_CASES`."""
    return _fewest(lambda cases: power(question, cases, trials) >= aim, MOST_CASES)


def _fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """By doubling, then halving: more is never worse, but for the noise of the simulation."""
    low, high = 0, 1
    while not enough(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _draw(question: Question, cases: int, trials: int) -> Floats:
    """(_ROUNDS, cases): differences of case means, head minus base."""
    rng = np.random.default_rng([SEED, cases, trials])
    parts, size = question.parts, (_ROUNDS, cases)
    share = 1 - question.drop / parts.mean
    if not question.binary:
        means = rng.normal(parts.mean, parts.between**0.5, size=size)
        noise = rng.normal(0, (2 * parts.within / trials) ** 0.5, size=size)
        return means * (share - 1) + noise
    most = parts.mean * (1 - parts.mean)
    if most > 0:
        # At both ends the Beta distribution loses its shape: all cases alike, or each of them sure.
        between = min(max(parts.between, 1e-3 * most), 0.999 * most)
        weight = most / between - 1
        chances = rng.beta(parts.mean * weight, (1 - parts.mean) * weight, size=size)
    else:
        # Every trial succeeded: the Beta distribution shrinks to a point, which its two parameters cannot express.
        chances = np.full(size, parts.mean)
    found: Floats = (rng.binomial(trials, share * chances) - rng.binomial(trials, chances)) / trials
    return found


def _approximate(question: Question, cases: int, trials: int) -> float:
    """The power of flipping signs for many cases (Lehmann and Romano, Testing Statistical Hypotheses, 2005, 15.2).

    A case's difference has the mean -drop, the sampling variance 2 within / trials, and the variance between cases
    (drop / mean)^2 between. Flipping signs measures spread around 0, so that the test rejects below -z(1 - alpha)
    sqrt((variance + drop^2) / cases), while the mean difference varies by sqrt(variance / cases).
    """
    from scipy.special import ndtr, ndtri

    parts, drop, rules = question.parts, question.drop, question.rules
    spread = 2 * parts.within / trials + (drop / parts.mean) ** 2 * parts.between
    edge = max(float(ndtri(1 - rules.alpha)) * math.sqrt((spread + drop * drop) / cases), rules.margin)
    error = math.sqrt(spread / cases)
    return float(ndtr((drop - edge) / error)) if error else float(drop >= edge)


def designs(question: Question, cost: Price, enough: int | None, *, sides: int = 2) -> list[Design]:
    """What each of `TRIALS`, and `enough` trials, would see on as many cases as the history has.

    sides: 2 when both base and head are to be run, 1 when base is stored already.
    """
    cases = question.parts.cases
    usd = cost.cost.mean_usd
    if usd is None and cost.cost.replayed_usd is not None:
        # Replayed conversations are not paid for, whatever they would have cost.
        usd = 0.0
    found = []
    for trials in sorted({*TRIALS, *([enough] if enough is not None else [])}):
        cells = sides * cases * trials
        found.append(
            Design(
                cases=cases,
                trials=trials,
                power=power(question, cases, trials),
                cells=cells,
                usd=None if usd is None else usd * cells,
                machine_hours=cost.machine_hours * cells,
                gpu_hours=cost.gpu_hours * cells,
            )
        )
    return found
