"""The check decorator: a plain function becomes a weighted judgement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.formats.verdict import about_of

if TYPE_CHECKING:
    from bench.judge.workspace import Workspace

CheckFunction = Callable[["Workspace"], Any]
"""Takes the workspace; returns None (passed) or a number in [0, 1]; fails by AssertionError."""


@dataclass(frozen=True)
class Check:
    """One weighted judgement of the workspace."""

    function: CheckFunction
    weight: float
    required: bool
    guard: bool

    @property
    def id(self) -> str:
        return str(getattr(self.function, "__name__", "check"))

    @property
    def about(self) -> str:
        """First line of the docstring: what reports show."""
        return about_of(self.function.__doc__)

    def __call__(self, ws: Workspace) -> Any:
        return self.function(ws)


def check(*, weight: float = 1, required: bool = False, guard: bool = False) -> Callable[[CheckFunction], Check]:
    """Make a check of a function.

    weight: its part of the score. required: `success` needs it. guard: what the untouched workspace already
    passes; it earns nothing, and its failure makes the score 0.
    """
    if weight < 0 or (weight == 0 and not guard):
        raise ValueError("weight must be positive; a check that earns nothing is a guard=True")

    def wrap(function: CheckFunction) -> Check:
        return Check(function, 0.0 if guard else float(weight), required, guard)

    return wrap
