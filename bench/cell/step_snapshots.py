"""Snapshots at an agent's milestones and every so many steps, taken beside it by a thread of the runner.

They never decide the verdict, and the agent never waits for one: the copy is made by a process of low priority. At the
end of the agent phase the cell waits for a copy under way, which has the bounds of the final snapshot.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from bench.base.files import sha256_bytes, write_atomic
from bench.base.text import printable
from bench.cell.live_copy import held_by
from bench.cell.watch import LedgerFollower
from bench.cell.workspace import MOST_ENTRIES, CellFolder, Room
from bench.formats.step_snapshots import (
    INDEX,
    JOURNAL,
    MOST_SNAPSHOTS,
    SIGNAL,
    STORE,
    Kind,
    StepSnapshot,
    StepSnapshots,
)
from bench.gateway import CallLine

_POLL_S = 0.2
_LEAST_APART_S = 1.0
"""Between the beginnings of two copies: an agent may say as often as it likes that it has reached something."""
_SHARE_OF_TIME = 0.1
"""Of the agent's limit: CPU time of all copies of a cell."""
_ROOM_FACTOR = 2
_MOST_ROOM = 4 << 30
"""Bytes that all copies of a cell take: twice what a workspace may hold, and never more than this."""
_SHARE_OF_DISK = 0.5
"""Of what is free, bytes and files, when a copy begins."""
_LARGEST_SIGNAL = 2000
_LONGEST_NAME = 100


@contextlib.contextmanager
def snapshots_while(folder: CellFolder, trace: Path) -> Iterator[None]:
    """Take snapshots by the run's rule for as long as the context is open; does nothing without a rule."""
    if not folder.context.snapshots:
        yield
        return
    taker = _Taker(folder, trace)
    thread = threading.Thread(target=taker.work, name="snapshots", daemon=True)
    thread.start()
    try:
        yield
    finally:
        taker.stop.set()
        thread.join()
        taker.finish()


class _Taker:
    """Takes the snapshots of one cell, in a thread of its own."""

    def __init__(self, folder: CellFolder, trace: Path) -> None:
        self.stop = threading.Event()
        self._folder = folder
        self._rule = folder.context.snapshots
        self._trace = trace
        self._store = trace / STORE
        self._signal = folder.out / SIGNAL
        limits = folder.cell.case.spec.limits
        self._cpu_left = limits.agent_s * _SHARE_OF_TIME
        self._room = Room(min(_ROOM_FACTOR * (limits.disk_mb << 20), _MOST_ROOM), _ROOM_FACTOR * MOST_ENTRIES)
        self._follower = LedgerFollower(trace / "calls.jsonl", self._called)
        self._began = self._last = time.monotonic()
        self._steps = self._steps_taken = 0
        self._usd: float | None = 0.0
        self._seen_signal: tuple[int, ...] | None = None
        self._taken: list[StepSnapshot] = []
        self._thinned = 0
        self._left_out: Counter[str] = Counter()
        self._prune = False

    def work(self) -> None:
        """Until `stop` is set; a fault of a snapshot is counted and never one of the cell."""
        while not self.stop.wait(_POLL_S):
            try:
                self._look()
            except Exception:
                self._left_out["error"] += 1
                self._prune = True

    def finish(self) -> None:
        """After the last copy: leave in the store only what belongs to a snapshot."""
        if self._prune:
            with contextlib.suppress(Exception):
                self._folder.copy_live(self._store, self._room, self._trees, prune=True, take=False)
        journals: dict[str, str] = {}
        for name in sorted({name for it in self._taken for name in it.journals}):
            data = (self._folder.journals / f"{name}.jsonl").read_bytes()
            write_atomic(self._store / f"{name}{JOURNAL}", data)
            journals[name] = sha256_bytes(data)
        self._write(journals)

    @property
    def _trees(self) -> list[str]:
        return sorted({it.tree.removeprefix("sha256:") for it in self._taken})

    def _called(self, line: CallLine) -> None:
        self._steps += line.is_step
        if line.status == "ok" and line.cost_usd is None:
            self._usd = None
        elif self._usd is not None:
            self._usd += line.cost_usd or 0.0

    def _look(self) -> None:
        self._follower.look()
        if time.monotonic() - self._last < _LEAST_APART_S:
            return
        if self._rule.milestones and (signal := self._new_signal()) is not None:
            self._take("milestone", signal)
        elif self._rule.every and self._steps // self._rule.every > self._steps_taken // self._rule.every:
            self._take("step", "")

    def _new_signal(self) -> str | None:
        """The name of a milestone that was not seen yet; the file is the agent's, and may be anything."""
        try:
            descriptor = os.open(self._signal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            info = os.fstat(descriptor)
            now = info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
            if not stat.S_ISREG(info.st_mode) or now == self._seen_signal:
                return None
            self._seen_signal = now
            return _name_in(os.read(descriptor, _LARGEST_SIGNAL))
        finally:
            os.close(descriptor)

    def _take(self, kind: Kind, name: str) -> None:
        self._last = time.monotonic()
        step, usd, seconds = self._steps, self._usd, self._last - self._began
        self._steps_taken = step
        if self._cpu_left <= 0:
            self._left_out["time of all snapshots"] += 1
            return
        journals = {path.stem: path.stat().st_size for path in sorted(self._folder.journals.glob("*.jsonl"))}
        copy = self._folder.copy_live(self._store, self._room_now(), self._trees, prune=self._prune)
        self._prune = copy.broken
        self._cpu_left -= copy.cpu_s
        facts = copy.facts
        if bound := facts.get("left_out"):
            self._left_out[bound] += 1
        else:
            taken = StepSnapshot(
                kind=kind,
                name=name,
                step=step,
                seconds=round(seconds, 3),
                usd=None if usd is None else round(usd, 8),
                journals=journals,
                **{**facts, "tree": f"sha256:{facts['tree']}"},
            )
            self._taken, gone = thinned([*self._taken, taken])
            self._thinned += gone
            self._prune |= gone > 0
        self._write()

    def _room_now(self) -> Room:
        held, objects = held_by(self._store)
        disk = os.statvfs(self._trace)
        size = min(self._room.size, held + int(disk.f_bavail * disk.f_frsize * _SHARE_OF_DISK))
        # Some file systems count no inodes.
        free = int(disk.f_favail * _SHARE_OF_DISK) if disk.f_files else self._room.objects
        return Room(size, min(self._room.objects, objects + free))

    def _write(self, journals: Mapping[str, str] = MappingProxyType({})) -> None:
        found = StepSnapshots(
            rule=str(self._rule),
            snapshots=self._taken,
            thinned=self._thinned,
            left_out=dict(self._left_out),
            journals=dict(journals),
        )
        with contextlib.suppress(OSError):
            write_atomic(self._trace / INDEX, found.model_dump_json(by_alias=True, indent=1).encode() + b"\n")


def _name_in(data: bytes) -> str:
    """What `{"name": "..."}` says; empty for anything else: a touch is enough."""
    try:
        name = json.loads(data)["name"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return printable(name, _LONGEST_NAME)[:_LONGEST_NAME] if isinstance(name, str) else ""


def thinned(taken: Sequence[StepSnapshot], most: int = MOST_SNAPSHOTS) -> tuple[list[StepSnapshot], int]:
    """At most `most` of the snapshots, in their order, and how many went.

    Of those between the first and the last, the one goes whose neighbours are closest together, the earlier of equals:
    so whatever comes later, what stays is spread over the time so far.
    """
    kept = list(taken)
    while len(kept) > max(most, 2):
        gaps = [kept[at + 1].seconds - kept[at - 1].seconds for at in range(1, len(kept) - 1)]
        del kept[gaps.index(min(gaps)) + 1]
    return kept, len(taken) - len(kept)
