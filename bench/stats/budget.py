"""A verdict for a budget: how many trials of which cases, what that costs, and how likely it sees a drop.

What is said holds of the *selection* that was made. Cases are taken from strata in proportion, and in each of them
those first that tell most per dollar, so the mean over them is an estimate of nothing but these cases.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from bench.base.text import counted
from bench.formats.record import Record
from bench.stats.intervals import SEED, Floats, Interval
from bench.stats.power import TRIALS, fewest_cases, found_share
from bench.stats.prior import Candidate, Prior, TooLittle, posterior
from bench.stats.tests import DEFAULT_RULES, POWER, Rules

_ROUNDS = 1_000
# Of the interval of the chance: so many true states of the agent, each met so often. The error of one is at most 0.04.
_STATES, _MEETINGS = 100, 150
_LADDER = 8
# Of all designs the normal approximation picks so many; only they are simulated.
_FINALISTS = 6
# Two designs whose simulated chances are so near are taken for equally good, and the cheaper one is chosen.
_EQUAL = 0.01
# Where no case was met twice. Costs of real agents' trials spread less.
_USUAL_SPREAD = 1.0


@dataclass(frozen=True)
class Offer:
    """Trials of some cases: what they cost, and the chance that they show the drop."""

    cases: Sequence[str]
    trials: int
    power: float
    usd: float
    usd_interval: Interval
    """In which the bill lies with 95%."""


@dataclass(frozen=True)
class Selection:
    """The best that a budget buys."""

    offer: Offer
    power_interval: Interval
    """95%: history is a sample, and so the chance is not known exactly."""
    strata: dict[str, tuple[int, int]]
    """Category, difficulty and length to the cases taken, and all of them."""
    enough: Offer | None
    """The cheapest that sees the drop with `POWER`, be it in the budget or not; None: none does."""
    unknown: int
    """Cases of the offer that history does not tell of."""


def select(
    candidates: Sequence[Candidate],
    records: Iterable[Record],
    drop: float,
    budget: float,
    most_trials: int,
    rules: Rules = DEFAULT_RULES,
) -> Selection:
    """The selection with the best chance to see `drop` (of the mean success) for `budget` dollars; raises `TooLittle`.

    Its whole interval of costs lies in the budget. A case's chance of success has a Beta distribution: the moments of
    the cases that were met, and the case's own trials (empirical Bayes: Carlin and Louis, Bayes and Empirical Bayes
    Methods, 2000, section 3.2). The drop takes the same share of each chance, as in `power`.
    """
    prior, counts = posterior(candidates, records)
    shapes = np.add(counts, prior.parameters)
    if not drop < float((shapes[:, 0] / shapes.sum(axis=1)).mean()):
        raise TooLittle(f"the agent succeeds too seldom to drop by {100 * drop:g} points")
    floor = fewest_cases(rules.alpha)
    if len(candidates) < floor:
        raise TooLittle(f"a verdict needs {counted(floor, 'case')}, and the plan has {len(candidates)}")
    strata = _strata(candidates, shapes)
    order = _order(candidates, shapes, strata)
    sizes = sorted({round(it) for it in np.geomspace(floor, len(candidates), _LADDER)})
    offers = _Offers(candidates, shapes, order, drop, rules)
    designs = offers.designs(sizes, most_trials, budget, floor)
    affordable = [it for it in designs if offers.bill(it)[1].high <= budget]
    if not affordable:
        least = min(offers.bill(it)[1].high for it in designs)
        raise TooLittle(f"the cheapest verdict, one trial of {counted(floor, 'case')}, may cost {least:.2f} USD")
    offer = offers.best(affordable)
    enough = offers.cheapest(designs)
    chosen = order[: len(offer.cases)]
    taken = Counter(strata[index] for index in chosen)
    return Selection(
        offer=offer,
        power_interval=_power_interval(prior, counts[chosen], offer.trials, drop, rules),
        strata={name: (taken[name], size) for name, size in sorted(Counter(strata).items())},
        enough=enough,
        unknown=sum(not counts[index].any() for index in chosen),
    )


def _strata(candidates: Sequence[Candidate], shapes: Floats) -> list[str]:
    """Category, difficulty by the expected success, and length by the median of all cases."""
    middle = median(it.seconds for it in candidates)
    means = shapes[:, 0] / shapes.sum(axis=1)
    return [
        f"{it.category}, {'hard' if mean < 1 / 3 else 'medium' if mean <= 2 / 3 else 'easy'}, "
        f"{'long' if it.seconds > middle else 'short'}"
        for it, mean in zip(candidates, means, strict=True)
    ]


def _order(candidates: Sequence[Candidate], shapes: Floats, strata: Sequence[str]) -> list[int]:
    """Indices, so that every beginning has the strata in proportion, and of each what tells most per dollar."""
    a, b = shapes[:, 0], shapes[:, 1]
    mean = a / (a + b)
    noise = 2 * a * b / ((a + b) * (a + b + 1))
    cost = np.array([max(it.usd * it.arms, 1e-9) for it in candidates])
    worth = mean**2 / np.maximum(noise, 1e-9) / cost
    groups: dict[str, list[int]] = defaultdict(list)
    for index, stratum in enumerate(strata):
        groups[stratum].append(index)
    places = {}
    for members in groups.values():
        members.sort(key=lambda index: (-worth[index], candidates[index].id))
        places.update({index: (place + 0.5) / len(members) for place, index in enumerate(members)})
    return sorted(places, key=lambda index: (places[index], -worth[index], candidates[index].id))


class _Offers:
    """Designs (number of cases, trials) of the beginnings of `order`, with their bills and chances."""

    def __init__(
        self, candidates: Sequence[Candidate], shapes: Floats, order: Sequence[int], drop: float, rules: Rules
    ) -> None:
        self._ordered = [candidates[index] for index in order]
        self._shapes = shapes[list(order)]
        self._drop, self._rules = drop, rules
        self._made: dict[tuple[int, int], Offer] = {}

    def designs(self, sizes: Sequence[int], most_trials: int, budget: float, floor: int) -> list[tuple[int, int]]:
        """The ladder of sizes, and with each number of trials the largest size that the budget holds."""
        found = []
        for trials in sorted({min(it, most_trials) for it in TRIALS}):
            low, high = floor - 1, len(self._ordered)
            while low < high:
                middle = (low + high + 1) // 2
                if self.bill((middle, trials))[1].high <= budget:
                    low = middle
                else:
                    high = middle - 1
            found += [(size, trials) for size in sorted({*sizes, max(low, floor)})]
        return found

    def bill(self, design: tuple[int, int]) -> tuple[float, Interval]:
        """What it costs (USD)."""
        size, trials = design
        return _bill(self._ordered[:size], trials)

    def best(self, designs: Sequence[tuple[int, int]]) -> Offer:
        """With the best chance, and of equals the cheapest."""
        likely = sorted(designs, key=lambda it: (-round(self._guess(it), 2), self.bill(it)[0], it))
        offers = [self._offer(it) for it in likely[:_FINALISTS]]
        least = max(it.power for it in offers) - _EQUAL
        return min((it for it in offers if it.power >= least), key=lambda it: (it.usd, it.trials * len(it.cases)))

    def cheapest(self, designs: Sequence[tuple[int, int]]) -> Offer | None:
        """Of those that see the drop with `POWER`."""
        near = [it for it in designs if self._guess(it) >= POWER - 0.1]
        likely = sorted(near, key=lambda it: (self.bill(it)[0], it))[: 2 * _FINALISTS]
        return next((offer for offer in map(self._offer, likely) if offer.power >= POWER), None)

    def _guess(self, design: tuple[int, int]) -> float:
        size, trials = design
        return _guess(self._shapes[:size], trials, self._drop, self._rules)

    def _offer(self, design: tuple[int, int]) -> Offer:
        if design not in self._made:
            size, trials = design
            rng = np.random.default_rng([SEED, size, trials])
            chances = rng.beta(self._shapes[:size, 0], self._shapes[:size, 1], size=(_ROUNDS, size))
            found = found_share(_drawn(rng, chances, trials, self._drop), self._rules)
            usd, interval = self.bill(design)
            self._made[design] = Offer([it.id for it in self._ordered[:size]], trials, found, usd, interval)
        return self._made[design]


def _guess(shapes: Floats, trials: int, drop: float, rules: Rules) -> float:
    """The chance by a normal approximation, as in `power` for many cases."""
    a, b = shapes[:, 0], shapes[:, 1]
    mean = a / (a + b)
    square = mean * (a + 1) / (a + b + 1)
    share = max(0.0, 1 - drop / max(float(mean.mean()), 1e-9))
    noise = (mean - square + share * mean - share**2 * square) / trials
    spread = float(np.mean(noise + (1 - share) ** 2 * (square - mean**2)) + (1 - share) ** 2 * mean.var())
    edge = max(float(ndtri(1 - rules.alpha)) * math.sqrt((spread + drop * drop) / len(shapes)), rules.margin)
    return float(ndtr((drop - edge) / math.sqrt(max(spread, 1e-12) / len(shapes))))


def _drawn(rng: np.random.Generator, chances: Floats, trials: int, drop: float) -> Floats:
    """(rounds, cases): differences of case means, where all of a row's chances lose the same share."""
    share = np.maximum(0.0, 1 - drop / np.maximum(chances.mean(axis=1, keepdims=True), 1e-9))
    found: Floats = (rng.binomial(trials, share * chances) - rng.binomial(trials, chances)) / trials
    return found


def _power_interval(prior: Prior, counts: Floats, trials: int, drop: float, rules: Rules) -> Interval:
    """95% of the chances that the states of the agent give which history leaves possible."""
    cases = len(counts)
    rng = np.random.default_rng([SEED, cases, trials, 1])
    chances = []
    for _ in range(_STATES):
        shapes = counts + prior.drawn(rng)
        state = np.broadcast_to(rng.beta(shapes[:, 0], shapes[:, 1]), (_MEETINGS, cases))
        chances.append(found_share(_drawn(rng, state, trials, drop), rules))
    low, high = np.quantile(chances, [0.025, 0.975])
    return Interval(float(low), float(high))


def _bill(chosen: Sequence[Candidate], trials: int) -> tuple[float, Interval]:
    """What the trials cost, and the 95% prediction interval of the sum.

    Of a case with n costs seen the mean of m further ones has the variance v (1 / m + 1 / n) (Hahn and Meeker,
    Statistical Intervals, 1991, section 4.8); v is taken in proportion to the case's mean, from all cases together. The
    interval is that of the logarithm, because a bill is never negative. Where nothing was seen, the most that is
    possible counts: from 0 up to it.
    """
    known = [it for it in chosen if it.costs]
    limits = trials * sum(it.usd * it.arms for it in chosen if not it.costs)
    relative, degrees = _relative_variance([it.costs for it in known])
    total = trials * sum(it.usd * it.arms for it in known)
    cells = [(it, trials * it.arms) for it in known]
    variance = sum(relative * it.usd**2 * (number + number**2 / len(it.costs)) for it, number in cells)
    if total == 0:
        return limits, Interval(0.0, limits)
    spread = math.sqrt(math.log1p(variance / total**2))
    reach = float(stdtrit(max(1, degrees) if degrees else 3, 0.975)) * spread
    return total + limits, Interval(total * math.exp(-reach), total * math.exp(reach) + limits)


def _relative_variance(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Of costs within their groups, in proportion to the squared mean; and its degrees of freedom.

    That of the logarithms is taken where it is larger, because few values of a skewed distribution lack its tail.
    """
    squares, logs, degrees = 0.0, 0.0, 0
    for costs in groups:
        mean = fmean(costs)
        if len(costs) > 1 and mean > 0:
            degrees += len(costs) - 1
            squares += sum((cost / mean - 1) ** 2 for cost in costs)
            if min(costs) > 0:
                logs += float(np.log(costs).var()) * len(costs)
    if not degrees:
        return _USUAL_SPREAD, 0
    return max(squares / degrees, math.expm1(min(logs / degrees, 5.0))), degrees
