"""The decorators of check.py: a plain function becomes a weighted judgement, or is worked out once for all of them."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from bench.formats.verdict import about_of

if TYPE_CHECKING:
    import numpy

    from bench.judge.hidden_files import Hidden
    from bench.judge.workspace import Workspace

P = ParamSpec("P")
T = TypeVar("T")
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

    weight: its part of the score. required: `success` needs it; with weight 0 it can only be lost, which is all that
    an exit status is good for, since the agent's code decides it. guard: what the untouched workspace already
    passes; it earns nothing, and its failure makes the score 0.
    """
    if weight < 0 or (weight == 0 and not (guard or required)):
        raise ValueError("weight must be positive; a check that earns nothing is guard=True or required=True")

    def wrap(function: CheckFunction) -> Check:
        return Check(function, 0.0 if guard else float(weight), required, guard)

    return wrap


def once(function: Callable[Concatenate[Workspace, P], T]) -> Callable[Concatenate[Workspace, P], T]:
    """Make a function of the workspace that is worked out once a grading, for equal arguments, which must be hashable.

    For a costly run or measurement that several checks need. Its value or its failed assertion lives in the workspace
    and ends with it: no grading meets what another one remembered, and a failed run is not tried again. Inside,
    `ws.rng` is a stream of the function's own, so what it draws does not depend on the check that asks first. Any
    other exception is not remembered. Callers share the value: do not change it.
    """

    @functools.wraps(function)
    def remembered(ws: Workspace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (function, args, tuple(sorted(kwargs.items())))
        if key not in ws.remembered:
            ws.remembered[key] = _outcome(functools.partial(function, ws, *args, **kwargs), ws, function.__qualname__)
        value, fault = ws.remembered[key]
        if fault is not None:
            # Without it each failure of a check would lengthen the one traceback that all share.
            raise fault.with_traceback(None)
        found: T = value
        return found

    return remembered


@dataclass(frozen=True)
class Given:
    """What a grading has before it looks at anything of the agent's: its seed and the case's own files."""

    _ws: Workspace

    def numpy_rng(self, purpose: str) -> numpy.random.Generator:
        """As `Workspace.numpy_rng`: the same stream for the same purpose."""
        return self._ws.numpy_rng(purpose)

    def hidden(self, name: str) -> Hidden:
        """The judge's file `name`."""
        return self._ws.hidden(name)

    def original(self, path: str) -> Path:
        """The file as the agent found it."""
        return self._ws.original(path)


def drawn(function: Callable[Concatenate[Given, P], T]) -> Callable[Concatenate[Workspace, P], T]:
    """Make a function of the workspace of one that draws the judge's inputs, and cannot see the agent's files.

    For inputs that are costly to make, such as many painted pictures. It is worked out once a grading for equal
    arguments, as `once`; and once for all the nonsense on which `cases verify` tries the checks, where `once` would
    paint again and again. Callers share the value: do not change it.
    """

    @functools.wraps(function)
    def remembered(ws: Workspace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (function, args, tuple(sorted(kwargs.items())))
        if key not in ws.drawn:
            ws.drawn[key] = function(Given(ws), *args, **kwargs)
        found: T = ws.drawn[key]
        return found

    return remembered


def _outcome(work: Callable[[], T], ws: Workspace, name: str) -> tuple[T | None, AssertionError | None]:
    """The value, or the failed assertion, of `work` with a generator of its own."""
    before, ws.rng = ws.rng, random.Random(f"{ws.seed}:once:{name}")
    try:
        return work(), None
    except AssertionError as fault:
        return None, fault
    finally:
        ws.rng = before
