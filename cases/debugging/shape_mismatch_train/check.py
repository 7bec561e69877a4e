"""Judges the repaired training by what its transforms, its network and a training on other digits give.

The driver runs in one process with train.py: arrays go in, arrays come out, and what they are worth is worked out here.
Names, shapes and outputs of ColourNet come from `colour_net.py`, numpy in this process. How many steps a training took
cannot be known from here: what its weights know of images that it never met is what counts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from changes import assert_range, assert_turned, bar, centre, ink, transformed
from colour_net import CLASSES, logits, shapes
from left import left, staged
from metrics import assert_best, history_of
from worth import MEAN, SIDE, STD, digits_of, measured, prepared, unseen, validated, weights_of

from bench.judge import Probe, array, check, mapping, run_command

CHANCE, ENOUGH = math.log(CLASSES), 1.8
TRAINING = Probe(
    'run_training(epochs=2, batches=5, data="data/digits.npz", out=".")',
    target="train:run_training",
    observe="driver.py:left",
    prepare="staged",
    promised={"repeats": "it trains `epochs` times `batches` batches of 32 on the file `data`"},
)


def _trained(ws: Any, epochs: int, batches: int) -> dict[str, Any]:
    """What a training on the judge's file gives: metrics file, saved weights, weights of the returned network."""
    found = ws.drive("driver.py:trained", epochs, batches, ws.hidden("digits.npz"))
    return mapping(found, keys=("metrics", "saved", "state"))


def _images(ws: Any, digits: int) -> list[Any]:
    """Digits of the judge's, and noise."""
    noise = ws.numpy_rng("noise").integers(0, 256, size=(4, 28, 28)).astype(np.uint8)
    return [*validated(digits_of(ws))[0][:digits], *noise]


@check(weight=2, required=True)
def two_epochs_complete(ws: Any) -> None:
    """Two short epochs on other data end without error and leave the metrics and the weights in the stated form."""
    answer = _trained(ws, 2, 5)
    assert_best(history_of(answer["metrics"], 2), answer["saved"], validated(digits_of(ws)))
    ran = run_command(ws, "python run_training.py", outputs=["train_metrics.json", "best_model.safetensors"])
    history_of(ran.text("train_metrics.json"), 2)
    weights_of(ran.safetensors("best_model.safetensors"), "best_model.safetensors")


def _few(ws: Any) -> dict[str, Any]:
    """Fewer images than a training meets, and as many validated as make no whole batch."""
    return {name: values[: 50 if name.startswith("train") else 41] for name, values in digits_of(ws).items()}


def _one_label(ws: Any) -> dict[str, Any]:
    """A bar to learn as one class, another to validate: soon no image is right, and the validation loss rises."""
    learned, other = ws.rng.sample(range(CLASSES), 2)
    labels = {"train_labels": np.full(50, learned, np.uint8), "val_labels": np.full(41, other, np.uint8)}
    return {**_few(ws), "train_images": np.stack([bar()] * 50), **labels}


def _torn(ws: Any) -> dict[str, Any]:
    """Every other image is validated as what no training image is called: loss and accuracy rise together."""
    images, labels = unseen(ws)
    # About 540 to validate: more than some number of batches that may seem enough.
    digits = {**digits_of(ws), "val_images": np.tile(images, (2, 1, 1)), "val_labels": np.tile(labels, 2)}
    withheld = ws.rng.randrange(CLASSES)
    kept = {split: digits[f"{split}_labels"] != withheld for split in ("train", "val")}
    digits = {name: values[kept[name.partition("_")[0]]] for name, values in digits.items()}
    digits["val_labels"][::2] = withheld
    # What leaves out a part of the file leaves out labels.
    order = np.argsort(digits["train_labels"])
    return digits | {name: digits[name][order] for name in ("train_images", "train_labels")}


@check(weight=2, required=True)
def training_keeps_its_arguments(ws: Any) -> None:
    """Arguments of run_training by name, by position and left out: epochs, batches of 32, file, folder, weights."""
    given = {"epochs": 4, "batches": 3, "data": "other/numbers.npz", "out": "results"}
    few, none = _few(ws), _one_label(ws)
    states: list[Any] = []
    # Another file stands at the same path then, and an epoch that is right about no image is saved all the same.
    other = {"epochs": 1, "batches": 20, "out": "results"}
    TRAINING.repeats(ws, {"batches": 4}, other, lambda it: staged(few if it["out"] == "." else none)(it), left(states))
    apart = float(np.abs(states[2] - states[0]).max())
    assert apart < 1e-4, f"the same training twice gives weights that are apart by up to {apart:.2g}"
    TRAINING.signature(ws, given, staged(few), left())


@check(weight=1, required=True)
def steps_are_kept(ws: Any) -> None:
    """Each step is Adam's, at a rate of 0.001 that falls when the validation loss has not for more than 3 epochs."""
    # With two batches an epoch the loss fell until the end for one pair of labels in six, so that the rate never did.
    TRAINING.compare(ws, "repeats", {"epochs": 13, "batches": 5}, staged(_one_label(ws)), left())


@check(weight=3, required=True)
def transforms_give_three_equal_channels(ws: Any) -> None:
    """Both transforms turn a grey 28 x 28 image into three equal float32 channels of 32 x 32, for any image."""
    for which in ("train", "val"):
        ready = transformed(ws, which, _images(ws, 8))
        assert all(image.std() > 0.05 for image in ready), f"the {which} transform gives images without content"


@check(weight=2, required=True)
def normalisation_is_kept(ws: Any) -> None:
    """Validation equals resize and the stated normalisation; training keeps range, constants and random changes."""
    images = _images(ws, 4)
    apart = float(np.abs(np.stack(transformed(ws, "val", images)) - prepared(np.stack(images))).max())
    # Float32 is off by 2e-6; half as many digits, or whole shades of grey, are not.
    assert apart < 1e-4, f"the validation transform is off by up to {apart:.4g} from resize and normalisation"
    black = np.stack(ink(ws, np.zeros((28, 28), np.uint8), 4))
    assert np.abs(black).max() < 1e-3, f"black becomes {float(black.max()):.4g} before normalisation"
    # Brightness moves an image by up to a fifth and is cut at one.
    for shade, brightest in ((255, 1.0), (100, 1.2 * 100 / 255)):
        middle = [float(image[SIDE // 2, SIDE // 2]) for image in ink(ws, np.full((28, 28), shade, np.uint8))]
        low, high = 0.8 * shade / 255, (0.975 * brightest, brightest + 1e-3)
        assert_range(f"a grey of {shade / 255:.3f} becomes", middle, (low - 1e-3, 1.04 * low), high)


@check(weight=1, required=True)
def changes_are_kept(ws: Any) -> None:
    """Training images are turned by up to 15 degrees, then cut out at another place, each time anew."""
    dot = np.zeros((28, 28), np.uint8)
    dot[12:16, 12:16] = 255
    assert_turned(ink(ws, bar()))
    moved = np.std([centre(image) for image in ink(ws, dot, 60)], axis=0)
    assert moved.min() > 0.25 and moved.max() < 3, f"what is at the centre moves by {moved} pixels, expected about one"
    # A cut after the turn leaves the dark corners unequal; a turn after the cut leaves all four alike.
    uneven = max(
        float(np.abs(image - np.rot90(image)).max()) for image in ink(ws, np.full((28, 28), 255, np.uint8), 40)
    )
    assert uneven > 0.2, "the cut comes before the turn"
    stripes = np.zeros((28, 28), np.uint8)
    stripes[np.arange(28) % 6 < 3] = 254
    drawn = transformed(ws, "train", [stripes // 2, stripes] * 12, alike=2)
    for dark, bright in zip(drawn[::2], drawn[1::2], strict=True):
        # What is cut at one is cut last: a turn, a cut or a resize afterwards would make other values of it.
        apart = float(np.abs(np.minimum(2 * (dark * STD + MEAN), 1) - (bright * STD + MEAN)).max())
        assert apart < 0.01, f"an image twice as bright comes out otherwise by {apart:.3f}: brightness is not last"


@check(weight=2, required=True)
def architecture_is_unchanged(ws: Any) -> None:
    """The returned network and build_model() have ColourNet's names, shapes and, with the same weights, its output."""
    draw = ws.numpy_rng("state")
    state = {name: _drawn(draw, name, shape) for name, shape in shapes().items()}
    images = draw.normal(size=(5, 3, SIDE, SIDE)).astype(np.float32)
    reference = logits(state, images)
    for what, answer in (
        ("the returned network", ws.drive("driver.py:rewired", ws.hidden("digits.npz"), state, images)),
        ("build_model()", ws.drive("driver.py:built", state, images)),
    ):
        found = mapping(answer, keys=("state", "out"))
        weights_of(found["state"], what)
        apart = float(np.abs(array(found["out"], shape=(5, CLASSES)) - reference).max() / reference.std())
        assert apart < 1e-3, f"{what}: with the same weights the output differs from ColourNet's by {apart:.4g}"


def _drawn(draw: np.random.Generator, name: str, shape: tuple[int, ...]) -> Any:
    """Random values that keep the network's numbers of one size."""
    if name.endswith("num_batches_tracked"):
        return np.array(1)
    if len(shape) == 1:  # batch norm and bias: positive, so that they serve as variances too
        return draw.uniform(0.5, 1.5, size=shape).astype(np.float32)
    return draw.normal(0, (2 / np.prod(shape[1:])) ** 0.5, size=shape).astype(np.float32)


@check(weight=3, required=True)
def network_learns(ws: Any) -> float:
    """160 steps on other digits bring the loss on images nobody has seen from ln 10 down to 1.8 or less."""
    answer = _trained(ws, 4, 40)
    history = history_of(answer["metrics"], 4)
    digits = validated(digits_of(ws))
    assert_best(history, answer["saved"], digits)
    weights = weights_of(answer["state"], "the trained network")
    loss, accuracy = measured(weights, unseen(ws))
    ws.metric("val_loss", loss)
    ws.metric("val_accuracy", accuracy, "%")
    ws.claim("val_loss", history[-1]["val_loss"], measured(weights, digits)[0], 0.02, higher_is_better=False)
    return float(ws.scale(loss, floor=CHANCE, target=ENOUGH))


@check(weight=1, required=True)
def reported_metrics_are_true(ws: Any) -> None:
    """Losses and accuracies in the metrics file are those of the network, also where half of the labels are right."""
    TRAINING.compare(ws, "repeats", {"epochs": 2, "batches": 22}, staged(_torn(ws)), left())
