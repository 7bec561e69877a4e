"""Judges the classifier by its outputs and gradients with the judge's weights; the reference is numpy, in this process.

The driver shares a process with classifier_model.py: names, flags and shapes that it tells are claims, values are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from reference import FEATURES, drawn, output, shapes, slope

from bench.judge import Probe, array, check, close, mapping, number, run_command, sequence

MODEL = Probe(
    "ClassifierModel(num_classes=10)",
    target="classifier_model:ClassifierModel",
    observe="driver.py:seen",
    promised={
        "modes": "in training and in evaluation mode",
        "gradients": "with gradients enabled and without",
        "sizes": "for any number of classes from 1 on",
        "repeats": "Each picture's logits depend on that picture alone",
        "dtypes": "The model can be converted with `double()`",
    },
)


def _inputs(ws: Any, count: int, double: bool = False, factors: Any = None, last: Any = None) -> Any:
    more = [count, double, factors or [1.0] * count, last or [count - 1]]
    return lambda values: [ws.rng.getrandbits(60), values["num_classes"], *more]


def _drawn_as_usual(name: str, first: Any, second: Any) -> None:
    """PyTorch draws weight and bias of a layer with n inputs evenly from +-1/sqrt(n), and other ones for each model."""
    inside = {"features.0": 27, "features.2": 144, "classifier": FEATURES}[name.rpartition(".")[0]]
    for begun in (first, second):
        scaled = begun.astype(float) * inside**0.5
        assert np.abs(scaled).max() < 1.001 and (scaled != 0).any(), (
            f"{name} of a new model is not drawn as PyTorch does"
        )
        # Two of 4,000 values of 24 bits agree in every second draw.
        repeated = scaled.size - np.unique(scaled).size
        assert repeated <= min(6, scaled.size // 8), f"{repeated} of {scaled.size} values of {name} are drawn twice"
        # A standard deviation of 1/sqrt(3), known to 3 % from 432 values on.
        ratio = float(scaled.std()) * 3**0.5
        assert scaled.size < 400 or 0.85 < ratio < 1.15, f"{name} spreads {ratio:.3f} times as far as PyTorch's"
    assert (first != second).any(), f"{name} is the same in two new models"


def _right(values: dict[str, Any], extra: Any, value: Any) -> None:
    """State, trainable parameters, what they begin with and the outputs are as they must be."""
    seed, classes, count, double, factors, last = extra
    found = mapping(value, keys=("state", "trainable", "begun", "wide", "outs", "same"))
    state = {name: tuple(sequence(shape)) for name, shape in mapping(found["state"]).items()}
    assert state == shapes(classes), f"the state dictionary has the shapes {state}"
    assert sorted(map(str, sequence(found["trainable"]))) == sorted(shapes(classes)), "not all parameters are trainable"
    first, second = (mapping(it, keys=tuple(shapes(classes))) for it in sequence(found["begun"], length=2))
    for name in shapes(classes):
        begun = array(first[name])
        _drawn_as_usual(name, begun, array(second[name], begun.shape))
    many, wide = sequence(found["wide"], length=2)
    assert wide == [many, FEATURES], "there are not as many outputs as classes where these are many"
    assert found["same"] is True, "the input was changed"
    values_drawn = drawn(seed, classes, count)
    scale = np.array([*factors, 1.0])[:, None]
    wanted = output({**values_drawn, "x": scale[:-1, :, None, None] * values_drawn["x"]}) / scale[:-1]
    tolerance = (1e-9 if double else 2e-4) * float(np.abs(wanted).max())
    wanted = np.vstack([wanted, np.full(classes, np.nan)])
    # As the driver calls it: with other weights, in reverse order, and with a picture of NaN before some others.
    calls = ((-2, list(range(count))), (1, list(range(count))[::-1]), (1, [count, *last]))
    for out, (times, rows) in zip(sequence(found["outs"], length=3), calls, strict=True):
        plain = array(out, (len(rows), classes), finite=False) / scale[rows] / times
        close(plain, wanted[rows], rtol=0, atol=tolerance, nan="equal", what="the output")


@check(weight=3, required=True)
def outputs_match(ws: Any) -> None:
    """With the judge's weights the logits are those of the layers over all features, for any batch and any classes."""
    MODEL.compare(ws, "sizes", {"num_classes": 3}, _inputs(ws, 1), _right)
    MODEL.compare(ws, "sizes", {"num_classes": 12}, _inputs(ws, 2), _right)
    MODEL.repeats(ws, {"num_classes": 2}, {"num_classes": 4}, _inputs(ws, 2), _right)
    MODEL.compare(ws, "sizes", {"num_classes": 1}, _inputs(ws, 3, last=[n % 3 for n in range(67)]), _right)


@check(weight=2, required=True)
def settings_and_signature(ws: Any) -> None:
    """`num_classes` by position, by name and left out; every mode; float64; large values, channels last."""
    MODEL.signature(ws, {"num_classes": 7}, _inputs(ws, 1), _right)
    MODEL.settings(ws, {"num_classes": 2}, _inputs(ws, 2, factors=[1e9, 1.0]), _right)
    MODEL.compare(ws, "dtypes", {"num_classes": 2}, _inputs(ws, 2, double=True, last=[0, 1]), _right)


@check(weight=2, required=True)
def gradients_match(ws: Any) -> None:
    """In both modes gradients along random directions are the judge's slopes, of parameters also where x needs none.

    Those that come from above are large, so that a model that cuts gradients off shows.
    """
    upstream = ws.numpy_rng("upstream").normal(size=(1, 3))
    seed, along = ws.rng.getrandbits(60), ws.rng.getrandbits(60)
    values, directions = drawn(seed, 3, 1), drawn(along, 3, 1)
    answers = []
    for training, inputs in ((True, True), (False, True), (True, False)):
        found = mapping(ws.drive("driver.py:slopes", seed, along, 3, 1e9 * upstream, training, inputs))
        wanted = sorted(shapes(3)) + ["x"] * inputs
        assert sorted(found) == wanted, f"there are gradients of {sorted(map(str, found))}"
        mode = f"{'training' if training else 'evaluation'} mode{'' if inputs else ', where x needs none'}"
        answers.append((mode, {name: number(found[name]) / 1e9 for name in wanted}))
    start = output(values)
    for name in values:
        right = slope(values, start, directions, name, upstream)
        for mode, told in answers:
            near = abs(told.get(name, right) - right) <= 1e-2 * abs(right) + 1e-3
            assert near, f"in {mode}, the gradient of {name} is {told[name]:.6g}, not {right:.6g}"


@check(weight=0, required=True)
def script_ends_well(ws: Any) -> None:
    """run_model.py ends with status 0."""
    run_command(ws, "python run_model.py")
