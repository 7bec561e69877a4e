"""Stored results, as tables and pages ask for them: worked out from records here, from the index in `bench.index`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Protocol, Self

from bench.formats.record import CheckResult, Profile, Record
from bench.stats.conditions import Conditions
from bench.stats.entrants import Entrant
from bench.stats.improvement import Improvement
from bench.stats.listing import CaseMonth, CellLine
from bench.stats.periods import CasePeriod, Spent, TokenUse
from bench.stats.standing import PROFILES, Standing

if TYPE_CHECKING:
    from bench.stats.night_points import NightPoints

Suite = Mapping[Profile, Collection[str]]
"""The cases that count, for each profile."""
_HUGE = 2.0**64


@dataclass(frozen=True)
class CaseSeen:
    """A case as its newest result names it, with the number of its results, those that do not count too."""

    category: str
    title: str
    results: int
    ungraded: int


@dataclass(frozen=True)
class Trial:
    """A result with what decides whether it counts in the standings."""

    record: Record
    kept: bool
    """False: of several attempts at this cell another one counts."""
    current: bool
    """Is it of the version of its case that counts?"""


@dataclass(frozen=True)
class Version:
    """A version of an agent."""

    digest: str
    commit: str


@dataclass(frozen=True)
class Findings:
    """What was noted of one entrant on one case, in lost cells too: how often each name came, and how many claims."""

    failure_modes: Mapping[str, int]
    flags: Mapping[str, int]
    flagged: int
    """Cells with a flag."""
    claims: int
    overclaims: int
    stops: Mapping[str, int]
    """How the agent's part of the graded cells ended, and how often."""
    last: str
    """Start of the newest cell, to the second."""


@dataclass(frozen=True)
class CheckShares:
    """A check as the newest graded trial shows it, with the share of each entrant's trials that passed it."""

    check: CheckResult
    shares: dict[Entrant, float]


@dataclass(frozen=True)
class Measured:
    """A metric over the trials of one entrant."""

    entrant: Entrant
    name: str
    unit: str
    mean: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, entrant: Entrant, name: str, unit: str, values: Sequence[float]) -> Self:
        """Of the values in any order: the mean is exact. Also where no number holds their sum."""
        low, high = min(values), max(values)
        try:
            mean = fmean(values)
        except OverflowError:
            # A power of two changes no digit of numbers that are large.
            mean = min(high, max(low, fmean(value / _HUGE for value in values) * _HUGE))
        return cls(entrant, name, unit, mean, low, high, len(values))


class Results(Protocol):
    """Results that the ledger of decisions has not withdrawn, measured against one suite.

    All but `cases` and `trials` know only what counts in the standings.
    """

    def standings(self) -> list[Standing]:
        """One for each entrant; two where some of its results are ranked and others are not."""

    def cases(self) -> Mapping[str, CaseSeen]:
        """Every case that has a result, in the suite or not."""

    def versions(self) -> Mapping[Entrant, Sequence[Version]]:
        """Of each entrant's agent."""

    def conditions(self) -> Mapping[Entrant, Conditions]:
        """Under which the graded cells of each entrant were measured."""

    def findings(self) -> Mapping[tuple[Entrant, str], Findings]:
        """By entrant and case."""

    def checks(self) -> Mapping[tuple[Profile, str], Sequence[CheckShares]]:
        """By profile and case, in the order of the newest trials."""

    def metrics(self) -> Mapping[tuple[Profile, str], Sequence[Measured]]:
        """By profile and case, in no order."""

    def improvements(self) -> Sequence[Improvement]:
        """Of each entrant on each case whose records say what its metric is held against, in the order of both."""

    def nights(self, measure: str) -> NightPoints:
        """What `nightly` makes series of, for a name of `MEASURES`: all suites and cases."""

    def case_periods(self) -> Sequence[CasePeriod]:
        """By profile, case and day; further back by weeks."""

    def token_use(self) -> Mapping[Entrant, TokenUse]:
        """Of the graded cells of each entrant."""

    def spending(self) -> Sequence[Spent]:
        """By profile and day; further back by weeks."""

    def trials(self, of_case: int, of_entrant: int) -> Sequence[Trial]:
        """At least the newest `of_case` results of each case, and the last `of_entrant` that count of each entrant on
        each case; in no order."""

    def case_months(self) -> Sequence[CaseMonth]:
        """By case and month: all results, counted or not."""

    def lines_of_month(self, month: str) -> Sequence[CellLine]:
        """Of all cases, in `line_order`; `month`: as `CaseMonth` has it."""


def suite_of(cases: Iterable[tuple[str, Iterable[Profile]]]) -> Suite:
    """What counts, of cases with the profiles that each has: the one rule of coverage."""
    found: dict[Profile, list[str]] = {profile: [] for profile in PROFILES}
    for case, profiles in sorted((case, set(profiles)) for case, profiles in cases):
        for profile in PROFILES:
            if profile in profiles:
                found[profile].append(case)
    return found


def suite_of_records(records: Iterable[Record]) -> Suite:
    """Every case that has a record, in the profiles in which it has one."""
    return suite_of(grouped((record.case.id, record.profile) for record in records).items())


def grouped(pairs: Iterable[tuple[str, Profile]]) -> dict[str, set[Profile]]:
    found: dict[str, set[Profile]] = defaultdict(set)
    for case, profile in pairs:
        found[case].add(profile)
    return found
