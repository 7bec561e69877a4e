"""What the records say about agents: rates with their uncertainty, cost, effort and coverage.

Only records of one profile, and of the newest version of each case, are ever put together; infrastructure failures are
counted and never scored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean

from bench.formats.help import HELPED
from bench.formats.record import Profile, Record
from bench.stats.intervals import Interval, clustered
from bench.stats.ranking import pass_at, pass_hat
from bench.stats.tally import Cost, Effort, Tally, total_of

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


@dataclass(frozen=True, order=True)
class Entrant:
    """Who is measured: an agent with its model, in one profile."""

    profile: Profile
    agent: str
    model: str


@dataclass(frozen=True)
class Standing:
    """One entrant over all its cases."""

    entrant: Entrant
    ranked: bool
    """False: a reference such as the oracle, which does not compete."""
    cases: Mapping[str, Tally]
    """Each in its newest version, by id in their order; those that were never tried are not here."""
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


def counted_cells(
    unique: Sequence[Record], suite: Mapping[Profile, Collection[str]]
) -> dict[tuple[Entrant, str], list[Record]]:
    """Those of `unique_cells` that count, by entrant and case in their order.

    Records of cases outside the suite, or of older versions of a case, do not count.
    """
    groups: dict[tuple[Entrant, str], list[Record]] = defaultdict(list)
    for record in current(unique):
        if record.case.id in suite.get(record.profile, ()):
            groups[entrant_of(record), record.case.id].append(record)
    return dict(sorted(groups.items()))


def standings_of(
    tallies: Mapping[tuple[Entrant, str], tuple[Tally, bool]], suite: Mapping[Profile, Collection[str]]
) -> list[Standing]:
    """One standing per entrant, from what counts of it by case, each with whether all of it is ranked."""
    cases: dict[Entrant, dict[str, Tally]] = defaultdict(dict)
    for (entrant, case), (tally, _) in sorted(tallies.items(), key=itemgetter(0)):
        cases[entrant][case] = tally
    references = {entrant for (entrant, _), (_, ranked) in tallies.items() if not ranked}
    return [_standing(who, who not in references, found, len(suite[who.profile])) for who, found in cases.items()]


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


def entrant_of(record: Record) -> Entrant:
    return Entrant(record.profile, record.agent.id, model_label(record.models, helped=record.help is not None))


def model_label(models: Mapping[str, str], *, helped: bool = False) -> str:
    """The models of a run as one text: the bare name where there is only the main one, empty without any.

    helped: the agent could ask for help. That makes another entrant of it, which takes part in no other's means.
    """
    alone = set(models) == {"main"}
    text = models["main"] if alone else ", ".join(f"{role}={model}" for role, model in sorted(models.items()))
    return f"{text} {HELPED}".strip() if helped else text


def unique_cells(records: Iterable[Record]) -> list[Record]:
    """One record per cell of a run: a second attempt fills what was lost, and never replaces a verdict."""
    kept: dict[tuple[str, str], Record] = {}
    for record in records:
        key = (record.provenance.run, record.cell)
        if key not in kept or _precedence(record) < _precedence(kept[key]):
            kept[key] = record
    return sorted(kept.values(), key=lambda record: (record.started, record.provenance.run, record.cell))


def newest_versions(records: Iterable[Record]) -> dict[tuple[Profile, str], str]:
    """The version of each case that counts: the one graded last, or tried last where none was ever graded."""
    newest: dict[tuple[Profile, str], Record] = {}
    for record in records:
        key = (record.profile, record.case.id)
        if key not in newest or _recency(record) > _recency(newest[key]):
            newest[key] = record
    return {key: record.case_version for key, record in newest.items()}


def current(records: Sequence[Record]) -> list[Record]:
    """The records of the newest version of each case."""
    newest = newest_versions(records)
    return [record for record in records if record.case_version == newest[record.profile, record.case.id]]


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


def _precedence(record: Record) -> tuple[bool, str, str]:
    """The first verdict wins, so that running again until chance is kind gains nothing; then the latest failure."""
    graded = record.outcome == "graded"
    return not graded, record.finished if graded else "", "" if graded else _reversed(record.finished)


def _recency(record: Record) -> tuple[bool, str]:
    return record.outcome == "graded", record.started


def _reversed(instant: str) -> str:
    """A text that sorts the other way round."""
    return "".join(chr(0x7F - ord(character)) for character in instant)
