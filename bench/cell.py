"""The cell, the unit of work, and what all cells of a run share."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bench.agent import Agent
from bench.case import Case
from bench.datacache import public_seed
from bench.diskspace import DiskSpace
from bench.files import sha256_bytes
from bench.gateway.purse import RunLimits
from bench.places import Places
from bench.record import Profile, Provenance
from bench.sandbox.job import Sandbox


@dataclass(frozen=True)
class Cell:
    """agent x model x case x profile x trial."""

    agent: Agent
    models: dict[str, str]
    case: Case
    profile: Profile
    trial: int

    @cached_property
    def id(self) -> str:
        """Unique within a run, and readable."""
        model = "+".join(self.models.values()) or "none"
        return f"{self.agent.id}/{model}/{self.case.id}/{self.profile}/{self.trial}"

    @property
    def slug(self) -> str:
        """The id as a file name, kept apart from others by a piece of its digest."""
        return slug_of(self.id)


def slug_of(cell: str) -> str:
    """A cell's id as a file name."""
    return f"{re.sub(r'[^A-Za-z0-9._+-]', '_', cell)[:120]}.{sha256_bytes(cell.encode())[7:15]}"


@dataclass(frozen=True)
class RunContext:
    """What all cells of a run share."""

    folder: Path
    sockets: Path
    """A folder with a short path: the name of a Unix socket has at most 107 bytes."""
    places: Places
    sandbox: Sandbox
    provenance: Provenance
    suite_version: str
    agent_commits: dict[str, str]
    agent_digests: dict[str, str] = field(default_factory=dict)
    """Of the agents' folders when the run began; empty: not watched."""
    keep_workspaces: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set when the run is interrupted: what a cell has come to by then is no verdict."""
    cost_limited: bool = True
    """False: no dollar limit, which is the only way to run a model whose price nobody knows."""
    run_limits: RunLimits = field(default_factory=RunLimits)
    """Limits over all cells together."""

    space: DiskSpace = field(default_factory=DiskSpace)
    """The disks that the cells write to."""
    seed_secret: bytes = b""
    """Mixed into the seeds of the data, so that nobody outside can compute them."""

    def seed(self, cell: Cell) -> int:
        """By it cells of several runs are paired; also the seed of the cell's public data, where there is no secret."""
        return public_seed(self.suite_version, cell.case.id, cell.trial)

    def data_seed(self, cell: Cell) -> int:
        """Seed of the cell's public data. With a secret it is in no record."""
        return public_seed(self.suite_version, cell.case.id, cell.trial, self.seed_secret)

    def trace(self, cell: Cell) -> Path:
        """Folder of what is kept beside the record."""
        return self.folder / "traces" / cell.slug

    def socket_folder(self, cell: Cell) -> Path:
        """Folder of the cell's sockets."""
        folder = self.sockets / cell.slug[-8:]
        folder.mkdir(parents=True, exist_ok=True)
        return folder
