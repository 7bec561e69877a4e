"""The board: everything that the pages of a site are made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bench.formats.case_metric import Headline
from bench.formats.record import Profile
from bench.pages.costs import cost_per_success
from bench.pages.entries import Entry, Listed, entries_of, listed_of
from bench.stats import (
    CaseSeen,
    Entrant,
    Findings,
    RankedStanding,
    Results,
    Standing,
    Suite,
    rank,
)
from bench.stats import suite_of as counted_suite

MOST_PAGES = 5_000  # of cells: on a large board each case and each agent lists fewer
PROFILES: Mapping[Profile, str] = {
    "mini": "offline, CPU only, data generated or shipped",
    "full": "the real data, models and GPU",
}
STALE = timedelta(days=14)
"""Without a run for so long before the newest of the board, a row says so."""


@dataclass(frozen=True)
class CaseInfo:
    """A case as the site describes it; its checks are taken from the records."""

    id: str
    category: str
    title: str
    tags: Sequence[str] = ()
    source_benchmark: str = ""
    source_id: str = ""
    task: str = ""
    """Markdown, shown as it is."""
    readme: str = ""
    profiles: Sequence[Profile] = ("mini",)
    suites: Sequence[str] = ()
    """Ids of the suites that it is in."""
    milestones: Sequence[str] = ()
    """Names of checks, in the order in which the task is done."""
    headlines: Mapping[Profile, Headline] = field(default_factory=dict)
    """What its continuous metric is held against, in each profile that has one."""


@dataclass(frozen=True)
class Row:
    """An agent on the board of one profile."""

    place: RankedStanding
    per_success: float | None
    """Dollars."""
    limited: int
    """Graded cells that a limit ended: of these the score also measures the limit."""
    claims: int
    overclaims: int
    flagged: int
    """Cells."""
    tampered: int
    last: str
    """Start of its newest cell."""
    stale: bool

    @property
    def standing(self) -> Standing:
        return self.place.standing


@dataclass(frozen=True)
class Section:
    """The board of one profile."""

    profile: Profile
    about: str
    ranked: Sequence[Row]
    unranked: Sequence[Row]
    """Competitors without a verdict on every case."""
    references: Sequence[Row]

    @property
    def competitors(self) -> list[Row]:
        return [*self.ranked, *self.unranked]

    @property
    def everyone(self) -> list[Row]:
        return [*self.competitors, *self.references]

    @property
    def charted(self) -> list[Row]:
        """Those whose costs are drawn: the competitors, and references where none competes."""
        return self.competitors or list(self.references)


@dataclass(frozen=True)
class BuiltFrom:
    """What a site was made from: a commit of a results branch."""

    branch: str
    commit: str


@dataclass(frozen=True)
class Board:
    """Everything the pages show."""

    title: str
    cases: Mapping[str, CaseInfo]
    """The suite, by id."""
    retired: Mapping[str, CaseInfo]
    """Cases that only records know; they have a page and do not count."""
    seen: Mapping[str, CaseSeen]
    """Every case that has a result, by id."""
    entries: Sequence[Entry]
    """The results that have a page, the newest first: those that the page of a case or of an agent lists."""
    sections: Sequence[Section]
    entrants: frozenset[Entrant] = field(repr=False)
    """Those on the board: they have a page."""
    listed: Listed
    updated: str
    """The end of the last of `entries`, empty without records."""
    built_from: BuiltFrom | None = None
    """None: from records that are on no branch."""

    @property
    def results(self) -> int:
        """Different results, with or without a page."""
        return sum(case.results for case in self.seen.values())

    @property
    def pages(self) -> dict[str, CaseInfo]:
        return {**self.cases, **self.retired}


def suite_of(cases: Iterable[CaseInfo]) -> Suite:
    """What counts on the board of these cases."""
    return counted_suite((case.id, case.profiles) for case in cases)


def make_board(
    results: Results,
    cases: Sequence[CaseInfo],
    title: str,
    built_from: BuiltFrom | None = None,
    most_pages: int = MOST_PAGES,
) -> Board:
    """`results`: measured against `suite_of(cases)`. most_pages: of cells, about."""
    suite = {case.id: case for case in sorted(cases, key=lambda case: (case.category, case.id))}
    seen = results.cases()
    findings = results.findings()
    standings = results.standings()
    sections = _sections(standings, findings)
    listed = listed_of(sum(len(it.cases) for it in standings), len(seen), most_pages)
    entrants = frozenset(row.standing.entrant for section in sections for row in section.everyone)
    profiles = {case: info.profiles for case, info in suite.items()}
    entries = entries_of(results.trials(listed.of_case, listed.of_entrant), profiles, entrants, listed)
    return Board(
        title=title,
        cases=suite,
        retired={
            case: CaseInfo(case, it.category, it.title, profiles=())
            for case, it in sorted(seen.items())
            if case not in suite
        },
        seen=seen,
        entries=entries,
        sections=sections,
        entrants=entrants,
        updated=max((entry.record.finished for entry in entries), default=""),
        listed=listed,
        built_from=built_from,
    )


def _sections(table: Sequence[Standing], findings: Mapping[tuple[Entrant, str], Findings]) -> list[Section]:
    of_entrant: dict[Entrant, list[Findings]] = defaultdict(list)
    for (entrant, _), found in findings.items():
        of_entrant[entrant].append(found)
    newest = max((it.last for it in findings.values()), default="")
    return [
        _section(profile, [_row(it, of_entrant[it.standing.entrant], newest) for it in ranked])
        for profile in PROFILES
        if (ranked := rank(row for row in table if row.entrant.profile == profile))
    ]


def _section(profile: Profile, rows: Sequence[Row]) -> Section:
    competitors = [row for row in rows if row.standing.ranked]
    return Section(
        profile=profile,
        about=PROFILES[profile],
        ranked=[row for row in competitors if row.place.rank is not None],
        unranked=[row for row in competitors if row.place.rank is None],
        references=[row for row in rows if not row.standing.ranked],
    )


def _row(place: RankedStanding, findings: Sequence[Findings], newest: str) -> Row:
    cost = place.standing.cost
    usd = cost.replayed_usd if cost.mean_usd is None else cost.mean_usd
    last = max((it.last for it in findings), default="")
    return Row(
        place=place,
        per_success=cost_per_success(usd, place.standing.success),
        limited=sum(n for it in findings for reason, n in it.stops.items() if reason.endswith("_limit")),
        claims=sum(it.claims for it in findings),
        overclaims=sum(it.overclaims for it in findings),
        flagged=sum(it.flagged for it in findings),
        tampered=sum(it.flags.get("tampered", 0) for it in findings),
        last=last,
        stale=bool(last) and datetime.fromisoformat(newest) - datetime.fromisoformat(last) > STALE,
    )
