"""What a grading is given, and what its checks measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.sandbox import CellEnvironment, JobLimits, NetworkAttempts, Sandbox, WarmProcess


@dataclass(frozen=True)
class Scene:
    """Everything a grading is given."""

    snapshot: Path
    original: Path
    """The workspace as the agent found it."""
    hidden: tuple[Path, ...]
    journals: Mapping[str, Path]
    """Folders of the services' journals: of the phase `agent`, and of `judging` where services ran."""
    check: Path
    """The case's check.py."""
    profile: str
    seed: int
    sandbox: Sandbox
    preload: tuple[str, ...]
    limits: JobLimits
    call_s: float
    grade_s: float
    cell_environment: CellEnvironment = field(default_factory=CellEnvironment)
    spent: Sequence[float] = (0.0, 0.0)
    """By the workspace's code in an earlier process of this grading: CPU time and available time, in seconds."""
    services: Mapping[str, Path] = field(default_factory=dict)
    """Sockets of the services of judging, by the variable that tells the workspace's code where they are."""
    warm: WarmProcess | None = None
    """One for these libraries and limits that sees the snapshot."""
    promises: tuple[str, ...] = ()
    """Passages of task.md that checks stand for."""


@dataclass
class Findings:
    """What the checks measured besides passing and failing."""

    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    network_attempts: NetworkAttempts = field(default_factory=NetworkAttempts)
    """Tries of the agent's code to reach a network, complete when the workspace is closed."""
