"""The steps that the bias of the classifier must have made: by Adam, at a rate that falls by the validation loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from worth import losses

RATE, PATIENCE, THRESHOLD = 1e-3, 3, 1e-4


def rates(validation: list[float]) -> list[float]:
    """The learning rate of each epoch, by PyTorch's ReduceLROnPlateau with its defaults, but for the patience."""
    rate, best, bad, found = RATE, np.inf, 0, []
    for loss in validation:
        found.append(rate)
        best, bad = (loss, 0) if loss < best * (1 - THRESHOLD) else (best, bad + 1)
        if bad > PATIENCE:
            rate, bad = rate * 0.1 if rate * 0.9 > 1e-8 else rate, 0
    return found


def foreseen(outputs: Any) -> Any:
    """The mean probability of each class, for outputs (steps x images x classes)."""
    whole = outputs.astype(np.float64)
    shares = np.exp(whole - whole.max(axis=2, keepdims=True))
    return (shares / shares.sum(axis=2, keepdims=True)).mean(axis=1)


def slopes(outputs: Any, label: int) -> Any:
    """Gradients of the mean cross-entropy to the bias, for outputs of images of one label."""
    return foreseen(outputs) - (np.arange(outputs.shape[2]) == label)


def assert_slopes(outputs: Any, label: int, found: Any) -> None:
    """found: gradients of the bias, which may be of a sum, too: Adam is blind to a factor."""
    plain = slopes(outputs, label)
    factor = float((found * plain).sum() / (plain**2).sum())
    off = float(np.abs(found - factor * plain).max())
    assert off <= 1e-3 * factor, f"gradients are off by {off:.2g} from those of the cross-entropy, times {factor:.3g}"


def _labels_met(outputs: Any, found: Any) -> Any:
    """How often each step met each label, worked out of gradients of the bias; of a sum, not of a mean: no step."""
    met = (foreseen(outputs) - found) * outputs.shape[1]
    return np.round(met) if np.abs(met - np.round(met)).max() <= 0.01 else met[:0]


def assert_drawn_anew(outputs: Any, labels: Any, found: Any, epochs: int) -> None:
    """No epoch meets the images of another one, in their order or in another."""
    met = _labels_met(outputs, found)
    drawn = len(met) // epochs * outputs.shape[1] if len(met) else 0
    # Two draws of so many images hold each of nine labels as often once in a million million times.
    if len(set(labels)) < 9 or drawn < 400 or drawn % len(labels) == 0:
        return
    sums = met.reshape(epochs, -1, met.shape[1]).sum(axis=1)
    again = len(sums) - len(np.unique(sums, axis=0))
    assert not again, f"{again} of {epochs} epochs met the same images as another one"


def assert_labels(outputs: Any, labels: Any, found: Any) -> None:
    """All of the file is drawn alike: each label as often as it is there. found: gradients of the bias."""
    met = _labels_met(outputs, found) / outputs.shape[1]
    if not len(met):
        return
    share = np.bincount(labels, minlength=met.shape[1]) / len(labels)
    apart = np.abs(met.mean(axis=0) - share) - 6 * np.sqrt(share * (1 - share) / outputs[..., 0].size)
    worst = int(apart.argmax())
    told = f"{met[:, worst].mean():.1%} of the images trained on, and {share[worst]:.1%} of the file"
    assert apart[worst] < 1e-3, f"{told} have the label {worst}"


def adam(slopes: Any, step_rates: Any) -> Any:
    """What Adam with its defaults adds at each step, for gradients (steps x numbers)."""
    first, second, found = np.zeros(slopes.shape[1]), np.zeros(slopes.shape[1]), []
    for count, (slope, rate) in enumerate(zip(slopes, step_rates, strict=True), 1):
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        found.append(-rate * first / (1 - 0.9**count) / (np.sqrt(second / (1 - 0.999**count)) + 1e-8))
    return np.array(found)


def assert_steps(outputs: Any, label: int, biases: Any, validation: list[float]) -> None:
    """biases: before each step, and after the last one. validation: the loss after each epoch."""
    by_step = np.repeat(rates(validation), len(outputs) // len(validation))
    apart = np.abs(np.diff(biases, axis=0) - adam(slopes(outputs, label), by_step)).max(axis=1) / by_step
    # Float32 rounds a bias of 0.1 to 1e-8, a thousandth of a step at the rate 1e-5.
    worst = int(apart.argmax())
    assert apart[worst] <= 0.03, (
        f"step {worst + 1} of {len(apart)} is off by {apart[worst]:.2g} of the learning rate {by_step[worst]:.2g}"
    )


def assert_every_step(gradients: Any, params: Any, validation: list[float]) -> None:
    """params: all that is trained, before each step and after the last one: each moves as its gradients say."""
    by_step = np.repeat(rates(validation), len(gradients) // len(validation))[:, None]
    off = np.abs(np.diff(params, axis=0) - adam(gradients, by_step))
    # Float32 rounds the sum to 6e-8 of it: a half of what is allowed, and an amsgrad is 3 times as far off.
    excess = (off / (2e-4 * by_step + 1.2e-7 * np.maximum(np.abs(params[1:]), 0.02))).max(axis=1)
    worst = int(excess.argmax())
    assert excess[worst] <= 1, f"step {worst + 1} is not Adam's, {excess[worst]:.2g} times as far off as allowed"


def means(out: Any, label: int, epochs: int) -> tuple[list[float], list[float]]:
    """Loss and accuracy in per cent of each epoch, for images of one label."""
    parts = [it.astype(np.float64) for it in np.array_split(out, epochs)]
    labels = [np.full(len(part), label) for part in parts]
    told = [float(losses(part, one).mean()) for part, one in zip(parts, labels, strict=True)]
    return told, [100 * float((part.argmax(axis=1) == label).mean()) for part in parts]
