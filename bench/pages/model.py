"""What the pages are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.pages.chart import Chart
from bench.record import Profile, Record
from bench.stats import Entrant, Place

PROFILES: Mapping[Profile, str] = {
    "mini": "offline, CPU only, data generated or shipped",
    "full": "the real data, models and GPU",
}


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
    ranked: Sequence[Place]
    unranked: Sequence[Place]
    """Competitors that have not met every case."""
    references: Sequence[Place]
    charts: Sequence[Chart]
    """The same chart for a wide and for a narrow screen; none when no cost is known."""

    @property
    def places(self) -> list[Place]:
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
