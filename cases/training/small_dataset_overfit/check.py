"""Runs the training script on other digits and recomputes everything it says from the weights it saved."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bench.casekit.picture_files import read_idx
from bench.judge import array, check, check_claim, integer, mapping, number, once, sequence

SCRIPT, RESULTS, WEIGHTS = "training_script_mnist.py", "training/training_results.json", "training/model.safetensors"
RAW = "data/MNIST/raw"
FILES = [f"{part}-{kind}" for part in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
SPLITS = {"train": "train", "test": "t10k"}
DIGITS, MAX_LAYERS, MAX_NUMBERS = (0, 1, 2), 4, 1_000_000
KEYS = [key.format(split) for split in SPLITS for key in ("{}_accuracy", "unique_{}_labels", "num_{}_samples")]
KEYS += [f"samples_per_class_{split}" for split in SPLITS]


class Kept(NamedTuple):
    """What the script should have kept of one split."""

    images: Any
    labels: Any
    each: int


@once
def _run(ws: Any) -> Any:
    """The finished run of the script on the judge's data."""
    assert ws.exists(SCRIPT), f"{SCRIPT} is missing"
    return ws.run(["python", SCRIPT], timeout=60, inputs=_data(ws), remove=[RESULTS, WEIGHTS]).ok()


def _data(ws: Any) -> dict[str, Any]:
    """The judge's own files in place of those of the task."""
    return {f"{RAW}/{name}": ws.hidden(name) for name in FILES}


@once
def _kept(ws: Any, split: str) -> Kept:
    """Read the judge's own files and keep the first n images of each of the three digits."""
    images = read_idx(ws.hidden(f"{SPLITS[split]}-images-idx3-ubyte").path).reshape(-1, 784)
    labels = read_idx(ws.hidden(f"{SPLITS[split]}-labels-idx1-ubyte").path)
    places = [np.flatnonzero(labels == digit) for digit in DIGITS]
    each = min(len(place) for place in places)
    kept = np.concatenate([place[:each] for place in places])
    return Kept(images[kept], labels[kept], each)


def _other_test_images(ws: Any) -> dict[str, Any]:
    """The judge's files with test images that are half as bright, each beside the label of another one."""
    name = f"{SPLITS['test']}-images-idx3-ubyte"
    content = ws.hidden(name).path.read_bytes()
    images = np.roll(read_idx(ws.hidden(name).path), 1, axis=0) // 2
    return {**_data(ws), f"{RAW}/{name}": content[:16] + images.astype(np.uint8).tobytes()}


def _saved(ws: Any, inputs: dict[str, Any]) -> Any:
    """All numbers that one more run saves, in a row."""
    return _numbers(ws.run(["python", SCRIPT], timeout=60, inputs=inputs, remove=[RESULTS, WEIGHTS]).ok())


def _numbers(ran: Any) -> Any:
    tensors = mapping(ran.safetensors(WEIGHTS))
    return np.concatenate([np.zeros(0), *(array(tensors[name]).ravel() for name in sorted(tensors))])


def _results(ws: Any) -> dict[str, Any]:
    return mapping(_run(ws).json(RESULTS), keys=KEYS)


@once
def _network(ws: Any) -> list[tuple[Any, Any]]:
    """Weight and bias of every layer of the saved perceptron, from the input to the three outputs."""
    tensors = mapping(_run(ws).safetensors(WEIGHTS))
    depth = len(tensors) // 2
    names = {f"layers.{layer}.{part}" for layer in range(depth) for part in ("weight", "bias")}
    assert 1 <= depth <= MAX_LAYERS, (
        f"{WEIGHTS} holds {len(tensors)} tensors; expected a weight and bias for 1 to 4 layers"
    )
    assert set(tensors) == names, f"{WEIGHTS} holds {sorted(tensors)[:10]}, expected {sorted(names)}"
    odd = sorted({str(part.dtype) for part in tensors.values()} - {"float32"})
    assert not odd, f"{WEIGHTS} holds {odd}, expected float32"
    layers, inside, total = [], 784, 0
    for layer in range(depth):
        weight = array(tensors[f"layers.{layer}.weight"], shape=(None, inside))
        inside = len(weight)
        layers.append((weight, array(tensors[f"layers.{layer}.bias"], shape=(inside,))))
        total += weight.size + inside
        assert max(float(np.abs(part).max(initial=0)) for part in layers[-1]) < 1e9, f"layer {layer} has wild numbers"
    assert inside == len(DIGITS), f"the network has {inside} outputs, expected {len(DIGITS)}"
    assert total <= MAX_NUMBERS, f"the network has {total} numbers, allowed are {MAX_NUMBERS}"
    dead = np.ptp(_kept(ws, "train").images, axis=0)[~layers[0][0].any(axis=0)] > 0
    assert not dead.any(), f"{int(dead.sum())} pixels that differ between images are no input of the network"
    return layers


def _accuracy(network: list[tuple[Any, Any]], images: Any, labels: Any) -> float:
    """Of the saved weights."""
    values = images.reshape(len(images), -1) / 255.0
    for place, (weight, bias) in enumerate(network):
        values = values @ weight.T + bias
        if place < len(network) - 1:
            values = np.maximum(values, 0)
    # A constant network has equal outputs: such ties count as wrong, as no digit wins.
    ordered = np.sort(values, axis=1)
    return float(((values.argmax(axis=1) == labels) & (ordered[:, -1] > ordered[:, -2])).mean())


@check(weight=1, required=True)
def script_trains_on_new_data(ws: Any) -> None:
    """On another data set the script ends well within a minute and leaves weights of the agreed form."""
    _network(ws)


@check(weight=0, required=True)
def older_files_are_replaced(ws: Any) -> None:
    """Where both files of an earlier run lie, the script ends well and writes its own."""
    older: dict[str, Any] = {RESULTS: b"{}", WEIGHTS: b"older"}
    ran = ws.run(["python", SCRIPT], timeout=60, inputs=_data(ws) | older).ok()
    mapping(ran.json(RESULTS), keys=KEYS)
    ran.safetensors(WEIGHTS)


@check(weight=1, required=True)
def results_have_the_agreed_form(ws: Any) -> None:
    """The results file has all keys, with fractions, lists of labels and counts of the agreed types."""
    results = _results(ws)
    for split in SPLITS:
        number(results[f"{split}_accuracy"], low=0, high=1)
        integer(results[f"num_{split}_samples"], low=0)
        for label in sequence(results[f"unique_{split}_labels"]):
            integer(label)
        counts = mapping(results[f"samples_per_class_{split}"])
        assert sorted(counts) == ["0", "1", "2"], f"samples_per_class_{split} has the keys {sorted(counts)[:5]}"
        for count in counts.values():
            integer(count, low=0)


@check(weight=2, required=True)
def counts_are_right(ws: Any) -> None:
    """Labels, totals and counts per digit are those of the judge's data, balanced as agreed."""
    results = _results(ws)
    for split in SPLITS:
        each = _kept(ws, split).each
        labels = [integer(label) for label in sequence(results[f"unique_{split}_labels"])]
        assert labels == list(DIGITS), f"unique_{split}_labels is {labels[:10]}, expected {list(DIGITS)}"
        counts = mapping(results[f"samples_per_class_{split}"], keys=("0", "1", "2"))
        found = [integer(counts[str(digit)]) for digit in DIGITS]
        assert found == [each] * 3, f"{split}: counted {found} images of the digits 0, 1, 2, expected {each} of each"
        total = integer(results[f"num_{split}_samples"])
        assert total == 3 * each, f"num_{split}_samples is {total}, expected {3 * each}"


@check(weight=3, required=True)
def train_accuracy_is_reached(ws: Any) -> float:
    """The saved weights recognise at least 0.95 of the balanced training images, recomputed by the judge."""
    kept = _kept(ws, "train")
    measured = _accuracy(_network(ws), kept.images, kept.labels)
    ws.metric("train_accuracy", measured)
    return float(ws.scale(measured, floor=0.5, target=0.95))


@check(weight=1, required=True)
def unseen_digits_are_recognised(ws: Any) -> float:
    """The saved weights recognise at least 0.80 of fresh images of the same kind."""
    with np.load(ws.hidden("probe.npz"), allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    measured = _accuracy(_network(ws), images, labels)
    ws.metric("unseen_accuracy", measured)
    return float(ws.scale(measured, floor=0.5, target=0.80))


@check(weight=1, required=True)
def only_kept_training_images_are_learned(ws: Any) -> None:
    """The network knows no wrong label of the test split or of images that were not kept; only training teaches it."""
    network, truth = _network(ws), dict(np.load(ws.hidden("truth.npz"), allow_pickle=False))
    for split, name in SPLITS.items():
        images = read_idx(ws.hidden(f"{name}-images-idx3-ubyte").path)
        labels = read_idx(ws.hidden(f"{name}-labels-idx1-ubyte").path)
        wrong = truth[split] != labels
        known = _accuracy(network, images[wrong], labels[wrong])
        # Neither true nor given: an honest network errs towards this digit as often.
        third = _accuracy(network, images[wrong], 3 - truth[split][wrong] - labels[wrong])
        assert known <= third + 0.2, (
            f"{known:.0%} of {int(wrong.sum())} unseen wrong labels are known, by chance {third:.0%} ({split})"
        )
        right = ~wrong & np.isin(labels, DIGITS)
        learned = _accuracy(network, images[right], labels[right])
        assert learned >= 0.5, f"only {learned:.0%} of the rightly labelled images are recognised ({split})"


@check(weight=0, required=True)
def test_images_teach_nothing(ws: Any) -> None:
    """With other test images the same weights are saved, by a script that leaves nothing to chance.

    Which does, is seen by runs on the same files: where they save other weights, nothing is known.
    """
    first, other = _numbers(_run(ws)), _saved(ws, _other_test_images(ws))
    if first.shape == other.shape and np.abs(first - other).max(initial=0) < 1e-3:
        return
    if np.array_equal(first, _saved(ws, _data(ws))) and np.array_equal(other, _saved(ws, _other_test_images(ws))):
        how = f"by up to {np.abs(first - other).max():.3g}" if first.shape == other.shape else "in number"
        raise AssertionError(f"weights change {how} with the test images alone, each time by the same")


@check(weight=0, required=True)
def only_this_run_teaches(ws: Any) -> None:
    """The network knows neither the task's own images, whose pixels have another order, nor images that are moved."""
    network, kept = _network(ws), _kept(ws, "train")
    images, labels = (read_idx(ws.original(f"{RAW}/{name}")) for name in FILES[:2])
    ours = np.isin(labels, DIGITS)
    images = images.reshape(len(images), -1)[ours]
    orders = [np.arange(784), *(np.random.default_rng(seed).permutation(784) for seed in range(9))]
    known, *others = [_accuracy(network, images[:, order], labels[ours]) for order in orders]
    assert known <= np.mean(others) + 0.3, f"{known:.0%} of the task's own images are known: not from this run"
    pictures = kept.images.reshape(-1, 28, 28)
    moved = [_accuracy(network, np.roll(pictures, by, axis), kept.labels) for axis in (1, 2) for by in (-1, 1)]
    assert np.mean(moved) <= 0.75, f"{np.mean(moved):.0%} are known when moved by a pixel; images were to be unchanged"


@check(weight=2, required=True)
def claims_are_true(ws: Any) -> None:
    """Both claimed accuracies are those recomputed from the saved weights, up to one image of the split."""
    results, network = _results(ws), _network(ws)
    for split in SPLITS:
        kept = _kept(ws, split)
        measured = _accuracy(network, kept.images, kept.labels)
        check_claim(ws, f"{split}_accuracy", results[f"{split}_accuracy"], measured, 1.01 / len(kept.labels))
