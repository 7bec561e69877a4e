"""What the pages are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.formats.record import Profile, Record
from bench.pages.address import cell_page
from bench.pages.chart import Chart, Point, scatter
from bench.stats import Entrant, RankedStanding, newest_digests, rank, standings, unique_cells

PROFILES: Mapping[Profile, str] = {
    "mini": "offline, CPU only, data generated or shipped",
    "full": "the real data, models and GPU",
}
_WIDE, _NARROW = (920, 400), (350, 330)


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


@dataclass(frozen=True)
class Entry:
    """A record with the address of its page."""

    record: Record
    address: str
    uncounted: str
    """Why it is not counted, empty when it is."""


@dataclass(frozen=True)
class Section:
    """The board of one profile."""

    profile: Profile
    about: str
    ranked: Sequence[RankedStanding]
    unranked: Sequence[RankedStanding]
    """Competitors that have not met every case."""
    references: Sequence[RankedStanding]
    charts: Sequence[Chart]
    """The same chart for a wide and for a narrow screen; none when no cost is known."""

    @property
    def places(self) -> list[RankedStanding]:
        return [*self.ranked, *self.unranked, *self.references]


@dataclass(frozen=True)
class Board:
    """Everything the pages show."""

    title: str
    cases: Mapping[str, CaseInfo]
    """The suite, by id."""
    retired: Mapping[str, CaseInfo]
    """Cases that only records know; they have a page and do not count."""
    entries: Sequence[Entry]
    """Every different record, the newest first."""
    sections: Sequence[Section]
    entrants: frozenset[Entrant]
    """Those on the board: they have a page."""
    updated: str
    """The end of the last cell, empty without records."""

    @property
    def pages(self) -> dict[str, CaseInfo]:
        return {**self.cases, **self.retired}


def make_board(records: Iterable[Record], cases: Sequence[CaseInfo], title: str) -> Board:
    by_address = {cell_page(record): record for record in records}
    distinct = [record for _, record in sorted(by_address.items())]
    suite = {case.id: case for case in sorted(cases, key=lambda case: (case.category, case.id))}
    retired = _retired(distinct, suite)
    sections = _sections(distinct, suite)
    return Board(
        title=title,
        cases=suite,
        retired=retired,
        entries=_entries(by_address, suite),
        sections=sections,
        entrants=frozenset(place.standing.entrant for section in sections for place in section.places),
        updated=max((record.finished for record in distinct), default=""),
    )


def _entries(by_address: Mapping[str, Record], suite: Mapping[str, CaseInfo]) -> list[Entry]:
    unique = unique_cells(record for _, record in sorted(by_address.items()))
    kept = {id(record) for record in unique}
    newest = newest_digests(unique)

    def why_not(record: Record) -> str:
        if record.case.id not in suite or record.profile not in suite[record.case.id].profiles:
            return "the case is not in the suite"
        if id(record) not in kept:
            return "another attempt at this cell counts"
        if record.case.digest != newest[record.profile, record.case.id]:
            return "an older version of the case"
        return ""

    entries = [Entry(record, address, why_not(record)) for address, record in sorted(by_address.items())]
    return sorted(entries, key=lambda entry: entry.record.started, reverse=True)


def _retired(records: Iterable[Record], suite: Mapping[str, CaseInfo]) -> dict[str, CaseInfo]:
    newest = {record.case.id: record for record in sorted(records, key=lambda record: (record.started, record.cell))}
    return {
        case: CaseInfo(case, record.case.category, record.case.title, profiles=())
        for case, record in sorted(newest.items())
        if case not in suite
    }


def _sections(records: Sequence[Record], suite: Mapping[str, CaseInfo]) -> list[Section]:
    members: dict[Profile, list[str]] = {
        profile: [case.id for case in suite.values() if profile in case.profiles] for profile in PROFILES
    }
    table = standings(records, members)
    return [
        _section(profile, rank(row for row in table if row.entrant.profile == profile))
        for profile in PROFILES
        if any(row.entrant.profile == profile for row in table)
    ]


def _section(profile: Profile, places: Sequence[RankedStanding]) -> Section:
    competitors = [place for place in places if place.standing.ranked]
    return Section(
        profile=profile,
        about=PROFILES[profile],
        ranked=[place for place in competitors if place.rank is not None],
        unranked=[place for place in competitors if place.rank is None],
        references=[place for place in places if not place.standing.ranked],
        charts=_charts(profile, competitors),
    )


def _charts(profile: Profile, competitors: Sequence[RankedStanding]) -> list[Chart]:
    agents = Counter(place.standing.entrant.agent for place in competitors)
    points = []
    for place in competitors:
        entrant, cost, score = place.standing.entrant, place.standing.cost, place.standing.score
        usd = cost.replayed_usd if cost.mean_usd is None else cost.mean_usd
        if usd is None or score is None:
            continue
        short = entrant.model.rpartition("/")[2]
        label = f"{entrant.agent} · {short}" if agents[entrant.agent] > 1 and short else entrant.agent
        points.append(Point(label, usd, score.mean, replayed=cost.mean_usd is None))
    drawn = [scatter(points, f"{profile}-{name}", *size) for name, size in (("wide", _WIDE), ("narrow", _NARROW))]
    return [chart for chart in drawn if chart]
