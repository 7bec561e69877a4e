"""Which cases to prove: all, a shard of them, or those whose proof is not known, with a drawn part of the rest."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.authoring.locks import ProofLock, Standing
from bench.base.errors import UserError
from bench.formats.case import Case

SAMPLE_S = 60.0
"""CPU seconds of the proofs that are made again when judge, kit, interpreter or a library has changed: of so many cases
as it takes to reach them, so that a draw of dear cases takes no longer than one of cheap ones."""
SHARE = 0.1
"""Of the CPU seconds of the cases whose lock speaks for everything."""
_UNKNOWN_S = 60.0
"""CPU seconds of a case without a lock."""


@dataclass(frozen=True)
class Choice:
    """What is proven, and what is not, each with the reason."""

    proven: Sequence[tuple[Case, str]]
    skipped: Sequence[tuple[Case, str]]


def choose_changed(
    cases: Sequence[Case], standings: Mapping[str, Standing], locks: Mapping[str, ProofLock | None], seed: str
) -> Choice:
    """Every case that is not proven as it is; of those proven elsewhere `SAMPLE_S`; of the rest a `SHARE`, drawn."""
    took = {kind: _seconds(cases, standings, locks, kind) for kind in ("elsewhere", "proven")}
    drawn = _drawn(took["elsewhere"], SAMPLE_S, f"elsewhere {seed}")
    drawn |= _drawn(took["proven"], SHARE * sum(took["proven"].values()), f"proven {seed}")
    proven, skipped = [], []
    for case in cases:
        found = standings[case.id]
        if found.kind == "open":
            proven.append((case, found.why))
        elif case.id in drawn:
            proven.append((case, f"{found.why}; drawn"))
        else:
            skipped.append((case, f"{found.why}; not drawn"))
    return Choice(proven, skipped)


def _seconds(
    cases: Sequence[Case], standings: Mapping[str, Standing], locks: Mapping[str, ProofLock | None], kind: str
) -> dict[str, float]:
    group = sorted(case.id for case in cases if standings[case.id].kind == kind)
    return {name: _cpu_s(locks.get(name)) for name in group}


def _drawn(took: Mapping[str, float], least_s: float, seed: str) -> set[str]:
    # A draw of each group's own: what one draws does not depend on the size of the other.
    drawn: set[str] = set()
    for name in random.Random(seed).sample(list(took), len(took)):
        if sum(took[it] for it in drawn) >= least_s:
            break
        drawn.add(name)
    return drawn


def _cpu_s(lock: ProofLock | None) -> float:
    return lock.cpu_s if lock else _UNKNOWN_S


def longest_first(cases: Sequence[Case], locks: Mapping[str, ProofLock | None]) -> list[Case]:
    """The cases in the order in which to begin them, so that none of the long ones is left alone at the end."""

    def took(case: Case) -> float:
        lock = locks.get(case.id)
        return max(lock.cpu_s, lock.wall_s) if lock else _UNKNOWN_S

    return sorted(cases, key=lambda case: (-took(case), case.id))


def shard_of(cases: Sequence[Case], locks: Mapping[str, ProofLock | None], text: str) -> Choice:
    """The cases of shard `text`, such as `2/5`: balanced by the CPU seconds of the locks, each case in one shard."""
    number, count = _shard_numbers(text)
    took = {case.id: _cpu_s(locks.get(case.id)) for case in cases}
    loads = [0.0] * count
    own: set[str] = set()
    # The longest first, each into the shard that has the least so far.
    for name in sorted(took, key=lambda name: (-took[name], name)):
        least = loads.index(min(loads))
        loads[least] += took[name]
        if least == number - 1:
            own.add(name)
    why = f"shard {text}, {loads[number - 1]:.0f} of {sum(loads):.0f} CPU seconds"
    return Choice(
        [(case, why) for case in cases if case.id in own],
        [(case, "in another shard") for case in cases if case.id not in own],
    )


def _shard_numbers(text: str) -> tuple[int, int]:
    number, slash, count = text.partition("/")
    if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= 1000:
        return int(number), int(count)
    raise UserError(f"{text!r} is not a shard", where="--shard", remedy="say which of how many, such as 2/5")
