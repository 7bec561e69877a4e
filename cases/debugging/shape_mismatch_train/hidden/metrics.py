"""The metrics file of a training: its form, and what its entries must be whatever the network."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from worth import measured, weights_of

from bench.judge import mapping, number, sequence, string

BATCH = 32
ENTRY = ("epoch", "train_loss", "train_acc", "val_loss", "val_acc", "epoch_time")
History = list[dict[str, float]]


def history_of(text: Any, epochs: int) -> History:
    """The entries of the metrics file, checked for form."""
    try:
        content = json.loads(string(text))
    except (ValueError, RecursionError) as problem:
        raise AssertionError(f"train_metrics.json cannot be read: {problem}") from None
    metrics = mapping(content, keys=("metrics_history", "best_val_acc"))
    entries = [mapping(entry, keys=ENTRY) for entry in sequence(metrics["metrics_history"], length=epochs)]
    history = [{key: number(entry[key]) for key in ENTRY} for entry in entries]
    best, highest = number(metrics["best_val_acc"], low=0, high=100), max(entry["val_acc"] for entry in history)
    assert abs(best - highest) < 0.01, f"best_val_acc is {best:.2f}, the best epoch has {highest:.2f}"
    numbered = [entry["epoch"] for entry in history]
    assert numbered == list(range(1, epochs + 1)), f"the metrics file lists the epochs {numbered}"
    return history


def assert_plausible(history: History, batches: int) -> None:
    for entry in history:
        assert 0 < entry["epoch_time"] < 600, f"epoch_time is {entry['epoch_time']:.4g} seconds"
        assert entry["train_loss"] != entry["val_loss"], "train_loss is the validation loss"
        right = entry["train_acc"] * batches * BATCH / 100
        whole = 0 <= right <= batches * BATCH and abs(right - round(right)) < 0.01
        assert whole, f"train_acc is {entry['train_acc']:.4f} %, no whole number of {batches * BATCH} images"


def assert_told(what: str, told: float, true: float, slack: float) -> None:
    assert abs(told - true) <= slack, f"reported {what} {told:.5f}, measured {true:.5f}"


def assert_weights(history: History, state: Any, saved: Any, validated_on: tuple[Any, Any]) -> None:
    """The returned network is that of the last epoch, whose metrics are true; the saved one is that of the best."""
    loss, accuracy = measured(weights_of(state, "the returned network"), validated_on)
    assert_told("validation loss", history[-1]["val_loss"], loss, 0.001 * loss + 1e-4)
    assert_told("validation accuracy", history[-1]["val_acc"], accuracy, _image(validated_on))
    last, best = mapping(state), mapping(saved)
    # What is worked out of equal weights is the same.
    if last.keys() != best.keys() or any(not np.array_equal(last[name], best[name]) for name in last):
        assert_best(history, saved, validated_on)
    else:
        highest = max(entry["val_acc"] for entry in history)
        assert abs(accuracy - highest) <= _image(validated_on), (
            f"the last epoch was saved, the best has {highest:.2f} %"
        )


def assert_kept(history: History, params: Any, state: Any, saved: Any) -> None:
    """What was saved is, number by number, what was trained at the end of an epoch of the highest accuracy.

    params: all that is trained, before each step and after the last one.
    """
    kept, last = (weights_of(it, what) for it, what in ((saved, "best_model.safetensors"), (state, "what came back")))
    told = [entry["val_acc"] for entry in history]
    best = [epoch for epoch, accuracy in enumerate(told, 1) if accuracy == max(told)]
    if best == [len(told)]:
        off = max(float(np.abs(kept[name] - last[name]).max()) for name in last)
    else:
        trained = np.concatenate([kept[it].ravel() for it in kept if "running" not in it and "tracked" not in it])
        ends = params[:: (len(params) - 1) // len(told)]
        off = min(float(np.abs(trained - ends[epoch]).max()) for epoch in best)
    assert off < 1e-6, f"best_model.safetensors is off by {off:.2g} from the weights of epoch {best}"


def assert_best(history: History, saved: Any, validated_on: tuple[Any, Any]) -> None:
    """The saved weights are those of the best epoch."""
    best = max(entry["val_acc"] for entry in history)
    kept = measured(weights_of(saved, "best_model.safetensors"), validated_on)[1]
    assert abs(kept - best) <= _image(validated_on), f"the saved weights give {kept:.2f} %, the best epoch {best:.2f} %"


def _image(validated_on: tuple[Any, Any]) -> float:
    """A little more than one of the images, in per cent: where two classes are nearly equal either may win."""
    return 101 / len(validated_on[1])
