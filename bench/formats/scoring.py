"""How checks become a score: shared by the judge's child, the runner and the collector. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

OUTPUTS_CHECK = "outputs_present"
"""The framework's own check of a case's outputs."""
OUTPUTS_ABOUT = "Every required file is there, regular and within its size."


class Judgement(Protocol):
    """The outcome of one check."""

    @property
    def weight(self) -> float: ...
    @property
    def required(self) -> bool: ...
    @property
    def guard(self) -> bool: ...
    @property
    def value(self) -> float: ...
    @property
    def origin(self) -> str: ...


def score_of(checks: Sequence[Judgement]) -> float:
    """Passed weight over total weight; 0 when a guard failed, or when files are there and nothing right in them."""
    if any(check.guard and check.value < 1 for check in checks):
        return 0.0
    own = [check for check in checks if check.origin == "case" and check.weight > 0]
    if own and not any(check.value > 0 for check in own):
        return 0.0
    total = sum(check.weight for check in checks)
    return sum(check.weight * check.value for check in checks) / total if total else 0.0


def stored_score(checks: Sequence[Judgement]) -> float:
    """The score as a record holds it."""
    return round(score_of(checks), 6)


def success_of(checks: Sequence[Judgement]) -> bool:
    """Every required check and every guard passed."""
    needed = [check for check in checks if check.required or check.guard]
    return bool(needed) and all(check.value >= 1 for check in needed)


def is_overclaim(claimed: float | None, measured: float, tolerance: float, higher_is_better: bool) -> bool:
    """Whether a claim is better than the measurement by more than `tolerance`."""
    return claimed is not None and (claimed - measured) * (1 if higher_is_better else -1) > tolerance


def about_of(docstring: str | None) -> str:
    """The first line of a check's docstring: what reports show."""
    return (docstring or "").strip().split("\n")[0]
