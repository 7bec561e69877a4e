"""The intent to make one machine: written before anything is asked of a cloud, and carried by all that is made."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

EngineName = Literal["label", "local", "ec2", "batch", "sky"]
_TAG = "mldb-"
_NARROW = re.compile(r"[^a-z0-9_-]")
_LONGEST = 63
_RUNNER_NAME = re.compile(
    r"mldb-(?P<engine>[a-z0-9]{1,5})-(?P<repository>[0-9a-f]{8})-(?P<run>[0-9a-f]{8})-(?P<attempt>[0-9]{1,3})"
    r"-(?P<lease>[0-9a-f]{16})-(?P<made>[0-9a-f]{8})-[0-9a-f]{4}"
)
"""At most 63 characters, of 64 that GitHub takes."""


@dataclass(frozen=True)
class Scope:
    """Whose machines are meant: those of one repository, or of one workflow run or attempt of it."""

    repository: str
    """owner/name. What belongs to another repository is never touched."""
    run: str = ""
    """Id of the workflow run; empty: all of them."""
    attempt: int = 0
    """Of that run; 0: all of them."""

    def tags(self) -> dict[str, str]:
        """The tags that a machine of this scope carries, by which it is found."""
        wanted = {"repository": self.repository.lower(), "run": self.run, "attempt": str(self.attempt or "")}
        return {f"{_TAG}{name}": value for name, value in wanted.items() if value}

    def holds(self, lease: Lease) -> bool:
        """Whether the lease is of this scope."""
        tags = lease.tags()
        return all(tags[name] == value for name, value in self.tags().items())


@dataclass(frozen=True)
class Lease:
    """One machine for one shard of one attempt of a workflow run, until an instant at which it has ended itself."""

    engine: EngineName
    repository: str
    """owner/name."""
    run: str
    """Id of the workflow run."""
    attempt: int
    shard: str
    expires: datetime
    """In UTC, whole seconds. The machine powers itself off by then, whatever happens."""

    @property
    def id(self) -> str:
        """The same for the same shard of the same attempt: whoever asks again finds the machine of the first time."""
        facts = (self.engine, self.repository.lower(), self.run, str(self.attempt), self.shard)
        return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """The label that the machine's runner alone carries, for `runs-on` of its matrix entry."""
        return f"mldb-{self.id}"

    def tags(self) -> dict[str, str]:
        """What everything that belongs to the machine carries, from the very call that makes it."""
        return {
            f"{_TAG}engine": self.engine,
            f"{_TAG}repository": self.repository.lower(),
            f"{_TAG}run": self.run,
            f"{_TAG}attempt": str(self.attempt),
            f"{_TAG}shard": self.shard,
            f"{_TAG}expires": str(int(self.expires.timestamp())),
            f"{_TAG}lease": self.id,
        }


def lease_of(tags: Mapping[str, str]) -> Lease | None:
    """The lease whose tags these are; None where they are not ours, or not whole."""
    try:
        lease = Lease(
            engine=tags[f"{_TAG}engine"],  # type: ignore[arg-type]  # compared with the lease's id below
            repository=tags[f"{_TAG}repository"],
            run=tags[f"{_TAG}run"],
            attempt=int(tags[f"{_TAG}attempt"]),
            shard=tags[f"{_TAG}shard"],
            expires=datetime.fromtimestamp(int(tags[f"{_TAG}expires"]), UTC),
        )
    except (KeyError, ValueError, OverflowError, OSError):
        return None
    return lease if tags.get(f"{_TAG}lease") == lease.id else None


def narrow_label(value: str) -> str:
    """The value of a tag for clouds whose labels take lower-case letters, digits, `_` and `-` only, 63 at most.

    A piece of the digest keeps values apart that are equal after the replacement.
    """
    folded = _NARROW.sub("-", value.lower())
    if folded == value and len(value) <= _LONGEST:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()[:8]
    return f"{folded[: _LONGEST - 9]}-{digest}"


@dataclass(frozen=True)
class RunnerName:
    """What the name of a GitHub runner says: GitHub's records have neither tags nor times."""

    engine: str
    repository_digest: str
    run_digest: str
    attempt: int
    lease: str
    made: datetime

    def is_of(self, scope: Scope) -> bool:
        """Whether the runner was registered in this scope: the list of an organisation holds all of them."""
        return (
            self.repository_digest == _digest(scope.repository.lower())
            and (not scope.run or self.run_digest == _digest(scope.run))
            and (not scope.attempt or self.attempt == scope.attempt)
        )


def new_runner_name(lease: Lease, moment: datetime) -> str:
    """A name that was never used: GitHub refuses a name twice, also where the first answer was lost."""
    facts = (_digest(lease.repository.lower()), _digest(lease.run), str(lease.attempt), lease.id)
    return f"mldb-{lease.engine}-{'-'.join(facts)}-{int(moment.timestamp()):08x}-{secrets.token_hex(2)}"


def parse_runner_name(name: str) -> RunnerName | None:
    """What the name says; None where it is not one of ours."""
    found = _RUNNER_NAME.fullmatch(name)
    if found is None:
        return None
    return RunnerName(
        engine=found["engine"],
        repository_digest=found["repository"],
        run_digest=found["run"],
        attempt=int(found["attempt"]),
        lease=found["lease"],
        made=datetime.fromtimestamp(int(found["made"], 16), UTC),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
