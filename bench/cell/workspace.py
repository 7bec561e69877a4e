"""The only folder an agent may write: made fresh for each trial, and made harmless afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.base.errors import InfraError
from bench.base.files import lay_over, room_to_keep
from bench.cell.context import CellContext
from bench.cell.machine import has_room
from bench.cell.reduction import GONE
from bench.cell.services import running_services
from bench.cell.snapshot import Snapshot
from bench.cell.start_state import StartState, prepare_start
from bench.formats.case_parts import Limits, ServicePhase
from bench.formats.plan import Cell
from bench.guest.trees import remove_tree
from bench.judge import Ended, Envelope, Grading, Submission, grade_submission, run_fork
from bench.sandbox import Gpu, base_environment

MOST_ENTRIES = 200_000
"""Files and folders of a workspace that are looked at."""
_MOST_OUT_MB = 1024
"""Of an agent's own notes, all of which become artifacts, each with a digest."""
_MODULE = "bench.cell.snapshot"
_LIVE_MODULE = "bench.cell.live_copy"
_MEMORY_MB = 1024
_LEAST_S = 5.0
_REMOVAL_S = 10.0
_REMOVAL_WALL_S = 300.0
"""Removing mostly awaits the disk, and others may keep it busy for many seconds."""
_LESS = ("named", "nothing")
"""What is kept of a folder that cannot stay whole."""
# Of the judging limit: with the judging itself it is still within twice that.
_SHARE = 0.5


@dataclass(frozen=True)
class CellFolder:
    """The folder of one cell at work: prepared for an agent or a person, then made a snapshot, then judged.

    The phases of every cell, also of those that only prove a case or that a person solves.
    """

    cell: Cell
    context: CellContext
    start: StartState
    path: Path
    gpu: Gpu | None = None
    """The cell's own, where its case needs one."""

    @classmethod
    def prepare(cls, cell: Cell, context: CellContext, path: Path, gpu: Gpu | None = None) -> CellFolder:
        """Make a fresh copy of the start of the trial in the new folder `path`."""
        made = cls.of(cell, context, path, gpu)
        made.journals.mkdir(parents=True)
        made.workspace.mkdir()
        lay_over(made.start.workspace, made.workspace)
        return made

    @classmethod
    def of(cls, cell: Cell, context: CellContext, path: Path, gpu: Gpu | None = None) -> CellFolder:
        """The folder `path` as it is."""
        seed, cache = context.data_seed(cell), context.start_cache(cell)
        start = prepare_start(cell.case, cell.profile, seed, cache, context.folders.cache)
        return cls(cell, context, start, path, gpu)

    @property
    def workspace(self) -> Path:
        return self.path / "workspace"

    @property
    def out(self) -> Path:
        """What the agent writes beside its answer, until its end: with names that keep a folder from its upload."""
        return self.path / "out"

    @property
    def journals(self) -> Path:
        """What the case's services write down."""
        return self.path / "journals"

    def running_services(
        self, sockets: Path, phase: ServicePhase = "agent", journals: Path | None = None
    ) -> AbstractContextManager[dict[str, Path]]:
        """Run the case's services of a phase, with their sockets in a folder of a short path; yields these by name."""
        case, seed = self.cell.case, self.context.data_seed(self.cell)
        names = sorted(name for name, service in case.spec.services.items() if phase in service.during)
        script, code = case.part("services.py"), case.parts("hidden")
        told = {name: case.spec.services[name].public_scores for name in names}
        place = journals or self.journals
        return running_services(script, names, self.start.hidden, place, sockets, seed, code, phase, told)

    def take_snapshot(self, inventory: Path | None = None) -> Snapshot:
        """Make the finished workspace harmless in place, and list it in the file `inventory` if one is named.

        What exceeds the bounds is taken out, and said in the snapshot; an agent's files are never an error.
        """
        spec = self.cell.case.spec
        snapshot = _bounded(
            {
                "task": "snapshot",
                "root": str(self.workspace),
                "start": str(self.start.workspace),
                "outputs": [item.path for item in spec.outputs.files],
                "protected": spec.protected,
                "inventory": str(inventory or ""),
            },
            self.path,
            spec.limits,
        )
        if snapshot.too_large:
            # The judge may need the room.
            _remove(self.path.glob(f"{GONE}*"))
        return snapshot

    def copy_live(self, store: Path, room: Room, keep: Sequence[str], *, prune: bool, take: bool = True) -> LiveCopy:
        """Copy the workspace at whose files an agent is still at work into `store`, which has this `room`.

        keep: trees of the store that stay; prune: everything else of it goes first. take: False only prunes. The bounds
        are those of the final snapshot; what exceeds one is not copied, and the answer says which it was.
        """
        limits = self.cell.case.spec.limits
        seconds = _seconds(limits)
        orders = {
            "root": str(self.workspace) if take else "",
            "store": str(store),
            "stored": room.size,
            "objects": room.objects,
            "keep": list(keep),
            "prune": prune,
            "size": limits.disk_mb << 20,
            "entries": MOST_ENTRIES,
        }
        ended = _run(orders, _envelope(seconds, limits.grade_s + 2 * seconds), _LIVE_MODULE)
        if ended.by == "exit" and ended.code == 0:
            return LiveCopy(json.loads(ended.answer), ended.cpu_s)
        bounds = {"time": "time of one snapshot", "starved": "time of one snapshot", "memory": "memory of one snapshot"}
        return LiveCopy({"left_out": bounds.get(ended.by, "error")}, ended.cpu_s, broken=True)

    def keep(self, root: Path, place: Path) -> str:
        """Move a folder that the agent has written to `place`: harmless, with names under which it can be uploaded.

        Says what of it is not kept; empty: all is.
        """
        os.chmod(root, stat.S_IRWXU)
        orders = {"task": "portable", "root": str(root), "start": "", "outputs": []}
        limits, said = self.cell.case.spec.limits, ""
        most = min(limits.disk_mb, _MOST_OUT_MB, room_to_keep(self.path) >> 20)
        with os.scandir(root) as found:
            empty = next(found, None) is None
        if not empty:
            bounds = limits.model_copy(update={"disk_mb": most}) if root == self.out else limits
            said = _bounded(orders, self.path, bounds).too_large
            if said:
                # The judge may need the room.
                _remove(self.path.glob(f"{GONE}*"))
        remove_tree(place)
        root.rename(place)
        return f"{root.name}/: {said}" if said else ""

    def make_room(self, out: Path) -> str:
        """Take out what has filled the disk: `out`, then what the case does not name of the workspace. Says so."""
        spec, said = self.cell.case.spec, list[str]()
        start, outputs = str(self.start.workspace), [item.path for item in spec.outputs.files]
        for root, names in ((out, []), (self.workspace, outputs)):
            if has_room(self.path):
                break
            orders = {"task": "harmless", "root": str(root), "start": start if names else "", "outputs": names}
            made = _bounded(orders, self.path, spec.limits, _LESS, why="the disk was full")
            _remove(self.path.glob(f"{GONE}*"))
            said.append(f"{root.name}/: {made.too_large}")
        return "; ".join(said)

    def judge(self) -> Grading:
        """Judge the snapshot; raises `InfraError` when a check gives no verdict of it."""
        grading = self.grade()
        if grading.broken:
            raise InfraError("judge_error", f"a check of case {self.cell.case.id} is broken: {grading.broken}")
        return grading

    def grade(self, seed: int | None = None) -> Grading:
        """Judge the snapshot, with new inputs unless there is a `seed` of earlier ones; the grading may be broken.

        The services of judging are new for each grading, and so are their journals.
        """
        sockets = self.context.socket_folder(self.cell) / "j"
        journals = self.path / f"judging-{secrets.token_hex(4)}"
        for folder in (sockets, journals):
            folder.mkdir(parents=True, exist_ok=True)
        with self.running_services(sockets, "judging", journals) as services:
            submission = replace(self.submission(), services=services, judging_journals=journals)
            return grade_submission(self.cell.case, submission if seed is None else replace(submission, seed=seed))

    def submission(self, hostile: bool = False) -> Submission:
        return Submission(
            snapshot=self.workspace,
            original=self.start.workspace,
            hidden=self.start.hidden,
            journals=self.journals,
            profile=self.cell.profile,
            sandbox=self.context.sandbox.name,
            scratch=self.context.socket_folder(self.cell),
            hostile=hostile,
            arena=self.path.parent,
            run=self.context.provenance.run,
            cell=self.cell.id,
            gpu=self.gpu,
        )


@dataclass(frozen=True)
class Room:
    """What a store of copies may take of the disk."""

    size: int
    """Bytes."""
    objects: int
    """Files."""


@dataclass(frozen=True)
class LiveCopy:
    """What became of a copy."""

    facts: dict[str, Any]
    """`tree`, `files`, `size`, `dropped` and `unsteady`; or `left_out`, the bound that was met."""
    cpu_s: float
    broken: bool = False
    """It was ended midway, so there is something in the store that no tree names."""


def _seconds(limits: Limits) -> float:
    """CPU time of one snapshot."""
    return max(limits.grade_s * _SHARE, _LEAST_S)


def _bounded(
    orders: dict[str, Any], aside: Path, limits: Limits, ways: Sequence[str] = ("whole", *_LESS), why: str = ""
) -> Snapshot:
    """Have a folder made harmless in a process that can be ended; when it must be, less is kept of the folder."""
    orders |= {"aside": str(aside), "size": limits.disk_mb << 20, "entries": MOST_ENTRIES, "why": why}
    seconds = _seconds(limits)
    for keep in ways:
        ended = _run({**orders, "keep": keep}, _envelope(seconds, limits.grade_s + 2 * seconds))
        if ended.by == "exit" and ended.code == 0:
            facts = json.loads(ended.answer)
            return Snapshot(**{**facts, "folder": Path(facts["folder"])})
        if ended.by == "outside":
            raise InfraError("judge_killed", f"the process that takes the snapshot was ended by signal {-ended.code}")
        if ended.by == "starved":
            raise InfraError("starved", "the machine was too busy with other work to take the snapshot")
        what = {"time": f"over {seconds:g} s", "memory": f"over {_MEMORY_MB} MiB"}.get(ended.by, ended.log[-300:])
        orders["why"] = f"too much to look at ({what})"
    raise InfraError("internal_error", f"the snapshot cannot be taken: {ended.log[-1500:]}")


def _envelope(cpu_s: float, wall_s: float) -> Envelope:
    # It reads names and hashes in pieces, so its memory grows slowly enough to be seen: a group would cost more time.
    return Envelope(cpu_s, wall_s, _MEMORY_MB, grouped=False)


def _run(orders: dict[str, Any], envelope: Envelope, module: str = _MODULE) -> Ended:
    environment = base_environment(home="/nonexistent", tmp=tempfile.gettempdir(), python=Path(sys.executable), cpus=1)
    return run_fork(module, orders, envelope, environment=environment)


def discard(paths: Iterable[Path]) -> None:
    """Remove folders that may hold anything, in a process that is ended when it takes too long.

    They are moved aside first, so that their names are free in any case. What is left then goes with the next folder
    beside it, or with the run.
    """
    gone: list[Path] = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.rename(path, moved := path.with_name(f"{GONE}{secrets.token_hex(6)}"))
            gone.append(moved)
    if gone:
        earlier = [path for parent in {path.parent for path in gone} for path in parent.glob(f"{GONE}*")]
        _remove([*gone, *earlier])


def _remove(paths: Iterable[Path]) -> None:
    # A folder that is still there is no reason to lose a cell.
    with contextlib.suppress(InfraError):
        orders = {"task": "remove", "paths": [str(path) for path in paths]}
        _run(orders, _envelope(_REMOVAL_S, _REMOVAL_WALL_S))
