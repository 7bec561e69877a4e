"""Judges the repaired validation by its transform, and by what the trained network is worth on the judge's own scale.

The driver shares a process with train.py: what it returns is a claim. Weights are measured in `small_net.py`, numpy in
this process, after the transforms of the starter's own `transforms.py`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from measured import assert_as_before, assert_of_the_best, hidden_arrays, measured, right_picture, weights_of
from small_net import CLASSES, logits, shapes

from bench.judge import array, check, json_number, mapping, number, once, run_command, sequence, string

EPOCHS, BATCHES, BATCH = 2, 60, 32
DEFAULTS = {"epochs": "2", "batches": "60", "data": "data/digits.npz", "out": "."}
ENOUGH = 60.0  # per cent; the original asked for 30 of a larger network after two epochs on MNIST
HISTORY = ("epoch", "train_loss", "train_acc", "val_loss", "val_acc", "epoch_time")


def _pictures(ws: Any, digits: Any) -> list[Any]:
    """Digits, some mirrored (with equal sums), noise, and dark and flat pictures, whose own numbers are of no use."""
    noise = ws.numpy_rng("noise").integers(0, 256, (4, 28, 28)).astype(np.uint8)
    flat = [np.full((28, 28), level, np.uint8) for level in (0, 90, 255)]
    return [*digits[:6], *digits[:3, :, ::-1].copy(), *noise, *(noise // 8 + 200), *(noise // 128), *flat]


def _assert_transformed(ws: Any, which: str, pictures: list[Any]) -> None:
    seeds = [ws.seed_for(f"{which} {n}") for n in range(len(pictures))]
    found = sequence(ws.drive("driver.py:transformed", which, pictures, seeds), length=len(pictures))
    for picture, seed, answer in zip(pictures, seeds, found, strict=True):
        result, kind, after = sequence(answer, length=3)
        assert kind == "float32", f"the {which} transform gives {kind}"
        apart = float(np.abs(array(result, shape=(3, 32, 32)) - right_picture(ws, which, picture, seed)).max())
        assert apart < 1e-4, f"the {which} transform of a picture is off by up to {apart:.4g}"
        same = np.array_equal(array(after, shape=picture.shape), picture)
        assert same, f"the {which} transform has changed the picture that it was given"


@check(weight=4, required=True)
def validation_is_normalised(ws: Any) -> None:
    """The validation transform is the resize and the normalisation of training, for digits, noise and flat pictures."""
    pictures = _pictures(ws, hidden_arrays(ws, "digits.npz")["val_images"])
    _assert_transformed(ws, "val", pictures)
    _assert_transformed(ws, "val", pictures[::-1] * 2)


@check(guard=True)
def training_transform_is_kept(ws: Any) -> None:
    """With the same generator the training transform gives what the starter's gives."""
    _assert_transformed(ws, "train", _pictures(ws, hidden_arrays(ws, "digits.npz")["train_images"]) * 2)


@check(guard=True)
def network_is_kept(ws: Any) -> None:
    """build_model() has SmallNet's names and shapes and, with the same weights, its output."""
    rng = ws.numpy_rng("network")
    state = {}
    for name, shape in shapes().items():
        spread = (
            rng.normal(0, max(1, np.prod(shape[1:])) ** -0.5, shape) if len(shape) > 1 else rng.uniform(0.5, 1.5, shape)
        )
        state[name] = np.array(3) if not shape else spread.astype(np.float32)
    pictures = rng.normal(size=(5, 3, 32, 32)).astype(np.float32)
    found = mapping(ws.drive("driver.py:built", state, pictures), keys=("names", "out"))
    assert sorted(map(str, sequence(found["names"]))) == sorted(shapes()), "build_model() has other parameters"
    apart = float(np.abs(array(found["out"], shape=(5, CLASSES)) - logits(state, pictures)).max())
    assert apart < 1e-3, f"build_model(): with the same weights the output differs from SmallNet's by {apart:.4g}"


@once
def _trained(
    ws: Any, file: str = "digits.npz", epochs: int = EPOCHS, batches: int = BATCHES, positional: bool = False
) -> tuple[list[dict[str, float]], dict[str, Any]]:
    """History and weights of a training on the judge's file, whose claims about validation are true."""
    probe = ws.numpy_rng("probe").normal(size=(4, 3, 32, 32)).astype(np.float32)
    earlier = ws.hidden("falling.npz" if file == "single.npz" else "single.npz")
    answer = ws.drive("driver.py:trained", epochs, batches, [earlier, ws.hidden(file)], positional, probe)
    found = mapping(answer, keys=("metrics", "seconds", "saved", "state", "out", "trainable"))
    assert found["trainable"] is True, "the returned network has parameters that cannot be trained any more"
    try:
        metrics = mapping(json.loads(string(found["metrics"])), keys=("metrics_history", "best_val_acc"))
    except (ValueError, RecursionError) as problem:
        raise AssertionError(f"train_metrics.json cannot be read: {problem}") from None
    entries = [mapping(entry, keys=HISTORY) for entry in sequence(metrics["metrics_history"], length=epochs)]
    history = [{key: number(entry[key]) for key in HISTORY} for entry in entries]
    numbers = [entry["epoch"] for entry in history]
    assert numbers == list(range(1, epochs + 1)), f"the history has the epochs {numbers}"
    times, whole = [entry["epoch_time"] for entry in history], number(found["seconds"])
    assert min(times) > 0 and sum(times) < 1.1 * whole + 0.1, f"epochs of {times} seconds in {whole:.2f} s of training"
    weights, saved = weights_of(found["state"], "the returned network"), weights_of(found["saved"], "the saved weights")
    steps = int(weights["features.1.num_batches_tracked"])
    assert steps == epochs * batches, f"the network has seen {steps} training batches, expected {epochs * batches}"
    apart = float(np.abs(array(found["out"], shape=(4, CLASSES)) - logits(weights, probe)).max())
    assert apart < 1e-2, f"the returned network is not what its weights say: off by {apart:.4g}"
    digits = hidden_arrays(ws, file)
    loss, accuracy = measured(ws, weights, digits["val_images"], digits["val_labels"])
    last, image = history[-1], 101 / len(digits["val_labels"])
    counts = (("train_acc", batches * BATCH), ("val_acc", len(digits["val_labels"])))
    for name, told, count in ((name, entry[name], count) for entry in history for name, count in counts):
        right = told * count / 100
        assert abs(right - round(right)) < 2e-3, f"{name} is {told} %, {right:.4f} of {count} pictures"
    assert abs(last["val_loss"] - loss) <= 0.002 * loss + 1e-4, (
        f"val_loss is {last['val_loss']:.4f}, true is {loss:.4f}"
    )
    assert abs(last["val_acc"] - accuracy) <= image, f"val_acc is {last['val_acc']:.2f}, true is {accuracy:.2f} %"
    kept_loss, kept = measured(ws, saved, digits["val_images"], digits["val_labels"])
    best = number(metrics["best_val_acc"])
    assert best == max(entry["val_acc"] for entry in history), f"best_val_acc is {best:.2f}, not that of the best epoch"
    assert abs(kept - best) <= image, f"the saved weights give {kept:.2f} %, best_val_acc is {best:.2f}"
    assert_of_the_best(saved, history, batches)
    told = next(entry["val_loss"] for entry in history if entry["val_acc"] == best)
    assert abs(kept_loss - told) <= 0.002 * told + 1e-4, (
        f"the saved weights have the loss {kept_loss:.4f}, the best epoch {told:.4f}"
    )
    return history, weights


@check(weight=3, required=True)
def reported_metrics_are_true(ws: Any) -> None:
    """Losses and accuracies of validation are those that the judge measures with the returned and the saved weights."""
    _trained(ws)


@check(weight=3, required=True)
def validation_improves(ws: Any) -> None:
    """Two epochs bring validation above 60 %, also on pictures in no file; a class only in validation stays unknown."""
    history, weights = _trained(ws)
    probe = hidden_arrays(ws, "probe.npz")
    known = probe["labels"] != probe["withheld"]
    _, accuracy = measured(ws, weights, probe["images"][known], probe["labels"][known])
    ws.metric("val_accuracy", accuracy, "%")
    assert accuracy >= ENOUGH, f"on fresh pictures {accuracy:.1f} % are right"
    assert history[-1]["val_acc"] >= ENOUGH * 0.9, f"validation ends at {history[-1]['val_acc']:.1f} %"
    knows = float(measured(ws, weights, probe["images"][~known], probe["labels"][~known])[1])
    assert knows < 5, f"{knows:.0f} % of a class that only validation pictures have are recognised"


@check(weight=2, required=True)
def best_and_last_are_told_apart(ws: Any) -> None:
    """Where validation gets worse, is torn, stays at none or all, or is long: the best epoch's weights are saved."""
    _trained(ws, "falling.npz", 4, 10, positional=True)
    _trained(ws, "torn.npz", 2, 10)
    _trained(ws, "single.npz", 8, 2)
    _trained(ws, "sure.npz", 4, 10)
    _trained(ws, "many.npz", 1, 6)


@check(weight=2, required=True)
def training_leads_where_it_did(ws: Any) -> None:
    """Losses and accuracies of training, and the last epoch's weights, are those of the starter's, bar rounding."""
    assert_as_before(ws, _trained(ws, "falling.npz", 4, 10, positional=True), "falling.npz", 4, 10)


@check(weight=1, required=True)
def script_runs(ws: Any) -> None:
    """The script that shows the fault ends well: epochs have 60 steps, and its weights are worth what it says."""
    told = {string(name): string(value) for name, value in mapping(ws.drive("driver.py:defaults")).items()}
    assert told == DEFAULTS, f"run_training() takes {told} where nothing is given"
    file, written = ws.original("data/digits.npz"), ["train_metrics.json", "best_model.safetensors"]
    ran = run_command(ws, "python run_training.py", outputs=written, inputs={"data/digits.npz": file.read_bytes()})
    with np.load(file, allow_pickle=False) as arrays:
        images, labels = arrays["val_images"], arrays["val_labels"]
    weights = weights_of(ran.safetensors("best_model.safetensors", max_mb=5), "the weights that the script saves")
    assert_of_the_best(weights, ran.json("train_metrics.json")["metrics_history"], BATCHES)
    best, accuracy = json_number(ran, "train_metrics.json", "best_val_acc"), measured(ws, weights, images, labels)[1]
    assert abs(best - accuracy) <= 101 / len(labels), (
        f"best_val_acc is {best:.2f}, the saved weights give {accuracy:.2f} %"
    )
