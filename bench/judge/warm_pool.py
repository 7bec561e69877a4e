"""Warm processes that the gradings of one runner share, in the server that forks their judges.

One for each set of libraries, limits and folder of workspaces. It has met no agent's code, whichever cells it served:
all of that runs in its forks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.sandbox import (
    CellEnvironment,
    JobLimits,
    Preparation,
    Sandbox,
    WarmProcess,
    new_group,
    open_sandbox,
    start_warm,
)

_MOST = 4
"""At work or waiting; each holds its libraries in memory, such as 200 MiB of torch."""


@dataclass
class _Kept:
    warm: WarmProcess
    hold: contextlib.ExitStack
    users: int = 0


class WarmPool:
    """Starts warm processes at need, and ends those that have waited longest for another grading."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        """By what they are made for, the one used last at the end."""
        self._grouped: bool | None = None

    def lease(self, orders: Mapping[str, Any]) -> Lease | None:
        """The process for a grading of these orders.

        None where it imports nothing, where too many are at work, or where one cell's calls could fill what another's
        need.
        """
        if not orders.get("preload") or not orders.get("arena") or not self._may_share(orders):
            return None
        key = repr((orders["sandbox"], orders["preload"], orders["arena"], orders["limits"], _shared(orders)))
        kept = self._kept.pop(key, None)
        if kept is not None and not kept.warm.alive():
            kept.hold.close()
            kept = None
        if kept is None:
            if not self._make_room():
                return None
            kept = self._start(orders)
        self._kept[key] = kept
        kept.users += 1
        return Lease(kept)

    def _may_share(self, orders: Mapping[str, Any]) -> bool:
        """A container has one limit for all forks in it: only a group of its own tells which of them has met it."""
        if orders["sandbox"] != "docker":
            return True
        if self._grouped is None:
            group = new_group(JobLimits(**orders["limits"]))
            self._grouped = group is not None
            if group is not None:
                group.remove()
        return self._grouped

    def close(self) -> None:
        """End all of them."""
        for kept in self._kept.values():
            kept.hold.close()
        self._kept.clear()

    def _make_room(self) -> bool:
        idle = [key for key, kept in self._kept.items() if not kept.users]
        while len(self._kept) >= _MOST and idle:
            self._kept.pop(idle.pop(0)).hold.close()
        return len(self._kept) < _MOST

    @staticmethod
    def _start(orders: Mapping[str, Any]) -> _Kept:
        sandbox = open_sandbox(orders["sandbox"], orders["environment"])
        hold = contextlib.ExitStack()
        return _Kept(hold.enter_context(start_warm(sandbox, preparation(orders, _shared(orders)))), hold)


class Lease:
    """The use of a warm process by one grading."""

    def __init__(self, kept: _Kept) -> None:
        self._kept = kept

    @property
    def descriptor(self) -> int:
        """For requests; a fork of the server inherits it."""
        return self._kept.warm.requests.fileno()

    @property
    def enforcement(self) -> str:
        return self._kept.warm.enforcement

    def release(self) -> None:
        self._kept.users -= 1


def preparation(orders: Mapping[str, Any], cell_environment: CellEnvironment) -> Preparation:
    """What a warm process for a grading of these orders is made ready for."""
    return Preparation(tuple(orders["preload"]), Path(orders["arena"]), JobLimits(**orders["limits"]), cell_environment)


def leased(sandbox: Sandbox, orders: Mapping[str, Any], cell_environment: CellEnvironment) -> WarmProcess | None:
    """In a fork of the server: the process that was leased for it, if any."""
    if orders.get("warm") is None:
        return None
    descriptor, enforcement = orders["warm"]
    return WarmProcess.reached(sandbox, preparation(orders, cell_environment), descriptor, enforcement)


def _shared(orders: Mapping[str, Any]) -> CellEnvironment:
    """What gradings of several cells have in common."""
    return replace(CellEnvironment.of(orders["cell_environment"]), cell="")
