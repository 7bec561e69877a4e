"""Snapshots of a workspace while its agent works: when they are taken, what is kept, and what was judged of them later.

`snapshots.json` lies beside the record, which names it with its digest; `snapshots/objects` holds the files by content.
Scores are derived data in a folder of the run's own and never part of a record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.base.errors import UserError
from bench.base.model import Model
from bench.formats.amounts import Dollars, Fraction, Seconds, Whole
from bench.formats.names import Digest, Instant, Name

INDEX = "snapshots.json"
"""Beside the record: what was taken, when, and what was left out."""
STORE = "snapshots"
"""Beside the record: the folder of the files' contents."""
JOURNAL = ".journal"
"""How the name of a service's journal ends in the store."""
SIGNAL = "milestone.json"
"""In `BENCH_OUT_DIR`: each write or touch of this file says that a milestone is reached."""
MOST_SNAPSHOTS = 50
"""Of one cell. Of more, those that lie closest together go, so that the rest is spread over the agent's time."""
SCORES = "step-scores"
"""In the run folder: what was judged of snapshots, one file a cell."""

_EVERY = re.compile(r"every=([1-9][0-9]{0,5})")
Kind = Literal["milestone", "step", "end"]


@dataclass(frozen=True)
class SnapshotRule:
    """When a workspace is copied while its agent works."""

    every: int = 0
    """Steps from one copy to the next; 0: none by steps."""
    milestones: bool = False

    @classmethod
    def parse(cls, text: str) -> SnapshotRule:
        """`every=5`, `milestones`, or both with a comma; empty: never. Raises `UserError`."""
        rule = cls()
        for word in filter(None, text.replace(" ", "").split(",")):
            if word == "milestones":
                rule = cls(rule.every, milestones=True)
            elif found := _EVERY.fullmatch(word):
                rule = cls(int(found[1]), rule.milestones)
            else:
                raise UserError(
                    f"{word[:40]!r} is not a rule", where="--snapshots", remedy="write every=5, milestones, or both"
                )
        return rule

    def __bool__(self) -> bool:
        return bool(self.every or self.milestones)

    def __str__(self) -> str:
        return ",".join([*([f"every={self.every}"] if self.every else []), *(["milestones"] * self.milestones)])


class StepSnapshot(Model):
    """The workspace at one moment of the agent's work."""

    kind: Kind
    name: str = Field("", max_length=100)
    """What the agent calls its milestone."""
    step: Whole
    """Successful model calls by then."""
    seconds: Seconds
    """Since the agent was started."""
    usd: Dollars | None
    """Spent on models by then; None: a price is not known."""
    tree: Digest
    """Of the list of its files, which has their digests."""
    files: Whole
    size: Whole
    """Bytes of all its files."""
    dropped: Whole = 0
    """Links, devices, files that could not be read, and names that are not text: left out."""
    unsteady: Whole = 0
    """Files that changed while they were copied: the agent is not stopped for it."""
    journals: dict[Name, Whole] = {}
    """Bytes that each service had written down by then."""


class StepSnapshots(Model):
    """The content of snapshots.json."""

    schema_: Literal[1] = Field(1, alias="schema")
    rule: str
    snapshots: list[StepSnapshot] = Field([], max_length=MOST_SNAPSHOTS)
    thinned: Whole = 0
    """Taken, and removed again for the sake of an even spread."""
    left_out: dict[str, Whole] = {}
    """Not taken: how often, by the bound that was met."""
    journals: dict[Name, Digest] = {}
    """What each service had written down at the end: a file of its name in the store. A snapshot had its beginning."""


def _below(path: str) -> str:
    if {"", ".", ".."} & set(path.split("/")) or "\0" in path:
        raise ValueError("is not a path below the workspace")
    return path


Below = Annotated[str, AfterValidator(_below)]


class Tree(Model):
    """The list of a snapshot's files: itself an object of the store."""

    files: dict[Below, tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], Whole, bool]]
    """Content's SHA-256, bytes, and whether it may be executed."""
    folders: list[Below] = []


class StepScore(Model):
    """The verdict on one snapshot, or on what the agent left at the end."""

    kind: Kind
    name: str = ""
    step: Whole
    seconds: Seconds
    usd: Dollars | None
    tree: Digest | Literal[""] = ""
    """Empty for the end, whose verdict is the record's."""
    score: Fraction | None = None
    """None: the judge gave no verdict, and `error` says why; it is tried again with the next call."""
    success: bool | None = None
    metric: float | None = None
    """The case's headline metric; None where the case has none or the judge did not measure it."""
    error: str = ""


class CellStepScores(Model):
    """The content of one file of `step-scores`."""

    schema_: Literal[1] = Field(1, alias="schema")
    cell: str
    agent: str
    judge: str
    """Version of the judge: verdicts of another one are not taken over."""
    index: Digest
    """Of the snapshots.json that was judged."""
    metric: str = ""
    """Name of the headline metric."""
    judged: Instant
    scores: list[StepScore]
    """In the order of time; the last one is the end."""

    @property
    def end(self) -> StepScore:
        return self.scores[-1]

    @property
    def succeeded_once(self) -> bool:
        """At some step or at the end."""
        return any(it.success for it in self.scores)

    @property
    def lost_it(self) -> bool:
        """Success at some step, and none at the end."""
        return self.succeeded_once and not self.end.success

    @property
    def unjudged(self) -> int:
        """Snapshots without a verdict."""
        return sum(it.success is None for it in self.scores)
