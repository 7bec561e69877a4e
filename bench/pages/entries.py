"""The cells that have a page: the newest of each case, and the last of each agent at each case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from bench.formats.record import Profile, Record
from bench.pages.addresses import cell_page
from bench.stats import Entrant, Trial, entrant_of

MOST_CELLS = 300
"""Of a case, on its page."""


MOST_TRIALS = 12
"""Of an agent at a case, on the agent's page."""


@dataclass(frozen=True)
class Entry:
    """A record with the address of its page."""

    record: Record
    address: str
    uncounted: str
    """Why it is not counted, empty when it is."""
    line: str
    """The record as it is stored."""
    linked: bool = True
    """Has its agent a page?"""

    def __repr__(self) -> str:
        """Its address is made from its content."""
        return f"Entry({self.address}, {self.uncounted}, {self.linked})"

    @property
    def key(self) -> tuple[Entrant, str]:
        """Who ran, and at which case."""
        return entrant_of(self.record), self.record.case.id


@dataclass(frozen=True)
class Listed:
    """How many cells have a page: the newest of each case, and the last of each agent at each case."""

    of_case: int
    of_entrant: int


def listed_of(pairs: int, cases: int, most: int) -> Listed:
    """`pairs`: agents that met a case. At least one trial of each pair is shown."""
    return Listed(
        of_case=max(1, min(MOST_CELLS, most // max(1, cases))),
        of_entrant=max(1, min(MOST_TRIALS, most // max(1, pairs))),
    )


def counted_trials(entries: Iterable[Entry], listed: Listed) -> dict[tuple[Entrant, str], list[Entry]]:
    """By entrant and case those that count in the standings, the last ones in order of time."""
    found: dict[tuple[Entrant, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if not entry.uncounted:
            found[entry.key].append(entry)
    return {key: sorted(group, key=_time)[-listed.of_entrant :] for key, group in found.items()}


def newest_cells(entries: Iterable[Entry], listed: Listed) -> dict[str, list[Entry]]:
    """Of each case the newest of `entries`, which have the newest first."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if len(of_case := found[entry.record.case.id]) < listed.of_case:
            of_case.append(entry)
    return found


def entries_of(
    trials: Iterable[Trial], suite: Mapping[str, Collection[Profile]], entrants: frozenset[Entrant], listed: Listed
) -> list[Entry]:
    """The trials that a page lists. Two identical records are one entry: the one that counts, where one does."""
    # Sorted: of two trials with one address, the counted one comes later and stays.
    by_address = {}
    for trial in sorted(trials, key=lambda trial: trial.kept):
        line = trial.record.to_line()
        by_address[cell_page(trial.record, line)] = trial, line
    entries = [
        Entry(trial.record, address, _why_not(trial, suite), line, entrant_of(trial.record) in entrants)
        for address, (trial, line) in sorted(by_address.items())
    ]
    entries.sort(key=lambda entry: entry.record.started, reverse=True)
    groups = (*newest_cells(entries, listed).values(), *counted_trials(entries, listed).values())
    shown = {entry.address for group in groups for entry in group}
    return [entry for entry in entries if entry.address in shown]


def _why_not(trial: Trial, suite: Mapping[str, Collection[Profile]]) -> str:
    if trial.record.profile not in suite.get(trial.record.case.id, ()):
        return "the case is not in the suite"
    if not trial.kept:
        return "another attempt at this cell counts"
    return "" if trial.current else "another version of the case"


def _time(entry: Entry) -> tuple[str, str, str]:
    return entry.record.started, entry.record.provenance.run, entry.record.cell
