"""Probes of a callable that task.md promises: the ways of calling it, each compared with what is right.

What a probe tries is what the task says: names, order and defaults of the parameters are read from the quoted
signature, and every other kind of probe names the words that promise it. The calls are made in the subject, so that a
value is a claim; `right`, in check.py, compares it. Nothing rests on how the agent's function is written: `*args`, a
decorator or a class behave alike.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.judge.hidden_files import Hidden
from bench.judge.promised import require_promise
from bench.judge.values import mapping, sequence, shown

if TYPE_CHECKING:
    from bench.judge.workspace import Workspace

KINDS = ("modes", "gradients", "integers", "dtypes", "sizes", "inputs", "repeats")
_DRIVER = Path(__file__).with_name("probe_driver.py")
_REQUIRED = object()

Values = dict[str, Any]
Inputs = Callable[[Values], Sequence[Any]]
"""From all values of the parameters, the arguments of the observer."""
Right = Callable[[Values, Sequence[Any], Any], None]
"""Compares a value, given those of the parameters and the observer's arguments; fails by AssertionError."""


@dataclass(frozen=True)
class Tensor:
    """An array that the agent's code gets as a torch tensor of the same dtype."""

    array: Any


@dataclass(frozen=True)
class Made:
    """A thing of the observer's module, such as a function: `name` may have dots."""

    name: str


@dataclass(frozen=True)
class Call:
    """One call; parameters without a value are left out."""

    given: Values
    positional: int = 0
    """How many parameters, in the promised order, go by position."""
    mode: str = ""
    """"train" or "eval", set on the value before it is observed."""
    gradients: bool = True

    def __str__(self) -> str:
        names = list(self.given)
        parts = [f"{name} by position" for name in names[: self.positional]]
        parts += [f"{name} by name" for name in names[self.positional :]]
        parts += [f"in {self.mode} mode"] * bool(self.mode) + ["without gradients"] * (not self.gradients)
        return ", ".join(parts) or "no arguments"


@dataclass(frozen=True)
class Probe:
    """How a callable is called, observed and compared."""

    promise: str
    """Its signature as task.md writes it, such as `train(x, y, epochs=20)`; defaults are Python literals."""
    target: str
    """module:function or module:Class in the workspace."""
    observe: str = ""
    """Driver and function in hidden/, such as "driver.py:seen", that makes of the value what can cross."""
    prepare: str = ""
    """A function of the same driver that gets the observer's arguments before the call, to make files for it."""
    promised: Mapping[str, str] = field(default_factory=dict)
    """For each further kind of probe (one of KINDS) the words of task.md that promise it."""

    def __post_init__(self) -> None:
        unknown = set(self.promised) - set(KINDS)
        if unknown:
            raise ValueError(f"kinds of probes are {', '.join(KINDS)}; not {', '.join(sorted(unknown))}")
        if not self.parameters:
            raise ValueError(f"{self.promise!r} has no parameters to probe")

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Defaults by name, in the promised order; raises `ValueError` where the promise is not a signature."""
        try:
            tree = ast.parse(self.promise, mode="eval").body
        except SyntaxError:
            tree = None
        if not isinstance(tree, ast.Call) or not all(isinstance(arg, ast.Name) for arg in tree.args):
            raise ValueError(f"{self.promise!r} is not a signature such as `train(x, y, epochs=20)`")
        required = {arg.id: _REQUIRED for arg in tree.args if isinstance(arg, ast.Name)}
        return required | {str(it.arg): ast.literal_eval(it.value) for it in tree.keywords}

    def signature(self, ws: Workspace, given: Values, inputs: Inputs, right: Right) -> None:
        """Call by name, by position and with each optional parameter alone or left out; `given` differs from defaults.

        `given` has a value for every parameter without a default.
        """
        for call in self._forms(given):
            self._compare(ws, [call], inputs, right)

    def settings(self, ws: Workspace, given: Values, inputs: Inputs, right: Right) -> None:
        """Compare in every promised setting: training and evaluation mode, with and without gradients."""
        for kind in {"modes", "gradients"} & set(self.promised):
            self._require(ws, kind)
        for mode in ("train", "eval") if "modes" in self.promised else ("",):
            for gradients in (True, False) if "gradients" in self.promised else (True,):
                self._compare(ws, [Call(given, mode=mode, gradients=gradients)], inputs, right)

    def compare(self, ws: Workspace, kind: str, given: Values, inputs: Inputs, right: Right) -> None:
        """Compare a call that belongs to one kind of probe, such as one of an extreme size."""
        self._require(ws, kind)
        self._compare(ws, [Call(given)], inputs, right)

    def repeats(self, ws: Workspace, first: Values, second: Values, inputs: Inputs, right: Right) -> None:
        """Compare calls of one process, all made before a value is looked at: the first, another, the first again."""
        self._require(ws, "repeats")
        self._compare(ws, [Call(first), Call(second), Call(first)], inputs, right)

    def _require(self, ws: Workspace, kind: str) -> None:
        if kind not in self.promised:
            raise ValueError(f"the probe {self.promise!r} has no words that promise {kind!r}; add them to `promised`")
        require_promise(ws, self.promised[kind], f"the probe of {kind}")

    def _forms(self, given: Values) -> Iterator[Call]:
        ordered = {name: given[name] for name in self.parameters if name in given}
        required = {name: ordered[name] for name, default in self.parameters.items() if default is _REQUIRED}
        yield Call(required)
        yield Call(required, positional=len(required))
        for name in ordered.keys() - required.keys():
            yield Call({**required, name: ordered[name]}, positional=len(required))
        yield Call(dict(reversed(ordered.items())))
        leading = next((n for n, name in enumerate(self.parameters) if name not in ordered), len(ordered))
        yield Call(ordered, positional=leading)

    def _compare(self, ws: Workspace, calls: Sequence[Call], inputs: Inputs, right: Right) -> None:
        require_promise(ws, self.promise, "the probe")
        if "inputs" in self.promised:
            self._require(ws, "inputs")
        bound = [{**self._defaults(), **call.given} for call in calls]
        extra = [list(inputs(values)) for values in bound]
        orders = [self._order(call, more) for call, more in zip(calls, extra, strict=True)]
        driver, _, _ = self.observe.partition(":")
        source = ws.hidden(driver).read_bytes() if driver else None
        answers = sequence(ws.probed(Hidden(_DRIVER), orders, driver, source), length=len(calls))
        name = self.promise.partition("(")[0]
        for call, values, more, answer in zip(calls, bound, extra, answers, strict=True):
            found = mapping(answer, keys=("value", "inputs"))
            try:
                right(values, more, found["value"])
                if "inputs" in self.promised:
                    _unchanged(_arrays([list(call.given.values()), more]), found["inputs"])
            except AssertionError as fault:
                raise AssertionError(f"{name} with {call}: {fault}") from None

    def _defaults(self) -> Values:
        return {name: default for name, default in self.parameters.items() if default is not _REQUIRED}

    def _order(self, call: Call, extra: Sequence[Any]) -> dict[str, Any]:
        values = list(call.given.items())
        return {
            "target": self.target,
            "observe": self.observe.partition(":")[2],
            "prepare": self.prepare,
            "args": [_sent(value) for _, value in values[: call.positional]],
            "kwargs": {name: _sent(value) for name, value in values[call.positional :]},
            "extra": [_sent(value) for value in extra],
            "mode": call.mode,
            "gradients": call.gradients,
        }


def _sent(value: Any) -> Any:
    """`value` in the form that the driver understands."""
    match value:
        case Tensor(array):
            return {"__probe__": "tensor", "array": array}
        case Made(name):
            return {"__probe__": "made", "name": name}
        case dict():
            return {key: _sent(item) for key, item in value.items()}
        case list() | tuple():
            return [_sent(item) for item in value]
    return value


def _arrays(value: Any) -> list[Any]:
    """The arrays in `value`, in the order in which the driver meets them."""
    match value:
        case Tensor(array):
            return [array]
        case dict():
            return [found for item in value.values() for found in _arrays(item)]
        case list() | tuple():
            return [found for item in value for found in _arrays(item)]
    return [value] if hasattr(value, "shape") else []


def _unchanged(sent: Sequence[Any], found: Any) -> None:
    """The inputs are afterwards what they were; the word of the process that had them."""
    after = sequence(found, length=len(sent))
    for before, now in zip(sent, after, strict=True):
        same = getattr(now, "shape", None) == before.shape and bool((now == before).all())
        assert same, f"an input was changed: it began with {shown(before.ravel()[:3].tolist())}"
