"""Fills the agent's model with the judge's weights inside the subject: seeds go in, numbers come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from classifier_model import ClassifierModel

# With all weights multiplied so, the logits are exactly those of the plain weights times -2.
CHANGED = {
    "features.0.weight": 2, "features.0.bias": 2, "features.2.weight": 2, "features.2.bias": 4,
    "classifier.weight": -0.5, "classifier.bias": -2,
}  # fmt: skip


def _values(seed: int, classes: int, count: int) -> dict[str, Any]:
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
    """Values of each parameter of a new model, of a large one some from everywhere, the same for each model."""
    found = {}
    for name, value in model.named_parameters():
        places = np.random.default_rng(0).integers(value.numel(), size=4000)
        found[name] = value.detach().flatten()[np.unique(places) if value.numel() > 4000 else ...].clone()
    return found


def _wide() -> tuple[int, list[int]]:
    """Many classes, and the shape of the last weight for them; fewer where a model cannot be built without memory."""
    with torch.device("meta"):
        try:
            ClassifierModel(3)
        except Exception:  # of the agent's code, which was never asked to be built so
            without_memory = False
        else:
            without_memory = True
    classes = 100_000 if without_memory else 1_100
    # Gigabytes that nobody writes to are not taken.
    begin, torch.nn.Linear.reset_parameters = torch.nn.Linear.reset_parameters, lambda _: None
    try:
        with torch.device("meta" if without_memory else "cpu"):
            return classes, list(ClassifierModel(classes).state_dict()["classifier.weight"].shape)
    finally:
        torch.nn.Linear.reset_parameters = begin


def seen(
    model: Any, seed: int, classes: int, count: int, double: bool, factors: list[float], last: list[int]
) -> dict[str, Any]:
    """State as built, and three outputs, all looked at after the last call.

    With other weights; with those of the seed, in reverse order; of a picture of NaN and then the pictures `last`.
    `begun`: what the parameters of this model and of one more begin with. Pictures that are multiplied by a factor have
    their channels last in memory.
    """
    state = {name: list(value.shape) for name, value in model.state_dict().items()}
    trainable = [name for name, value in model.named_parameters() if value.requires_grad]
    begun = [_beginning(model), _beginning(ClassifierModel(classes))]
    model = model.double() if double else model
    kind = next(model.parameters()).dtype
    values = _values(seed, classes, count)
    x = (torch.tensor(factors, dtype=torch.float64)[:, None, None, None] * values.pop("x")).to(kind)
    if set(factors) != {1.0}:
        x = x.contiguous(memory_format=torch.channels_last)
    model.load_state_dict({name: CHANGED[name] * value for name, value in values.items()})
    given = [x, x.flip(0), torch.cat([x[:1] * float("nan"), x[last]])]
    before = [it.clone() for it in given]
    outs = [model(given[0])]
    model.load_state_dict(values)
    outs.append(model(given[1]))
    # The gradients of many pictures would take gigabytes; so float64 is seen without gradients, too.
    with torch.set_grad_enabled(torch.is_grad_enabled() and len(last) == 1):
        outs.append(model(given[2]))
    same = all(
        torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) and a.stride() == b.stride()
        for a, b in zip(before, given, strict=True)
    )
    return {
        "state": state,
        "trainable": trainable,
        "begun": begun,
        "wide": _wide(),
        "outs": [out.detach() for out in outs],
        "same": same and not any(it.requires_grad for it in given),
    }


def slopes(seed: int, along: int, classes: int, upstream: Any, training: bool, inputs: bool) -> dict[str, float]:
    """The gradient of sum(upstream * logits) times a seed's direction, for each parameter, and for x if wanted."""
    model = ClassifierModel(classes).double().train(training)
    values, directions = (_values(it, classes, 1) for it in (seed, along))
    x = values.pop("x").requires_grad_(inputs)
    model.load_state_dict(values)
    (model(x) * torch.from_numpy(upstream)).sum().backward()
    found = {**dict(model.named_parameters()), **({"x": x} if inputs else {})}
    return {
        name: float("inf") if value.grad is None else float((value.grad * directions[name]).sum())
        for name, value in found.items()
    }
