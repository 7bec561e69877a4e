"""Runs a layer on the judge's arrays, inside the subject. Nothing here knows what is right."""

import gc
import importlib
import math
import sys
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Whatever road the code takes to it: an audit hook cannot be taken off again, though who looks for the hook can change
# what it does. NumPy itself imports some of the standard library at first use, so that is free, and what it could be
# used for is refused instead.
MODULES = {*sys.stdlib_module_names, "numpy", "train"}
SHAPE = (8, 64, 64, 3)
EVENTS = {
    "_thread.start_new_thread", "ctypes.dlopen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system",
    "pickle.find_class", "subprocess.Popen",
}  # fmt: skip
_refused: list[str] = []


def _watch(event: str, args: tuple[Any, ...]) -> None:
    """Refuse other libraries than NumPy, compiled code and processes (threads too, from Python 3.12 on)."""
    foreign = event == "import" and str(args[0]).partition(".")[0] not in MODULES
    if foreign or event in EVENTS:
        _refused.append(f"{event} {args[0]}"[:100] if args else event)
        raise PermissionError(f"not allowed here: {_refused[-1]}")


sys.addaudithook(_watch)


def refused(cases: list[dict[str, Any]]) -> list[str]:
    """What the layer asked for and was not given while it made the passes of `outputs`."""
    try:
        outputs(cases)
    except Exception:
        if not _refused:
            raise
    return _refused


def outputs(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each case: passes of one layer, and what was given as it was left by the first three; brief: only two.

    Of the others each comes after a change, in place, of an array that the layer has met.
    """
    results = []
    for case in cases:
        images = [_laid(one, case["order"], write) for one, write in zip(case["images"], (False, True), strict=True)]
        weights = [_laid(one, case["order"]) for one in case["weights"]]
        layer = _layer(weights[0], case["biases"][0], case["stride"], case["padding"])
        found = {"first": _plain(layer.forward(images[0]))}
        layer.weights, layer.biases = weights[1], case["biases"][1]
        found["second"] = _plain(layer.forward(images[1]))
        if not case["brief"]:
            layer.biases = case["biases"][0]
            found["third"] = _plain(layer.forward(images[1]))
        given = {"images": images, "weights": weights, "biases": case["biases"]}
        left = {name: [one.copy() for one in arrays] for name, arrays in given.items()}
        later = (("images", images[1]), ("weights", weights[1]), ("biases", case["biases"][0]))
        for name, changed in () if case["brief"] else later:
            np.negative(changed, out=changed)
            found[f"other {name}"] = _plain(layer.forward(images[1]))
        locked = [not one.flags.writeable for one in images]
        results.append({**found, **left, "own": [layer.weights, layer.biases], "locked": locked})
    return results


def kept(case: dict[str, Any]) -> int:
    """Bytes of arrays that a pass with new weights leaves behind when its input and its output are thrown away."""
    layer = _layer(case["weights"][0], case["biases"][0], case["stride"], case["padding"])
    layer.forward(case["images"][0][:, : len(case["weights"][0]), : len(case["weights"][0])])
    layer.weights, layer.biases = case["weights"][1], case["biases"][1]
    tracemalloc.start()
    images = case["images"][0].copy()
    layer.forward(images)
    del images
    gc.collect()
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    left = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces)
    tracemalloc.stop()
    return left


def _laid(values: Array, order: list[int], write: bool = True) -> Array:
    """The same values, with the axes in this order in memory; not write: read-only, and where the axes are in another
    order nobody can make it writeable.
    """
    laid = values.transpose(order).copy()
    laid.flags.writeable = write
    if order == sorted(order):
        return laid
    return laid.transpose(np.argsort(order))


def passes(layer: dict[str, Any], stock: Array, starts: Array, signs: Array) -> Array:
    """The sum of the outputs of forward passes over ever new batches, each with its sign: every value goes into it."""
    weights, stride, padding = layer["weights"], layer["stride"], layer["padding"]
    made = _layer(weights, layer["biases"], stride, padding)
    rows, columns = ((side + 2 * padding - weights.shape[0]) // stride + 1 for side in SHAPE[1:3])
    total = np.zeros((SHAPE[0], rows, columns, weights.shape[3]))
    for start, sign in zip(starts, signs, strict=True):
        output = _plain(made.forward(stock[start : start + math.prod(SHAPE)].reshape(SHAPE)))
        (np.add if sign > 0 else np.subtract)(total, output, out=total)
    return total


def _layer(weights: Array, biases: Array, stride: int, padding: int) -> Any:
    module = importlib.import_module("train")
    size, _, inputs, channels = weights.shape
    layer = module.Conv2DLayer(
        input_channels=inputs, output_channels=channels, kernel_size=size, stride=stride, padding=padding
    )
    layer.weights, layer.biases = weights, biases
    return layer


def _plain(output: Any) -> Array:
    """An ordinary array: an object that would compute its values later is refused."""
    if type(output) is not np.ndarray or not output.flags.writeable:
        raise TypeError(f"forward returned {type(output).__name__}, not a writeable numpy array")
    return output
