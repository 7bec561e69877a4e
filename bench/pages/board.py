"""The board: everything that the pages of a site are made from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.formats.record import Profile, Record
from bench.pages.chart import Chart, Point, scatter
from bench.pages.render import cell_page
from bench.stats import CaseSeen, Entrant, RankedStanding, Results, Standing, Suite, Trial, entrant_of, rank

MOST_CELLS = 300
"""Of a case, on its page."""
MOST_TRIALS = 12
"""Of an agent at a case, on the agent's page."""
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
    milestones: Sequence[str] = ()
    """Names of checks, in the order in which the task is done."""


@dataclass(frozen=True)
class Entry:
    """A record with the address of its page."""

    record: Record
    address: str
    uncounted: str
    """Why it is not counted, empty when it is."""

    @property
    def key(self) -> tuple[Entrant, str]:
        """Who ran, and at which case."""
        return entrant_of(self.record), self.record.case.id


@dataclass(frozen=True)
class Section:
    """The board of one profile."""

    profile: Profile
    about: str
    ranked: Sequence[RankedStanding]
    unranked: Sequence[RankedStanding]
    """Competitors without a verdict on every case."""
    references: Sequence[RankedStanding]
    charts: Sequence[Chart]
    """The same chart for a wide and for a narrow screen; none when no cost is known."""

    @property
    def everyone(self) -> list[RankedStanding]:
        return [*self.ranked, *self.unranked, *self.references]


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
    entrants: frozenset[Entrant]
    """Those on the board: they have a page."""
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
    listed = list(cases)
    return {profile: [case.id for case in listed if profile in case.profiles] for profile in PROFILES}


def make_board(results: Results, cases: Sequence[CaseInfo], title: str, built_from: BuiltFrom | None = None) -> Board:
    """`results`: measured against `suite_of(cases)`."""
    suite = {case.id: case for case in sorted(cases, key=lambda case: (case.category, case.id))}
    seen = results.cases()
    sections = _sections(results.standings())
    entries = _entries(results.trials(MOST_CELLS, MOST_TRIALS), suite)
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
        entrants=frozenset(row.standing.entrant for section in sections for row in section.everyone),
        updated=max((entry.record.finished for entry in entries), default=""),
        built_from=built_from,
    )


def counted_trials(entries: Iterable[Entry]) -> dict[tuple[Entrant, str], list[Entry]]:
    """By entrant and case those that count in the standings, the last `MOST_TRIALS` in order of time."""
    found: dict[tuple[Entrant, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if not entry.uncounted:
            found[entry.key].append(entry)
    return {key: sorted(group, key=_time)[-MOST_TRIALS:] for key, group in found.items()}


def newest_cells(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Of each case the newest `MOST_CELLS` of `entries`, which have the newest first."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if len(of_case := found[entry.record.case.id]) < MOST_CELLS:
            of_case.append(entry)
    return found


def _entries(trials: Iterable[Trial], suite: Mapping[str, CaseInfo]) -> list[Entry]:
    """The trials that a page lists. Two identical records are one entry: the one that counts, where one does."""
    # Sorted: of two trials with one address, the counted one comes later and stays.
    by_address = {cell_page(trial.record): trial for trial in sorted(trials, key=lambda trial: trial.kept)}
    entries = [Entry(trial.record, address, _why_not(trial, suite)) for address, trial in sorted(by_address.items())]
    entries.sort(key=lambda entry: entry.record.started, reverse=True)
    groups = (*newest_cells(entries).values(), *counted_trials(entries).values())
    listed = {entry.address for group in groups for entry in group}
    return [entry for entry in entries if entry.address in listed]


def _why_not(trial: Trial, suite: Mapping[str, CaseInfo]) -> str:
    case = suite.get(trial.record.case.id)
    if case is None or trial.record.profile not in case.profiles:
        return "the case is not in the suite"
    if not trial.kept:
        return "another attempt at this cell counts"
    return "" if trial.current else "an older version of the case"


def _time(entry: Entry) -> tuple[str, str, str]:
    return entry.record.started, entry.record.provenance.run, entry.record.cell


def _sections(table: Sequence[Standing]) -> list[Section]:
    return [
        _section(profile, rank(row for row in table if row.entrant.profile == profile))
        for profile in PROFILES
        if any(row.entrant.profile == profile for row in table)
    ]


def _section(profile: Profile, rows: Sequence[RankedStanding]) -> Section:
    competitors = [row for row in rows if row.standing.ranked]
    return Section(
        profile=profile,
        about=PROFILES[profile],
        ranked=[row for row in competitors if row.rank is not None],
        unranked=[row for row in competitors if row.rank is None],
        references=[row for row in rows if not row.standing.ranked],
        charts=_charts(profile, competitors),
    )


def _charts(profile: Profile, competitors: Sequence[RankedStanding]) -> list[Chart]:
    agents = Counter(row.standing.entrant.agent for row in competitors)
    points = []
    for row in competitors:
        entrant, cost, score = row.standing.entrant, row.standing.cost, row.standing.score
        usd = cost.replayed_usd if cost.mean_usd is None else cost.mean_usd
        if usd is None or score is None:
            continue
        short = entrant.model.rpartition("/")[2]
        label = f"{entrant.agent} · {short}" if agents[entrant.agent] > 1 and short else entrant.agent
        points.append(Point(label, usd, score.mean, replayed=cost.mean_usd is None))
    drawn = [scatter(points, f"{profile}-{name}", *size) for name, size in (("wide", _WIDE), ("narrow", _NARROW))]
    return [chart for chart in drawn if chart]
