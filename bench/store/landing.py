"""Getting a change onto a branch that others write to at the same time: redone on every new tip, never forced."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.errors import UserError
from bench.store.place import Place, Tip, TryAgain
from bench.store.tree import check_path, find

Prepare = Callable[[Place, "Tip | None"], "Change | None"]
"""Builds a change on a tip; None: the tip holds it already."""


@dataclass(frozen=True)
class Change:
    """Files to add in one commit."""

    files: Mapping[str, bytes]
    message: str
    grown: frozenset[str] = field(default_factory=frozenset)
    """Of the files, those that exist and whose new content begins with the old one."""


@dataclass(frozen=True)
class Landed:
    """Where a change is now."""

    commit: str
    new: bool
    """False: the branch had it already."""


@dataclass(frozen=True)
class Patience:
    """How long to go on: design 4.7 and issue 5 say 12 tries in 5 minutes."""

    tries: int = 12
    seconds: float = 300.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 40.0


class GivenUp(UserError):
    """Nothing was changed, and the same command again may succeed."""


def land(place: Place, prepare: Prepare, patience: Patience, deadline: float, what: str) -> Landed:
    """Build what `prepare` asks for on the tip and move the branch there; `prepare` answers None where it is held.

    Raises `GivenUp` when the patience is at its end, `UserError` where trying again cannot help.
    """
    lasted, reason, failures = patience.first_wait_s, "", 0
    while failures < patience.tries and (not failures or time.monotonic() < deadline):
        _wait(failures, lasted, patience, deadline)
        began = time.monotonic()
        try:
            tip = place.tip()
            change = prepare(place, tip)
            if change is None:
                assert tip is not None, "what is held is held by a commit"
                return Landed(tip.commit, new=False)
            commit = place.build(tip, _missing(place, tip, change), change.message)
            place.advance(tip, commit)
            return Landed(commit, new=True)
        except TryAgain as fault:
            reason, failures = str(fault), failures + 1
            lasted = time.monotonic() - began
    raise GivenUp(
        f"was not stored in {failures} tries: {reason[:500]}", where=what, remedy="nothing was changed; store it again"
    )


def _missing(place: Place, tip: Tip | None, change: Change) -> dict[str, bytes]:
    """The files that the tip lacks; raises `UserError` where a path is taken by other content."""
    for path in change.files:
        check_path(path)
    held = find(place, tip.tree, change.files) if tip else {}
    missing = {}
    for path, content in change.files.items():
        if path in held and path not in change.grown:
            if held[path].kind == "blob" and held[path].sha == place.blob_id(content):
                continue
            raise UserError(
                "is on the results branch already, with other content",
                where=path,
                remedy="stored results are never rewritten; publish under another run or attempt",
            )
        missing[path] = content
    return missing


def _wait(failures: int, lasted: float, patience: Patience, deadline: float) -> None:
    """Full jitter up to a bound that doubles, so that those who met once do not meet again.

    (M. Brooker, "Exponential Backoff And Jitter", 2015.) The bound starts from what one try takes: writers must spread
    over as many tries' time as there are writers.
    """
    if failures:
        bound = min(patience.longest_wait_s, max(patience.first_wait_s, lasted) * 2 ** (failures - 1))
        time.sleep(min(random.SystemRandom().uniform(0, bound), max(0.0, deadline - time.monotonic())))
