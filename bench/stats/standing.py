"""What the records say about agents: rates with their uncertainty, cost, effort and coverage.

Infrastructure failures are counted and never scored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import fmean

from bench.formats.record import Profile
from bench.stats.entrants import Entrant
from bench.stats.intervals import Interval, clustered
from bench.stats.ranking import pass_at, pass_hat
from bench.stats.tally import Cost, Effort, Tally, total_of, without

PROFILES: tuple[Profile, ...] = ("mini", "full")
"""In the order of tables and pages."""
KS = (2, 3, 5, 10)
"""The k of pass@k and pass^k. For k = 1 both are the success."""


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` cases. `interval` (`clustered`) is None where one value gives no idea of the spread."""

    mean: float
    n: int
    interval: Interval | None


@dataclass(frozen=True)
class Passes:
    """pass@k and pass^k over the cases with k trials or more: in the others they are undefined."""

    k: int
    at: Estimate
    """At least one of k trials succeeds."""
    hat: Estimate
    """All of k trials succeed."""


@dataclass(frozen=True)
class Standing:
    """One entrant over all its cases."""

    entrant: Entrant
    ranked: bool
    """False: a reference such as the oracle, which does not compete."""
    cases: Mapping[str, Tally]
    """Each in the version that counts, by id in their order; those that were never tried are not here."""
    suite_size: int
    success: Estimate | None
    score: Estimate | None
    passes: Sequence[Passes]
    """For each of `KS` up to the most trials a case has."""
    cost: Cost
    effort: Effort
    graded: int
    succeeded: int
    """Of the graded cells."""
    cells: int
    """With a verdict or without one."""
    lost: int
    lost_rate: Estimate | None
    """The share of lost cells: mean over the cases. An agent that can bring its losses about has a high one."""
    retried: int
    """Tries that were lost before another one of the same cell."""
    repeats: int = 0
    """Cells that are in no other figure here: see `bench.stats.entrants.repeats`."""

    @property
    def covered(self) -> int:
        return sum(tally.graded > 0 for tally in self.cases.values())

    @property
    def complete(self) -> bool:
        """Was every case of the suite graded? Means over different sets of cases cannot be compared."""
        return self.suite_size > 0 and self.covered == self.suite_size


@dataclass(frozen=True)
class RankedStanding:
    """A standing with its rank, None for one that does not compete or has not met every case."""

    standing: Standing
    rank: int | None
    best: int | None = None
    """The ranks that success leaves possible (`bench.stats.ranking`)."""
    worst: int | None = None


def standings_of(
    tallies: Mapping[tuple[Entrant, bool, str], Tally],
    suite: Mapping[Profile, Collection[str]],
    repeated: Mapping[tuple[Entrant, bool, str], Tally],
) -> list[Standing]:
    """One standing per entrant, from what counts of it by whether it is ranked, and by case.

    Two where some of it is not ranked: records that do not compete take neither rank nor mean of those that do.
    repeated: what of `tallies` are repeats.
    """
    cases: dict[tuple[Entrant, bool], dict[str, Tally]] = defaultdict(dict)
    left_out: Counter[tuple[Entrant, bool]] = Counter()
    for key, tally in sorted(tallies.items(), key=itemgetter(0)):
        entrant, ranked, case = key
        cases[entrant, ranked][case] = without(tally, repeated[key]) if key in repeated else tally
        left_out[entrant, ranked] += repeated[key].cells if key in repeated else 0
    return [
        replace(_standing(who, ranked, found, len(suite[who.profile])), repeats=left_out[who, ranked])
        for (who, ranked), found in cases.items()
    ]


def rank(table: Iterable[Standing]) -> list[RankedStanding]:
    """The standings, the best first, each among those of its profile; equal means share a rank.

    The one rule of every table and page. Profiles come one after the other, as they are in no ranking together.
    """
    by_profile: dict[Profile, list[Standing]] = defaultdict(list)
    for standing in table:
        by_profile[standing.entrant.profile].append(standing)
    return [ranked for profile in PROFILES for ranked in _ranked(by_profile[profile])]


def _ranked(table: Iterable[Standing]) -> list[RankedStanding]:
    ordered = sorted(table, key=_order)
    rivals = [standing for standing in ordered if standing.ranked and standing.complete]
    bands = dict(zip(map(id, rivals), _bands(rivals), strict=True))
    return [_ranked_standing(standing, rivals, bands.get(id(standing))) for standing in ordered]


def _standing(entrant: Entrant, ranked: bool, cases: Mapping[str, Tally], suite_size: int) -> Standing:
    graded = [tally for tally in cases.values() if tally.graded]
    total = total_of(cases.values())
    return Standing(
        entrant=entrant,
        ranked=ranked,
        cases=cases,
        suite_size=suite_size,
        success=estimate([tally.success for tally in graded if tally.success is not None]),
        score=estimate([tally.score for tally in graded if tally.score is not None]),
        passes=_passes(graded),
        cost=total.cost,
        effort=total.effort,
        graded=total.graded,
        succeeded=total.succeeded,
        cells=total.cells,
        lost=total.lost,
        lost_rate=estimate([tally.lost / tally.cells for tally in cases.values() if tally.cells]),
        retried=total.retried,
    )


def estimate(means: Sequence[float]) -> Estimate | None:
    """The mean over cases, from that of each case; None for no case."""
    return Estimate(fmean(means), len(means), clustered(means)) if means else None


def _passes(graded: Sequence[Tally]) -> list[Passes]:
    counts = [(tally.graded, tally.succeeded) for tally in graded]
    found = []
    for k in KS:
        at = estimate([value for n, succeeded in counts if (value := pass_at(n, succeeded, k)) is not None])
        hat = estimate([value for n, succeeded in counts if (value := pass_hat(n, succeeded, k)) is not None])
        if at is not None and hat is not None:
            found.append(Passes(k, at, hat))
    return found


def _bands(rivals: Sequence[Standing]) -> list[tuple[int, int]]:
    """All of them were graded on every case, so their rates make a table without gaps."""
    if not rivals:
        return []
    import numpy as np

    from bench.stats.ranking import rank_bands

    return rank_bands(np.array([[case.success for case in rival.cases.values()] for rival in rivals], dtype=np.float64))


def _ranked_standing(standing: Standing, rivals: Sequence[Standing], band: tuple[int, int] | None) -> RankedStanding:
    if band is None:
        return RankedStanding(standing, None)
    better = sum(_merit(rival) > _merit(standing) for rival in rivals)
    return RankedStanding(standing, better + 1, *band)


def _merit(standing: Standing) -> tuple[float, float]:
    success = standing.success.mean if standing.success else -1.0
    score = standing.score.mean if standing.score else -1.0
    # Means that are equal on paper may differ in the last digit, and must share a rank.
    return round(success, 9), round(score, 9)


def _order(standing: Standing) -> tuple[bool, bool, float, float, Entrant]:
    success, score = _merit(standing)
    return not standing.ranked, not standing.complete, -success, -score, standing.entrant
