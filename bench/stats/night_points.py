"""Points of nightly series as columns: years of nights are half a million of them, too many to be objects each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bench.stats.entrants import Entrant
from bench.stats.intervals import Floats
from bench.stats.night_sums import Ints

Chosen: TypeAlias = npt.NDArray[np.bool_] | Ints
"""Rows by place, or those that are true."""


@dataclass(frozen=True, slots=True)
class CaseNight:
    """What one agent with its models did on one case in one run."""

    entrant: Entrant
    suite: str
    version: str
    """Of the suite."""
    run: str
    first: str
    """Start of its first trial."""
    last: str
    case: str
    case_version: str
    """See `Record.case_version`."""
    mean: float
    """Over graded trials."""
    trials: int
    category: str = ""
    """Of the case; empty where it is not known."""


@dataclass(frozen=True)
class Words:
    """A column of text: each text once, in order, and the place of that of each row."""

    texts: Sequence[str]
    at: Ints

    @classmethod
    def of(cls, column: Sequence[str]) -> Words:
        texts = sorted(set(column))
        places = {text: place for place, text in enumerate(texts)}
        return cls(texts, np.array([places[text] for text in column], dtype=np.int64))

    def __getitem__(self, row: int) -> str:
        return self.texts[int(self.at[row])]

    def rows(self, chosen: Chosen) -> Words:
        return Words(self.texts, self.at[chosen])


@dataclass(frozen=True)
class NightPoints:
    """`CaseNight` by `CaseNight`, a row each."""

    entrants: Sequence[Entrant]
    """In order."""
    entrant: Ints
    """The place of each row's."""
    suite: Words
    version: Words
    run: Words
    first: Ints
    """Numbers in the order of time, which `instant` turns into text."""
    last: Ints
    case: Words
    case_version: Words
    mean: Floats
    trials: Ints
    category: Words
    instant: Callable[[int], str]

    @classmethod
    def of(cls, points: Sequence[CaseNight]) -> NightPoints:
        entrants = sorted({it.entrant for it in points})
        places = {entrant: place for place, entrant in enumerate(entrants)}
        times = Words.of([text for it in points for text in (it.first, it.last)])
        names = ("suite", "version", "run", "case", "case_version", "category")
        return cls(
            entrants=entrants,
            entrant=np.array([places[it.entrant] for it in points], dtype=np.int64),
            first=times.at[::2],
            last=times.at[1::2],
            mean=np.array([it.mean for it in points], dtype=np.float64),
            trials=np.array([it.trials for it in points], dtype=np.int64),
            instant=times.texts.__getitem__,
            **{name: Words.of([getattr(it, name) for it in points]) for name in names},
        )

    def __len__(self) -> int:
        return len(self.mean)

    def rows(self, chosen: Chosen) -> NightPoints:
        """Some of them."""
        return replace(
            self,
            entrant=self.entrant[chosen],
            suite=self.suite.rows(chosen),
            version=self.version.rows(chosen),
            run=self.run.rows(chosen),
            first=self.first[chosen],
            last=self.last[chosen],
            case=self.case.rows(chosen),
            case_version=self.case_version.rows(chosen),
            mean=self.mean[chosen],
            trials=self.trials[chosen],
            category=self.category.rows(chosen),
        )

    def of_cases(self, cases: Collection[str]) -> NightPoints:
        known = np.array([case in cases for case in self.case.texts], dtype=np.bool_)
        return self.rows(known[self.case.at])

    def by_series(self) -> list[NightPoints]:
        """Those of each entrant on each suite, in their order."""
        order = np.lexsort((self.suite.at, self.entrant))  # stable: rows of a series stay in their order
        keys = np.stack((self.entrant[order], self.suite.at[order]), axis=1)
        starts = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
        return [self.rows(them) for them in np.split(order, starts)] if len(self) else []
