"""Compares what a training has returned and written with its arguments, and with what its weights are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from changes import assert_turned
from colour_net import CLASSES
from descent import assert_drawn_anew, assert_every_step, assert_labels, assert_slopes, assert_steps, means
from metrics import BATCH, History, assert_kept, assert_plausible, assert_told, assert_weights, history_of
from worth import MEAN, SIDE, STD, prepared, validated

from bench.judge import array, integer, mapping, number, sequence, string

SEEN = ("metrics", "saved", "state", "passes", "entries", "logits", "params", "slopes", "validated", "files", "seconds")


def staged(digits: dict[str, Any]) -> Any:
    return lambda values: [digits, values["data"], values["out"]]


def left(states: list[Any] | None = None) -> Any:
    """states: takes the returned networks."""

    def right(values: dict[str, Any], extra: Any, value: Any) -> None:
        digits, validated_on = extra[0], validated(extra[0])
        found = mapping(value, keys=SEEN)
        epochs, batches = values["epochs"], values["batches"]
        history = history_of(found["metrics"], epochs)
        assert_plausible(history, batches)
        spent = sum(entry["epoch_time"] for entry in history)
        assert spent <= number(found["seconds"]), f"the epochs took {spent:.4g} seconds, more than all of the training"
        assert_weights(history, found["state"], found["saved"], validated_on)
        state = mapping(found["state"])
        if states is not None:
            states.append(np.concatenate([array(it).ravel() for it in state.values()]))
        _assert_passes(found, epochs, batches, len(validated_on[1]))
        met = array(found["entries"], shape=(epochs * batches * BATCH, SIDE, SIDE))
        _assert_varied(met, prepared(digits["train_images"])[:, 0])
        params = array(found["params"])
        assert len(params) == epochs * batches + 1, "the network changed while it was trained"
        assert_kept(history, params, found["state"], found["saved"])
        if (digits["train_images"] == digits["train_images"][0]).all():
            assert_turned(met * STD + MEAN)
        if found["slopes"] is not None:
            out = array(found["logits"], shape=(epochs * batches * BATCH, CLASSES)).reshape(-1, BATCH, CLASSES)
            slopes = array(found["slopes"], shape=params[1:].shape)
            assert_labels(out, digits["train_labels"], slopes[:, -CLASSES:])  # the bias comes last
            assert_drawn_anew(out, digits["train_labels"], slopes[:, -CLASSES:], epochs)
        _assert_only_into(values, [string(it) for it in sequence(found["files"])])
        labels = {int(digits[f"{split}_labels"][0]) for split in ("train", "val")}
        if len(set(digits["train_labels"])) == 1 == len(set(digits["val_labels"])) and len(labels) == 2:
            _assert_one_label(history, found, digits)

    return right


def _assert_passes(found: dict[str, Any], epochs: int, batches: int, images: int) -> None:
    """Batches of 32 are trained on, and every image is validated."""
    passes = [[integer(n) for n in sequence(it, length=2)] for it in sequence(found["passes"])]
    met = {int(array(it)) for name, it in mapping(found["state"]).items() if name.endswith("num_batches_tracked")}
    assert met == {epochs * batches}, f"batch norm has met {sorted(met)} batches in {epochs} times {batches}"
    trained = [count for count, training in passes if training]
    assert trained == [BATCH] * (epochs * batches), f"{len(trained)} training batches of {sorted(set(trained))}"
    looked = sum(count for count, training in passes if not training)
    assert looked >= epochs * images, f"{looked} images were validated in {epochs} epochs"


def _assert_varied(met: Any, seen: Any) -> None:
    """What the network was trained on is changed at random, each time anew."""
    sample = met[:: max(1, len(met) * len(seen) // 40_000)]
    # By chance one in a million is not changed: hardly turned, cut out whole and as bright as before.
    plain = sum(bool((np.abs(seen - image).max(axis=(1, 2)) < 1e-3).any()) for image in sample)
    assert plain <= 1, f"{plain} of {len(sample)} training images were not changed at random"
    apart = len({image.tobytes() for image in met})
    assert apart >= 0.9 * len(met), f"{len(met)} training images, of which {apart} differ: they were not changed anew"


def _assert_only_into(values: dict[str, Any], files: list[str]) -> None:
    inside = "" if values["out"] == "." else values["out"] + "/"
    beside = [name for name in files if name != values["data"] and not name.startswith(inside)]
    assert not beside, f"files that are not in out={values['out']!r}: {beside[:3]}"


def _assert_one_label(history: History, found: dict[str, Any], digits: dict[str, Any]) -> None:
    """Where all images have one label, losses, accuracies and the steps follow from what the network gave."""
    train, val = (int(digits[f"{split}_labels"][0]) for split in ("train", "val"))
    epochs, images = len(history), len(digits["val_labels"])
    out, looked, params = (array(found[name]) for name in ("logits", "validated", "params"))
    assert out.shape[1:] == looked.shape[1:] == (CLASSES,), "outputs are not of ten classes"
    parts = {"train": (out, train)}
    if len(looked) == epochs * images:  # a program may validate more often than it must
        parts["val"] = looked, val
    for split, (given, label) in parts.items():
        for entry, loss, accuracy in zip(history, *means(given, label, epochs), strict=True):
            assert_told(f"{split}_loss", entry[f"{split}_loss"], loss, 0.001 * loss + 1e-4)
            assert_told(f"{split}_acc", entry[f"{split}_acc"], accuracy, 0.01)
    validation = [entry["val_loss"] for entry in history]
    assert_steps(out.reshape(-1, BATCH, CLASSES), train, params[:, -CLASSES:], validation)  # the bias comes last
    if found["slopes"] is not None:
        slopes = array(found["slopes"], shape=params[1:].shape)
        assert_slopes(out.reshape(-1, BATCH, CLASSES), train, slopes[:, -CLASSES:])
        assert_every_step(slopes, params, validation)
