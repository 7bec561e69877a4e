"""Judges the repaired training by what its transforms, its network and a training on other digits give.

The driver runs in one process with train.py: arrays go in, arrays come out, and what they are worth is worked out here.
Names, shapes and outputs of ColourNet come from `colour_net.py`, numpy in this process. How many steps a training took
cannot be known from here: what its weights know of images that it never met is what counts.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from colour_net import CLASSES, logits, shapes

from bench.judge import Probe, array, check, integer, mapping, number, run_command, sequence, string

SIDE, MEAN, STD = 32, 0.1307, 0.3081
CHANCE, ENOUGH = math.log(CLASSES), 1.8
BATCH, IMAGE = 32, 0.35  # images of a training batch; a little more than one of the validation images, in per cent
TRAINING = Probe(
    'run_training(epochs=2, batches=5, data="data/digits.npz", out=".")',
    target="train:run_training",
    observe="driver.py:left",
    prepare="staged",
    promised={"repeats": "it trains `epochs` times `batches` batches of 32 on the file `data`"},
)
HISTORY = ("epoch", "train_loss", "train_acc", "val_loss", "val_acc", "epoch_time")


def _hidden_digits(ws: Any) -> tuple[Any, Any]:
    """Validation images of the judge's file, and its labels for them, all of which are wrong."""
    with np.load(ws.hidden("digits.npz"), allow_pickle=False) as arrays:
        return arrays["val_images"], arrays["val_labels"]


def _probe(ws: Any) -> tuple[Any, Any]:
    """Images that no training has met, and their true labels."""
    with np.load(ws.hidden("probe.npz"), allow_pickle=False) as arrays:
        return arrays["images"], arrays["labels"]


def _resize_matrix(before: int, after: int) -> Any:
    """Bilinear interpolation along one axis (pixel centres, edges repeated) as a matrix."""
    places = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, before - 1)
    matrix = np.zeros((after, before))
    np.add.at(matrix, (np.arange(after), low), 1 - (places - low))
    np.add.at(matrix, (np.arange(after), high), places - low)
    return matrix


def _prepared(images: Any) -> Any:
    """The validation transform, done by the judge: (n, 3, 32, 32) float32."""
    matrix = _resize_matrix(images.shape[-1], SIDE)
    grey = (matrix @ (images / 255.0) @ matrix.T - MEAN) / STD
    return np.repeat(grey[:, None], 3, axis=1).astype(np.float32)


def _transformed(ws: Any, which: str, images: list[Any], alike: int = 0) -> list[Any]:
    """The images after the agent's transform, each of three equal channels. alike: so many in a row are drawn alike."""
    answer = ws.drive("driver.py:transformed", which, images, ws.seed_for("transforms"), alike)
    found = sequence(answer, length=len(images))
    ready = [array(image, shape=(3, SIDE, SIDE)) for image in found]
    for image in ready:
        apart = float(np.abs(image - image[:1]).max())
        assert apart <= 1e-5, f"the channels of the {which} transform differ by up to {apart:.3g}"
    return ready


def _weights(found: Any, what: str) -> dict[str, Any]:
    """The state of a ColourNet, known to have its names and shapes."""
    arrays, expected = mapping(found), shapes()
    odd = sorted(set(arrays) ^ set(expected))
    assert not odd, f"{what}: names that are missing or not of ColourNet: {odd[:4]}"
    return {name: _sized(arrays[name], shape, f"{what}: {name}") for name, shape in expected.items()}


def _sized(found: Any, shape: tuple[int, ...], what: str) -> Any:
    values = array(found)
    assert values.shape == shape, f"{what} has the shape {values.shape} instead of {shape}"
    return values


def _history(text: Any, epochs: int) -> list[dict[str, float]]:
    """The entries of the metrics file, checked for form."""
    try:
        content = json.loads(string(text))
    except (ValueError, RecursionError) as problem:
        raise AssertionError(f"train_metrics.json cannot be read: {problem}") from None
    metrics = mapping(content, keys=("metrics_history", "best_val_acc"))
    entries = [mapping(entry, keys=HISTORY) for entry in sequence(metrics["metrics_history"], length=epochs)]
    history = [{key: number(entry[key]) for key in HISTORY} for entry in entries]
    best, highest = number(metrics["best_val_acc"], low=0, high=100), max(entry["val_acc"] for entry in history)
    assert abs(best - highest) < 0.01, f"best_val_acc is {best:.2f}, the best epoch has {highest:.2f}"
    return history


@check(weight=2, required=True)
def two_epochs_complete(ws: Any) -> None:
    """Two short epochs on other data end without error and leave the metrics and the weights in the stated form."""
    answer = _trained(ws, 2, 5)
    history = _history(answer["metrics"], 2)
    epochs = [entry["epoch"] for entry in history]
    assert epochs == [1, 2], f"the metrics file lists the epochs {epochs}, expected 1 and 2"
    _assert_best(history, answer["saved"], _hidden_digits(ws), IMAGE)
    ran = run_command(ws, "python run_training.py", outputs=["train_metrics.json", "best_model.safetensors"])
    _history(ran.text("train_metrics.json"), 2)
    _weights(ran.safetensors("best_model.safetensors"), "best_model.safetensors")


@check(weight=2, required=True)
def training_keeps_its_arguments(ws: Any) -> None:
    """Arguments of run_training by name, by position and left out: epochs, batches of 32, file, folder, weights."""
    given = {"epochs": 4, "batches": 3, "data": "other/numbers.npz", "out": "results"}
    # Fewer images than a training meets, and as many validated as make no whole batch.
    few = {name: values[: 50 if name.startswith("train") else 75] for name, values in _file(ws).items()}
    # One class to learn and another to validate: no epoch is right about any image, and one is saved all the same.
    none = {**few, "train_labels": np.full(50, 3, np.uint8), "val_labels": np.full(75, 6, np.uint8)}
    TRAINING.compare(ws, "repeats", {"epochs": 1, "batches": 20}, _staged(none), _left(none))
    counts: list[int] = []
    TRAINING.signature(ws, given, _staged(few), _left(few, counts))
    # By chance all of them are multiples once in billions of times.
    assert any(count % 3 for count in counts), "train_acc is not that of all images of an epoch"
    TRAINING.repeats(ws, {"batches": 4}, {"epochs": 1, "out": "results"}, _staged(few), _left(few))


def _file(ws: Any) -> dict[str, Any]:
    with np.load(ws.hidden("digits.npz"), allow_pickle=False) as arrays:
        return dict(arrays)


def _staged(digits: dict[str, Any]) -> Any:
    return lambda values: [digits, values["data"], values["out"]]


def _left(digits: dict[str, Any], counts: list[int] | None = None) -> Any:
    """Compares what a training has left with its arguments and with what its weights are worth.

    counts: takes the images of each epoch of three batches that were right.
    """
    seen, validated_on = _prepared(digits["train_images"])[:, 0], (digits["val_images"], digits["val_labels"])
    image = 101 / len(digits["val_labels"])

    def right(values: dict[str, Any], extra: Any, value: Any) -> None:
        found = mapping(value, keys=("metrics", "saved", "state", "passes", "entries", "logits", "seconds"))
        epochs, batches = values["epochs"], values["batches"]
        history = _history(found["metrics"], epochs)
        _assert_history(history, batches)
        if counts is not None and batches == 3:
            counts.extend(round(entry["train_acc"] * batches * BATCH / 100) for entry in history)
        spent = sum(entry["epoch_time"] for entry in history)
        assert spent <= number(found["seconds"]), f"the epochs took {spent:.4g} seconds, more than all of the training"
        loss, accuracy = _measured(_weights(found["state"], "the returned network"), validated_on)
        _assert_told(history[-1], loss, accuracy, image)
        _assert_best(history, found["saved"], validated_on, image)
        passes = [[integer(n) for n in sequence(it, length=2)] for it in sequence(found["passes"])]
        met = {int(array(it)) for name, it in mapping(found["state"]).items() if name.endswith("num_batches_tracked")}
        assert met == {epochs * batches}, f"batch norm has met {sorted(met)} batches in {epochs} times {batches}"
        trained = [count for count, training in passes if training]
        assert trained == [BATCH] * (epochs * batches), f"{len(trained)} training batches of {sorted(set(trained))}"
        validated = sum(count for count, training in passes if not training)
        assert validated >= epochs * len(validated_on[1]), f"{validated} images were validated in {epochs} epochs"
        _assert_varied(array(found["entries"], shape=(epochs * batches * BATCH, SIDE, SIDE)), seen)
        if len(set(digits["train_labels"])) == 1:
            _assert_losses(history, array(found["logits"]), int(digits["train_labels"][0]))

    return right


def _assert_varied(met: Any, seen: Any) -> None:
    """What the network was trained on is changed at random, each time anew."""
    sample = met[:: len(met) // BATCH]
    plain = sum(bool((np.abs(seen - image).max(axis=(1, 2)) < 1e-3).any()) for image in sample)
    assert plain <= len(sample) // 4, f"{plain} of {len(sample)} training images were not changed at random"
    apart = len({image.tobytes() for image in met})
    assert apart >= 0.9 * len(met), f"{len(met)} training images, of which {apart} differ: they were not changed anew"


def _assert_losses(history: list[dict[str, float]], logits: Any, label: int) -> None:
    """Where all training images have one label, the training loss follows from what the network gave in training."""
    whole = array(logits, shape=(len(logits), CLASSES)).astype(np.float64)
    gaps = np.log(np.exp(whole - whole.max(axis=1, keepdims=True)).sum(axis=1)) - (whole[:, label] - whole.max(axis=1))
    for entry, part in zip(history, np.array_split(gaps, len(history)), strict=True):
        loss = float(part.mean())
        told = entry["train_loss"]
        assert abs(told - loss) <= 0.001 * loss + 1e-4, f"reported training loss {told:.5f}, measured {loss:.5f}"


def _assert_best(history: list[dict[str, float]], saved: Any, validated_on: tuple[Any, Any], image: float) -> None:
    """The saved weights are those of the best epoch."""
    best = max(entry["val_acc"] for entry in history)
    kept = _measured(_weights(saved, "best_model.safetensors"), validated_on)[1]
    assert abs(kept - best) <= image, f"the saved weights give {kept:.2f} %, the best epoch has {best:.2f} %"


def _assert_history(history: list[dict[str, float]], batches: int) -> None:
    """What every entry must be, whatever the network."""
    epochs = [entry["epoch"] for entry in history]
    assert epochs == list(range(1, len(history) + 1)), f"the metrics file lists the epochs {epochs}"
    for entry in history:
        assert 0 < entry["epoch_time"] < 600, f"epoch_time is {entry['epoch_time']:.4g} seconds"
        assert entry["train_loss"] != entry["val_loss"], "train_loss is the validation loss"
        right = entry["train_acc"] * batches * BATCH / 100
        whole = 0 <= right <= batches * BATCH and abs(right - round(right)) < 0.01
        assert whole, (
            f"train_acc is {entry['train_acc']:.4f} %, which is not a whole number of {batches * BATCH} images"
        )


def _assert_told(last: dict[str, float], loss: float, accuracy: float, image: float) -> None:
    gaps = abs(last["val_loss"] - loss), abs(last["val_acc"] - accuracy)
    assert gaps[0] <= 0.001 * loss + 1e-4, f"reported validation loss {last['val_loss']:.5f}, measured {loss:.5f}"
    assert gaps[1] <= image, f"reported validation accuracy {last['val_acc']:.2f} %, measured {accuracy:.2f} %"


@check(weight=3, required=True)
def transforms_give_three_equal_channels(ws: Any) -> None:
    """Both transforms turn a grey 28 x 28 image into three equal channels of 32 x 32, for any image."""
    digits, _ = _hidden_digits(ws)
    noise = np.random.default_rng(ws.rng.getrandbits(128)).integers(0, 256, size=(4, 28, 28)).astype(np.uint8)
    for which in ("train", "val"):
        ready = _transformed(ws, which, [*digits[:8], *noise])
        assert all(image.std() > 0.05 for image in ready), f"the {which} transform gives images without content"


@check(weight=2, required=True)
def normalisation_is_kept(ws: Any) -> None:
    """Validation equals resize and the stated normalisation; training keeps range, constants and random changes."""
    digits, _ = _hidden_digits(ws)
    noise = np.random.default_rng(ws.rng.getrandbits(128)).integers(0, 256, size=(4, 28, 28)).astype(np.uint8)
    images = np.concatenate([digits[:4], noise])
    apart = float(np.abs(np.stack(_transformed(ws, "val", list(images))) - _prepared(images)).max())
    assert apart < 2e-3, f"the validation transform is off by up to {apart:.4g} from resize and normalisation"
    black, white = np.zeros((28, 28), np.uint8), np.full((28, 28), 255, np.uint8)
    ready = np.stack(_transformed(ws, "train", [black] * 4 + [white] * 40)) * STD + MEAN
    assert np.abs(ready[:4]).max() < 1e-3, f"black becomes {float(ready[:4].max()):.4g} before normalisation"
    centre = ready[4:, 0, SIDE // 2, SIDE // 2]
    low, high = float(centre.min()), float(centre.max())
    # Brightness moves white by up to a fifth and is cut at one; forty draws reach both ends nearly always.
    assert 0.799 < low < 0.95, f"the darkest white is {low:.3f} before normalisation, expected little above 0.8"
    assert 0.99 < high < 1.001, f"the brightest white is {high:.3f} before normalisation, expected 1"
    same = np.stack(_transformed(ws, "train", [digits[0]] * 8))
    assert np.abs(same[1:] - same[:1]).max() > 0.1, "the training transform makes no random changes any more"


@check(weight=1, required=True)
def changes_are_kept(ws: Any) -> None:
    """Training images are turned by up to 15 degrees, then cut out at another place, each time anew."""
    bar, dot = np.zeros((2, 28, 28), np.uint8)
    bar[4:24, 13:15], dot[12:16, 12:16] = 255, 255
    shown = [_ink(ws, image) for image in (bar, dot, np.full((28, 28), 255, np.uint8))]
    turned = max(abs(_angle(image)) for image in shown[0])
    assert 6 < turned < 17, f"a bar is turned by at most {turned:.1f} degrees in 40 images, expected nearly 15"
    moved = float(np.std([_centre(image)[0] for image in shown[1]]))
    assert 0.25 < moved < 3, f"what is at the centre moves by {moved:.2f} pixels, expected about one"
    # A cut after the turn leaves the dark corners unequal; a turn after the cut leaves all four alike.
    uneven = max(float(np.abs(image - np.rot90(image)).max()) for image in shown[2])
    assert uneven > 0.2, "the cut comes before the turn"
    stripes = np.zeros((28, 28), np.uint8)
    stripes[np.arange(28) % 6 < 3] = 254
    drawn = _transformed(ws, "train", [stripes // 2, stripes] * 12, alike=2)
    for dark, bright in zip(drawn[::2], drawn[1::2], strict=True):
        # What is cut at one is cut last: a turn, a cut or a resize afterwards would make other values of it.
        apart = float(np.abs(np.minimum(2 * (dark * STD + MEAN), 1) - (bright * STD + MEAN)).max())
        assert apart < 0.01, (
            f"an image that is twice as bright comes out otherwise by {apart:.3f}: brightness is not last"
        )


def _ink(ws: Any, image: Any) -> list[Any]:
    """Forty draws of the training transform, before normalisation."""
    return [ready[0] * STD + MEAN for ready in _transformed(ws, "train", [image] * 40)]


def _centre(image: Any) -> tuple[float, float]:
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    ink = np.clip(image, 0, None) + 1e-9
    return float((rows * ink).sum() / ink.sum()), float((columns * ink).sum() / ink.sum())


def _angle(image: Any) -> float:
    """Of the longest extent of the ink, in degrees from upright."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    down, right = _centre(image)
    ink, y, x = np.clip(image, 0, None), rows - down, columns - right
    return float(np.degrees(0.5 * np.arctan2(2 * (ink * x * y).sum(), (ink * y * y).sum() - (ink * x * x).sum())))


@check(weight=2, required=True)
def architecture_is_unchanged(ws: Any) -> None:
    """The returned network and build_model() have ColourNet's names, shapes and, with the same weights, its output."""
    draw = np.random.default_rng(ws.rng.getrandbits(128))
    state = {name: _drawn(draw, name, shape) for name, shape in shapes().items()}
    images = draw.normal(size=(5, 3, SIDE, SIDE)).astype(np.float32)
    reference = logits(state, images)
    for what, answer in (
        ("the returned network", ws.drive("driver.py:rewired", ws.hidden("digits.npz"), state, images)),
        ("build_model()", ws.drive("driver.py:built", state, images)),
    ):
        found = mapping(answer, keys=("state", "out"))
        _weights(found["state"], what)
        apart = float(np.abs(array(found["out"], shape=(5, CLASSES)) - reference).max() / reference.std())
        assert apart < 1e-3, f"{what}: with the same weights the output differs from ColourNet's by {apart:.4g}"


def _drawn(draw: np.random.Generator, name: str, shape: tuple[int, ...]) -> Any:
    """Random values that keep the network's numbers of one size."""
    if name.endswith("num_batches_tracked"):
        return np.array(1)
    if len(shape) == 1:  # batch norm and bias: positive, so that they serve as variances too
        return draw.uniform(0.5, 1.5, size=shape).astype(np.float32)
    return draw.normal(0, (2 / np.prod(shape[1:])) ** 0.5, size=shape).astype(np.float32)


def _trained(ws: Any, epochs: int, batches: int) -> dict[str, Any]:
    """What a training on the judge's file gives: metrics file, saved weights, weights of the returned network."""
    found = ws.drive("driver.py:trained", epochs, batches, ws.hidden("digits.npz"))
    return mapping(found, keys=("metrics", "saved", "state"))


def _measured(weights: dict[str, Any], digits: tuple[Any, Any]) -> tuple[float, float]:
    """Loss and accuracy in per cent of these weights in the judge's own network."""
    images, labels = digits
    out = np.clip(np.nan_to_num(logits(weights, _prepared(images))), -1e6, 1e6)
    shifted = out - out.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(labels)), labels]
    loss = float((np.log(np.exp(shifted).sum(axis=1)) - chosen).mean())
    # Where classes are equal no class wins: else weights of zero would be right in a tenth of the cases.
    ordered = np.sort(out, axis=1)
    hits = (out.argmax(axis=1) == labels) & (ordered[:, -1] > ordered[:, -2])
    return loss, 100 * float(hits.mean())


@check(weight=3, required=True)
def network_learns(ws: Any) -> float:
    """160 steps on other digits bring the loss on images nobody has seen from ln 10 down to 1.8 or less."""
    answer = _trained(ws, 4, 40)
    history = _history(answer["metrics"], 4)
    _assert_best(history, answer["saved"], _hidden_digits(ws), IMAGE)
    last = history[-1]
    weights = _weights(answer["state"], "the trained network")
    loss, accuracy = _measured(weights, _probe(ws))
    ws.metric("val_loss", loss)
    ws.metric("val_accuracy", accuracy, "%")
    told, _ = _measured(weights, _hidden_digits(ws))
    ws.claim("val_loss", last["val_loss"], told, 0.02, higher_is_better=False)
    return float(ws.scale(loss, floor=CHANCE, target=ENOUGH))


@check(weight=1, required=True)
def reported_metrics_are_true(ws: Any) -> None:
    """Losses and accuracies in the metrics file are those of the network, also where the labels are right."""
    images, labels = _probe(ws)
    # More than some number of batches that may seem enough.
    many = {"val_images": np.tile(images, (4, 1, 1)), "val_labels": np.tile(labels, 4)}
    digits = {**_file(ws), **many}
    TRAINING.compare(ws, "repeats", {"epochs": 1, "batches": 45}, _staged(digits), _left(digits))
