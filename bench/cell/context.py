"""The cell, the unit of work, and what all cells of a run share."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from bench.base.errors import InfraError
from bench.base.files import lock
from bench.base.install import DataFolders
from bench.base.times import instant, now
from bench.cell.ask import Helper
from bench.cell.gpus import leased_gpu
from bench.cell.machine import DiskSpace
from bench.cell.shares import RunShares
from bench.cell.watch import CellWatch
from bench.formats.agent import Agent
from bench.formats.plan import Cell, public_seed
from bench.formats.provenance import Provenance
from bench.formats.record import Phase, SeedSource
from bench.formats.run_limits import RunLimits
from bench.formats.seeds import commitment, data_seed, is_replayed
from bench.formats.step_snapshots import SnapshotRule
from bench.gateway import Patience, recorded_seed
from bench.guest.trees import remove_tree
from bench.sandbox import Gpu, GpuRoots, Sandbox

PhaseName = Literal["prepare", "agent", "snapshot", "judge"]


@dataclass
class SoundChecks:
    """Which checks of a case give a verdict of its starter and of its solution: found out once, for all cells."""

    _known: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, digest: str, profile: str, find: Callable[[], frozenset[str]]) -> frozenset[str]:
        """Ids of the checks of the case of this digest."""
        with self._lock:
            if (digest, profile) not in self._known:
                self._known[digest, profile] = find()
            return self._known[digest, profile]


@dataclass(frozen=True)
class CellContext:
    """What all cells of a run share."""

    folder: Path
    sockets: Path
    """A folder with a short path: the name of a Unix socket has at most 107 bytes."""
    folders: DataFolders
    sandbox: Sandbox
    provenance: Provenance
    suite_version: str
    agent_commits: dict[str, str]
    """By the agent's digest: two arms may have the same id."""
    keep_workspaces: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set when the run is interrupted: what a cell has reached by then is not a verdict."""
    cost_limited: bool = True
    """False: no dollar limit, which is the only way to run a model whose price is unknown."""
    run_limits: RunLimits = field(default_factory=RunLimits)
    """Limits over all cells together."""
    shares: RunShares | None = field(default=None, compare=False)
    """Who has used them; None: they bind one agent alone."""

    space: DiskSpace = field(default_factory=DiskSpace)
    """The disks that the cells write to."""
    sound_checks: SoundChecks = field(default_factory=SoundChecks, compare=False)
    patience: Patience = field(default_factory=Patience)
    """With the providers of models."""
    watch: CellWatch = field(default_factory=CellWatch, compare=False)
    """Is told what happens."""
    seed_key: bytes = b""
    """From which the seeds of the data derive, so that outsiders cannot compute them; empty: from public facts."""
    gpu_roots: GpuRoots = field(default_factory=GpuRoots)
    """Where the machine's GPUs are looked for."""
    helper: Helper | None = field(default=None, compare=False)
    """Who answers agents' questions; None: they cannot ask."""
    snapshots: SnapshotRule = field(default_factory=SnapshotRule)
    """When workspaces are copied while their agents work."""

    def gpu(self, cell: Cell) -> AbstractContextManager[Gpu | None]:
        """A GPU of the cell's own for as long as the context is open; waits until one is free."""
        return leased_gpu(cell.case.spec.needs, self.gpu_roots, self.folders.cache / "gpus", self.stopped)

    def seed(self, cell: Cell) -> int:
        """Cells of several runs are paired by it."""
        return public_seed(self.suite_version, cell.case.id, cell.trial)

    def data_seed(self, cell: Cell) -> int:
        """Seed of the cell's data. With a secret it is in no record."""
        if self.seed_source(cell) == "recorded":
            kept = recorded_seed(cell.models, cell.case.id, cell.agent.folder / "cassettes")
            return self.seed(cell) if kept is None else kept
        return data_seed(self.seed_key, self.suite_version, cell.case.id, cell.trial)

    def seed_source(self, cell: Cell) -> SeedSource:
        """A replayed conversation meets the data that it was recorded with."""
        return "recorded" if is_replayed(cell.models) else "secret" if self.seed_key else "public"

    def seed_commitment(self, cell: Cell) -> str:
        """Fixes the cell's seed without telling it; empty where it is public."""
        if self.seed_source(cell) != "secret":
            return ""
        return commitment(self.data_seed(cell), self.suite_version, cell.case.id, cell.trial)

    def start_cache(self, cell: Cell) -> Path:
        """Where the start of the cell's trial is built: what derives from a secret goes with the run's scratch."""
        secret = self.seed_source(cell) == "secret" and cell.case.part("data.py").is_file()
        return self.folder / "scratch" if secret else self.folders.cache

    def staged(self, agent: Agent) -> Path:
        """Folder of the copies of the agent's files, which are what its jobs see; made on first use.

        Raises `InfraError` when these files are not those of the agent's digest any more.
        """
        place = self.folder / "scratch" / ".agents" / f"{agent.id}-{agent.digest[7:23]}"
        # For this user alone: the folder that was copied may have been, too.
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock(place.with_name(f".{place.name}.lock")):
            if not place.is_dir():
                fresh = place.with_name(f".{place.name}.new")
                remove_tree(fresh)
                # A file that is gone by now is a change, too.
                with contextlib.suppress(FileNotFoundError):
                    agent.stage(fresh)
                if agent.digest_staged(fresh) != agent.digest:
                    raise InfraError("setup_error", f"{agent.folder}: the agent has changed since the run began")
                fresh.rename(place)
        return place

    def work(self, cell: Cell) -> Path:
        """Folder of the cell while it runs, beside those of other cells and of nothing that is hidden from agents."""
        return self.folder / "scratch" / "work" / cell.slug

    def trace(self, cell: Cell) -> Path:
        """Folder of what is kept beside the record."""
        return self.folder / "traces" / cell.slug

    def socket_folder(self, cell: Cell) -> Path:
        """Folder of the cell's sockets."""
        folder = self._socket_path(cell)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _socket_path(self, cell: Cell) -> Path:
        return self.sockets / cell.slug[-8:]

    def held(self, cell: Cell) -> list[Path]:
        """The folders of all that the cell holds on this machine's disks; they need not be there yet."""
        return [self.work(cell), self.trace(cell), self._socket_path(cell)]


@dataclass
class Clock:
    """The phases of one try, as they happened.

    The machine's time of day is read once; from then on the monotonic clock counts, so that no time runs backwards.
    """

    started: str = field(default_factory=now)
    phases: list[Phase] = field(default_factory=list)
    _read: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.monotonic)
    """Monotonic seconds."""
    room_since: float = 0.0
    """Monotonic seconds from which on a full disk is this machine's fault."""
    tell: Callable[[PhaseName, float | None], None] = lambda name, seconds: None
    """Told of each phase at its beginning, and at its end with its seconds."""

    def __post_init__(self) -> None:
        self.room_since = self.began

    def now(self) -> str:
        """This instant, by the count since the clock was read."""
        return instant(self._read + timedelta(seconds=time.monotonic() - self.began))

    @contextlib.contextmanager
    def phase(self, name: PhaseName) -> Iterator[None]:
        start, began = self.now(), time.monotonic()
        self.tell(name, None)
        try:
            yield
        finally:
            seconds = round(time.monotonic() - began, 4)
            self.phases.append(Phase(name=name, start=start, seconds=seconds))
            self.tell(name, seconds)
