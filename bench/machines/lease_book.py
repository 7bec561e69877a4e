"""The file of leases: each stands there before anything is asked of a cloud.

It is for people and for the summary of a job. `release` and `sweep` go by tags, because this file can be lost.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from bench.base.model import Model
from bench.machines.lease import EngineName, Lease


class _Line(Model):
    lease: str
    engine: EngineName
    repository: str
    run: str
    attempt: int = Field(ge=1)
    shard: str
    expires: str


class LeaseBook:
    """Leases, one a line of JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, lease: Lease) -> None:
        """The lease is on the disk after this."""
        line = _Line(
            lease=lease.id,
            engine=lease.engine,
            repository=lease.repository,
            run=lease.run,
            attempt=lease.attempt,
            shard=lease.shard,
            expires=lease.expires.isoformat(),
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(line.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
