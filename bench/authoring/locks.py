"""The lock of a case's proof: one committed file a case, which says what was proven, with what, and what it took.

Locks lie beside the cases in `proofs/`, outside of every case's folder and digest. Only a proof that ran writes one:
see `bench.authoring.proving`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from bench import __version__
from bench.authoring.judge_sources import sources_digest
from bench.base.errors import UserError
from bench.base.files import write_atomic
from bench.base.model import Model, read_json
from bench.formats.case import Case
from bench.formats.judge_version import JUDGE
from bench.formats.names import Digest, Instant, Name
from bench.formats.record import Profile

FOLDER = "proofs"
"""Beside the categories. It holds no folders, so nothing in it is taken for a case."""


class ProofLock(Model):
    """The content of `proofs/<case>.json`: a proof of a case that ran, and with what."""

    schema_: Literal[1] = Field(1, alias="schema")
    case: Name
    proof: Digest
    """Of everything in the case's folder except README.md and the corrections of case.yaml."""
    judge: str
    """Declared version of judge and kit."""
    sources: Digest
    """Of the sources of judge and kit."""
    python: str
    """Major and minor version of the interpreter."""
    libraries: dict[str, str]
    """Versions of what the case needs, by module, without what a build adds to them (`+cpu`)."""
    sandbox: str
    isolated: bool
    profiles: list[Profile]
    """That were proven."""
    proofs: int = Field(ge=1)
    cpu_s: float = Field(ge=0)
    """CPU time of all proofs, in seconds of the reference machine."""
    wall_s: float = Field(0.0, ge=0)
    """How long they took, in seconds; 0: written before this was noted."""
    date: Instant
    bench_version: str

    def kept_to(self, proof: str, budget_s: float) -> bool:
        """Whether it is of the files with this proof digest, and their proof took no more CPU time than this."""
        return self.proof == proof and self.cpu_s <= budget_s


@dataclass(frozen=True)
class Surroundings:
    """What a proof depends on besides its case."""

    sources: str
    python: str

    @classmethod
    def here(cls) -> Surroundings:
        return cls(sources_digest(), f"{sys.version_info.major}.{sys.version_info.minor}")


@dataclass(frozen=True)
class Standing:
    """What a lock says of a case as it is now."""

    kind: Literal["open", "elsewhere", "proven"]
    """Not proven as it is; proven with another judge, interpreter or library; proven."""
    why: str


def lock_path(cases: Path, case: str) -> Path:
    return cases / FOLDER / f"{case}.json"


def read_lock(cases: Path, case: str) -> ProofLock | None:
    """The lock of a case below the folder `cases`; None where there is none. Raises `UserError` for one that is not."""
    path = lock_path(cases, case)
    if not path.is_file():
        return None
    lock = read_json(path, ProofLock, remedy="remove it; `cases verify --write-locks` writes a new one")
    if lock.case != case:
        raise UserError(f"is the lock of {lock.case}", where=path, remedy="remove it, and prove the case again")
    return lock


def write_lock(cases: Path, lock: ProofLock) -> Path:
    """Store a lock below the folder `cases`, whole or not at all."""
    path = lock_path(cases, lock.case)
    write_atomic(path, f"{lock.model_dump_json(by_alias=True, indent=2)}\n".encode())
    return path


def standing(case: Case, lock: ProofLock | None, here: Surroundings, *, isolated: bool) -> Standing:
    """Whether the lock speaks for the case as it is; isolated: what is asked for."""
    if lock is None:
        return Standing("open", "it has no lock")
    if lock.proof != case.proof_digest:
        return Standing("open", "it has changed since its proof")
    if isolated and not lock.isolated:
        return Standing("open", f"it was proven without isolation ({lock.sandbox})")
    changed = list(_changes(case, lock, here))
    if changed:
        return Standing("elsewhere", f"proven {lock.date[:10]}, since then changed: {', '.join(changed)}")
    return Standing("proven", f"proven {lock.date[:10]}")


def _changes(case: Case, lock: ProofLock, here: Surroundings) -> list[str]:
    found = [] if (lock.sources, lock.judge) == (here.sources, JUDGE) else ["judge or kit"]
    if lock.python != here.python:
        found.append(f"Python {lock.python} to {here.python}")
    now = library_versions(case)
    return found + [
        f"{name} {lock.libraries.get(name, '-')} to {now.get(name, '-')}"
        for name in sorted(now.keys() | lock.libraries.keys())
        if lock.libraries.get(name) != now.get(name)
    ]


def library_versions(case: Case) -> dict[str, str]:
    """Versions of the libraries that the case needs, by module."""
    found = {}
    for module in case.spec.needs.python:
        package = module.partition(".")[0]
        for distribution in _distributions().get(package, ()):
            found[package] = importlib.metadata.version(distribution).partition("+")[0]
    return found


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def new_lock(case: Case, here: Surroundings, facts: Mapping[str, object]) -> ProofLock:
    """The lock of a proof of `case` in these surroundings; `facts`: the other fields."""
    return ProofLock.model_validate(
        {
            "case": case.id,
            "judge": JUDGE,
            "sources": here.sources,
            "python": here.python,
            "libraries": library_versions(case),
            "bench_version": __version__,
            **facts,
        }
    )
