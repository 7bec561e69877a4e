"""What a grading says, as plain data between the judge's child and the runner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bench.sandbox.job import Attempts


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
    """A check that failed for a reason of its own: which, and how. Then there is no score."""
    seed: int = 0
    attempts: Attempts = field(default_factory=Attempts)
    """Tries of the agent's code to reach a network while it was judged."""
    log: str = field(default="", compare=False)

    @property
    def score(self) -> float:
        """Passed weight over total weight; 0 when a guard failed, or when files are there and nothing right in them."""
        if any(verdict.guard and verdict.value < 1 for verdict in self.verdicts):
            return 0.0
        own = [verdict for verdict in self.verdicts if verdict.origin == "case" and verdict.weight > 0]
        if own and not any(verdict.value > 0 for verdict in own):
            return 0.0
        total = sum(verdict.weight for verdict in self.verdicts)
        return sum(verdict.weight * verdict.value for verdict in self.verdicts) / total if total else 0.0

    @property
    def success(self) -> bool:
        """Every required check and every guard passed."""
        needed = [verdict for verdict in self.verdicts if verdict.required or verdict.guard]
        return not self.broken and bool(needed) and all(verdict.value >= 1 for verdict in needed)

    @property
    def failed(self) -> list[str]:
        """Ids of the checks that did not pass."""
        return [verdict.id for verdict in self.verdicts if verdict.value < 1]
