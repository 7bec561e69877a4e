"""What judging a workspace has brought: verdicts of all checks with a score, or of some checks without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.formats.verdict import score_of, success_of
from bench.sandbox import NetworkAttempts


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check."""

    id: str
    about: str
    weight: float
    required: bool
    guard: bool
    value: float
    message: str
    seconds: float
    origin: str = "case"


@dataclass(frozen=True)
class Grading:
    """The outcome of all checks of one workspace."""

    verdicts: tuple[Verdict, ...]
    metrics: tuple[dict[str, Any], ...] = ()
    claims: tuple[dict[str, Any], ...] = ()
    broken: str = ""
    """Why the case's checks gave no verdict, such as what one of them raised. A broken grading has no score."""
    raised: Mapping[str, str] = field(default_factory=dict)
    """By check: what it raised that is not a verdict. Its fault, or that of the agent's files."""
    seed: int = 0
    network_attempts: NetworkAttempts = field(default_factory=NetworkAttempts)
    """Tries of the agent's code to reach a network while it was judged."""
    cpu_s: float = field(default=0.0, compare=False)
    """CPU time of the judge and of the workspace's code, in seconds."""
    log: str = field(default="", compare=False)

    @property
    def score(self) -> float:
        """The score of all checks, in [0, 1]."""
        return score_of(self.verdicts)

    @property
    def success(self) -> bool:
        """Every required check and every guard passed."""
        return not self.broken and success_of(self.verdicts)

    @property
    def failed(self) -> list[str]:
        """Ids of the checks that did not pass."""
        return [verdict.id for verdict in self.verdicts if verdict.value < 1]


@dataclass(frozen=True)
class PartialGrading:
    """The outcome of some checks of one workspace. It has no score and no success: the others may change both."""

    verdicts: tuple[Verdict, ...]
    broken: str = ""
    """Why the case's checks gave no verdict, as in `Grading`."""

    @property
    def failed(self) -> list[str]:
        """Ids of the checks that ran and did not pass."""
        return [verdict.id for verdict in self.verdicts if verdict.value < 1]
