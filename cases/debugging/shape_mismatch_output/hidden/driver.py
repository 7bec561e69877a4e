"""Fills the agent's model with the judge's weights inside the subject: seeds go in, numbers come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from classifier_model import ClassifierModel


def _values(seed: int, model: Any, classes: int, count: int) -> dict[str, Any]:
    """The values that the judge draws from the same seed, as torch tensors."""
    rng = np.random.default_rng(seed)
    shapes = {
        "features.0.weight": (16, 3, 3, 3), "features.0.bias": (16,), "features.2.weight": (32, 16, 3, 3),
        "features.2.bias": (32,), "classifier.weight": (classes, 32 * 112 * 112), "classifier.bias": (classes,),
        "x": (count, 3, 224, 224),
    }  # fmt: skip
    found = {}
    for name, shape in shapes.items():
        spread = 1.1 if len(shape) == 1 or name == "x" else (2 / np.prod(shape[1:])) ** 0.5
        found[name] = torch.from_numpy(spread * rng.standard_normal(shape, dtype=np.float32).astype(np.float64))
    return found


def _beginning(model: Any) -> dict[str, Any]:
    """The first values of each parameter of a new model."""
    return {name: value.detach().flatten()[:4000].clone() for name, value in model.named_parameters()}


def seen(model: Any, seed: int, classes: int, count: int, double: bool, factor: float) -> dict[str, Any]:
    """State as built, and the output with the values of the seed: at once, again, and of the last picture alone.

    `begun`: what the parameters of this model and of one more begin with. Pictures that are multiplied by a factor have
    their channels last in memory.
    """
    state = {name: list(value.shape) for name, value in model.state_dict().items()}
    trainable = [name for name, value in model.named_parameters() if value.requires_grad]
    begun = [_beginning(model), _beginning(ClassifierModel(classes))]
    model = model.double() if double else model
    kind = next(model.parameters()).dtype
    values = _values(seed, model, classes, count)
    x = factor * values.pop("x").to(kind)
    if factor != 1:
        x = x.contiguous(memory_format=torch.channels_last)
    model.load_state_dict(values)
    before = x.clone()
    outs = [model(x), model(x), model(x[-1:])]
    return {
        "state": state,
        "trainable": trainable,
        "begun": begun,
        "outs": [out.detach() for out in outs],
        "same": bool((before == x).all()),
    }


def slopes(seed: int, along: int, classes: int, upstream: Any, training: bool, inputs: bool) -> dict[str, float]:
    """The gradient of sum(upstream * logits) times a seed's direction, for each parameter, and for x if wanted."""
    model = ClassifierModel(classes).double().train(training)
    values, directions = (_values(it, model, classes, 1) for it in (seed, along))
    x = values.pop("x").requires_grad_(inputs)
    model.load_state_dict(values)
    (model(x) * torch.from_numpy(upstream)).sum().backward()
    found = {**dict(model.named_parameters()), **({"x": x} if inputs else {})}
    return {
        name: float("inf") if value.grad is None else float((value.grad * directions[name]).sum())
        for name, value in found.items()
    }
