"""Calls what a probe asks for, inside the subject. It knows no expected value: what it returns is a claim."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from typing import Any


def probed(calls: list[dict[str, Any]], name: str, source: bytes | None) -> list[dict[str, Any]]:
    """The value of each call and its inputs afterwards; all calls are made before the first value is observed.

    So what one call leaves in this process shows in the value of another.
    """
    observer = _observer(name, source)
    made = [_called(call, observer) for call in calls]
    return [_observed(call, observer, *parts) for call, parts in zip(calls, made, strict=True)]


def _observer(name: str, source: bytes | None) -> types.ModuleType:
    """The case's own driver."""
    module = types.ModuleType("observer")
    module.__file__ = name
    sys.modules["observer"] = module
    if source is not None:
        exec(compile(source, name, "exec"), module.__dict__)  # noqa: S102  the judge's own driver
    return module


def _called(call: dict[str, Any], observer: types.ModuleType) -> tuple[Any, list[Any], list[Any]]:
    """Value, observer's arguments, and all arrays and tensors that were given."""
    inputs: list[Any] = []
    args, kwargs, extra = (_made(call[part], observer, inputs) for part in ("args", "kwargs", "extra"))
    module, _, path = call["target"].partition(":")
    function = _found(importlib.import_module(module), path)
    if call["prepare"]:
        _found(observer, call["prepare"])(*extra)
    with _gradients(call["gradients"]):
        return function(*args, **kwargs), extra, inputs


def _observed(
    call: dict[str, Any], observer: types.ModuleType, value: Any, extra: list[Any], inputs: list[Any]
) -> dict[str, Any]:
    with _gradients(call["gradients"]):
        if call["mode"]:
            value.train(call["mode"] == "train")
        return {
            "value": _found(observer, call["observe"])(value, *extra) if call["observe"] else value,
            "inputs": inputs,
        }


def _gradients(wanted: bool) -> Any:
    if wanted and "torch" not in sys.modules:
        return contextlib.nullcontext()
    import torch

    # Also where they are wanted: what is called may have switched them off.
    return torch.set_grad_enabled(wanted)


def _found(start: Any, path: str) -> Any:
    for part in path.split("."):
        start = getattr(start, part)
    return start


def _made(value: Any, observer: types.ModuleType, inputs: list[Any]) -> Any:
    """The arguments in the form that the agent's code wants; arrays and tensors among them are noted in `inputs`."""
    if isinstance(value, list):
        return [_made(item, observer, inputs) for item in value]
    if isinstance(value, dict) and "__probe__" not in value:
        return {key: _made(item, observer, inputs) for key, item in value.items()}
    if isinstance(value, dict) and value["__probe__"] == "made":
        return _found(observer, value["name"])
    if isinstance(value, dict):
        import torch

        value = torch.from_numpy(value["array"])
    if hasattr(value, "shape"):
        inputs.append(value)
    return value
