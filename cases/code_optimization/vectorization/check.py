"""Is forward still right, does it play by the rules, and how many times faster is it?"""

import ast
import functools
import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.judge import Work, Workspace, array, check, mapping, number, run_command, sequence, string, written_number

Array = NDArray[np.float64]

MODULES = {
    "__future__", "argparse", "collections", "csv", "dataclasses", "functools", "itertools", "math", "numpy", "pathlib",
    "time", "typing",
}  # fmt: skip
# Ways round the list above: running text, and roads from an allowed module to one that is not.
NAMES = {"__builtins__", "__import__", "__loader__", "breakpoint", "compile", "eval", "exec", "globals", "vars"}
ATTRIBUTES = {
    "__builtins__", "__globals__", "__loader__", "__subclasses__", "_getframe", "ctypes", "ctypeslib", "f2py",
    "importlib", "modules", "os", "subprocess", "sys", "threading",
}  # fmt: skip

SHAPE, STOCK = (8, 64, 64, 3), 32  # of the batch of a timed pass, and images' worth of numbers it is cut out of
BAR, FLOOR, TARGET = 50.0, 2.0, 200.0  # times the starter's speed


def convolution(images: Array, weights: Array, biases: Array, stride: int, padding: int) -> Array:
    """The judge's own reference: all windows as one view, one contraction."""
    size = weights.shape[0]
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))[:, ::stride, ::stride]
    output: Array = np.tensordot(windows, weights.transpose(2, 0, 1, 3), axes=3) + biases
    return np.maximum(output, 0)


# Number of images (-1: drawn, beyond every usual chunk), rows, columns, channels in and out.
# The large image gives 257 rows: one more than whole blocks of every usual size.
EXTREMES = (
    (0, 7, 9, 2, 3), (1, 3, 3, 1, 1), (1, 1, 2, 2, 2), (-1, 5, 4, 1, 2), (2, 10, 12, 33, 20), (1, 513, 601, 1, 1),
    (19, 160, 120, 1, 2), (2, 110, 110, 60, 1), (1, 4, 5, 270, 3), (1, 5, 4, 3, 270),
)  # fmt: skip
# Kernel, stride and padding of layers whose output could stand where their input does; that of the last has the size
# of one with another stride among those above.
IN_PLACE = (((1, 1, 0), (2, 6, 5, 3, 3)), ((3, 1, 1), (2, 5, 6, 2, 2)))
# Of layers whose later images hold what is not finite, and meet weights that are zero: a cell of the kernel, what goes
# into one output, all of a channel. They lie in memory with their axes the other way round.
ODD = (((3, 1, 0), (3, 8, 9, 2, 3)), ((5, 1, 1), (3, 6, 8, 2, 3)), ((4, 2, 2), (3, 9, 7, 3, 2)))
# Its windows, written side by side, take 138 MB.
LARGE = ((5, 1, 2), (1, 416, 416, 4, 1))
# Images and weights whose copies are far larger than what NumPy keeps for itself, in bytes.
WIDE, KEPT, MANY = (2, 20, 25, 33, 20), 10_000, 10_000
# Of the same size when they are padded: what one layer has left in a common place shows in the next.
ALIKE = (((3, 1, 0), (2, 9, 10, 2, 3)), ((3, 1, 1), (2, 7, 8, 2, 3)), ((3, 1, 2), (2, 5, 6, 2, 3)))
# Which images, weights and biases each pass of a layer is computed from; the last ones were negated in place. A layer
# of MANY windows makes the first two alone: size breaks no others, and the starter's loops would take seconds for each.
PASSES = {
    "first": (0, 0, 0), "second": (1, 1, 1), "third": (1, 1, 0), "other images": (2, 1, 0), "other weights": (2, 2, 0),
    "other biases": (2, 2, 2),
}  # fmt: skip


def hidden_case(rng: np.random.Generator, layer: tuple[int, ...], shape: tuple[int, ...] = ()) -> dict[str, Any]:
    """Two batches of non-square images and two sets of weights for a layer of a kernel, a stride and a padding."""
    size, stride, padding = layer
    shape = shape or (*rng.integers(1, 4, 1), *rng.permutation(range(6, 12))[:2], *rng.integers(1, [6, 7]))
    number, height, width, inputs, channels = (int(value) for value in shape)
    number = int(rng.integers(1025, 1100)) if number < 0 else number
    scale, heavy = rng.permutation([1.0, rng.choice([1.0, 40.0])])
    return {
        "brief": number * (height // stride) * (width // stride) > MANY,
        "order": (rng.permutation(4) if rng.integers(2) else np.arange(4)).tolist(),
        "images": [scale * rng.standard_normal((number, height, width, inputs)) for _ in range(2)],
        "weights": [heavy * rng.standard_normal((size, size, inputs, channels)) for _ in range(2)],
        "biases": [2 * rng.standard_normal(channels) for _ in range(2)],
        "stride": stride,
        "padding": padding,
    }


@check(guard=True)
def forward_is_right(ws: Workspace) -> None:
    """For every kernel, stride and padding forward is right to 1e-8, spares what it is given and remembers nothing."""
    rng = np.random.default_rng(ws.seed)
    chosen = [*ODD, LARGE, *(((3, 2, 1), shape) for shape in EXTREMES), *ALIKE, *IN_PLACE]
    chosen += [*((shape, ()) for shape in itertools.product(range(1, 6), range(1, 4), range(3)))]
    cases = [hidden_case(rng, shape, images) for shape, images in chosen]
    zeros, infinite = (np.s_[1, 1], np.s_[..., 0], np.s_[:, :, 0]), ((np.nan, np.inf, -np.inf), -np.inf, np.inf)
    for one, zero, values in zip(cases, zeros, infinite, strict=False):
        one["order"], one["images"][1][:, 4, 4, 0], one["weights"][1][zero] = [3, 2, 1, 0], values, 0
    results = sequence(ws.drive("driver.py:outputs", cases), length=len(cases))
    for (shape, _), case, result in zip(chosen, cases, results, strict=True):
        about = "kernel {}, stride {}, padding {}, images {}".format(*shape, case["images"][0].shape)
        made = list(PASSES.items())[: 2 if case["brief"] else None]
        found = mapping(result, keys=[*dict(made), "images", "weights", "biases", "own", "locked"])
        assert found["locked"] == [True, False], f"{about}: images that were read-only no longer are, or others are now"
        given = [[*case[name], -case[name][last]] for name, last in (("images", 1), ("weights", 1), ("biases", 0))]
        for name, places in made:
            expected = convolution(*(of[place] for of, place in zip(given, places, strict=True)), *shape[1:])
            assert getattr(found[name], "dtype", None) == np.float64, f"{about}: the output is not of type float64"
            output = array(found[name], shape=expected.shape, finite=False)
            off = ~np.isclose(output, expected, rtol=0, atol=1e-8, equal_nan=True)
            assert not off.any(), f"{about}, pass with {name}: {off.sum()} of {off.size} values are off by over 1e-8"
        for name in ("images", "weights", "biases"):
            for before, after in zip(case[name], sequence(found[name], length=2), strict=True):
                left = array(after, shape=before.shape, finite=False)
                assert np.array_equal(left, before, equal_nan=True), f"{about}: forward changed its {name}"
        for name, own in zip(("weights", "biases"), sequence(found["own"], length=2), strict=True):
            array(own, shape=case[name][0].shape)
    left = number(ws.drive("driver.py:kept", hidden_case(rng, (5, 1, 2), WIDE)))
    assert left < KEPT, f"a pass leaves {left:.0f} bytes of arrays behind: something is stored for another pass"


@check(guard=True)
def rules_are_kept(ws: Workspace) -> None:
    """train.py imports numpy and the listed modules only, and takes no way round that."""
    try:
        tree = ast.parse(ws.source("train.py"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise AssertionError(f"train.py cannot be parsed: {type(error).__name__}") from None
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert "Conv2DLayer" in classes, "train.py does not define the class Conv2DLayer itself"
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" if node.module and not node.level else "." for alias in node.names]
        for module in modules:
            first, *rest = module.split(".")
            allowed = first in MODULES and not ATTRIBUTES & set(rest)
            assert allowed, f"line {getattr(node, 'lineno', 0)}: {module[:60]} may not be imported"
        if isinstance(node, ast.Name):
            assert node.id not in NAMES, f"line {node.lineno}: {node.id} may not be used"
        if isinstance(node, ast.Attribute):
            assert node.attr not in ATTRIBUTES, f"line {node.lineno}: .{node.attr} may not be used"
    # The text can hide a road round the list. What the code asks for while it runs is the word of its own process.
    cases = [hidden_case(np.random.default_rng(ws.seed + 2), (3, 2, 2))]
    refused = [string(what) for what in sequence(ws.drive("driver.py:refused", cases))]
    assert not refused, f"train.py asked for what it may not use: {', '.join(refused)[:200]}"


@check(guard=True)
def script_writes_its_time(ws: Workspace) -> None:
    """python train.py ends without an error and writes one number of seconds to submission.csv."""
    # Earlier numbers are to give way: they are longer than any time, and two numbers are none.
    written = run_command(ws, "python train.py", inputs={"submission.csv": "86400\n" * 40}).text(
        "submission.csv", max_mb=1
    )
    seconds = _time(written)
    told = f"submission.csv holds {written[:40]!r}, not a number of seconds"
    assert seconds is not None and 0 < seconds < 3600, told


def draw(rng: np.random.Generator, passes: int) -> tuple[Any, ...]:
    """A layer, a row of numbers, and where in it the images of each pass begin.

    No two at the same place of an image, so that no image comes twice: what a pass has stored is of no use to another.
    """
    image = math.prod(SHAPE[1:])
    starts = rng.permutation(image)[:passes] + image * rng.integers(0, STOCK - SHAPE[0], passes)
    layer = {"weights": rng.standard_normal((3, 3, 3, 8)), "biases": rng.standard_normal(8), "stride": 2, "padding": 2}
    return layer, rng.standard_normal(STOCK * image), starts, rng.choice([-1.0, 1.0], passes)


def compare(arguments: tuple[Any, ...], total: Any) -> None:
    """The outputs of all passes of a timed call, each with its sign, add up to `total`."""
    layer, stock, starts, signs = arguments
    expected = 0.0 * convolution(stock[: math.prod(SHAPE)].reshape(SHAPE), **layer)
    for start, sign in zip(starts, signs, strict=True):
        expected += sign * convolution(stock[start : start + math.prod(SHAPE)].reshape(SHAPE), **layer)
    gap = float(np.abs(array(total, shape=expected.shape) - expected).max())
    assert gap <= 1e-8, f"forward gave other values while it was timed: their sum is off by up to {gap:.1e}"


@functools.cache
def speedup(ws: Workspace) -> float:
    """Times faster than the starter, at the slow end of what was measured; it serves both checks."""
    drawn = functools.partial(draw, np.random.default_rng([ws.seed, 1]))
    timing = ws.stopwatch(Work("driver.py:passes", draw=drawn, right=compare))
    measured = timing.answer_s * 32 / SHAPE[0]
    ws.metric("speedup", timing.low, "times", trusted=timing.trusted)
    ws.metric("speedup_median", timing.ratio, "times", trusted=timing.trusted)
    ws.metric("forward_seconds", measured, "s of CPU time", trusted=timing.trusted)
    if ws.exists("submission.csv") and timing.trusted:
        # What train.py measured itself: 32 images. A third of the true time is beyond the noise of any machine, and
        # the wall time that it was read from is never shorter than CPU time on one processor.
        claimed = _time(ws.text("submission.csv"))
        ws.claim("forward_seconds", claimed, measured, tolerance=measured * 2 / 3, higher_is_better=False)
    return timing.low


def _time(text: str) -> float | None:
    try:
        return written_number(text)
    except AssertionError:
        return None


@check(weight=2, required=True)
def fifty_times_faster(ws: Workspace) -> None:
    """forward takes at most a fiftieth of the starter's time, measured beside it."""
    ratio = speedup(ws)
    assert ratio >= BAR, f"{ratio:.1f} times the starter's speed, {BAR:.0f} times are needed"


@check(weight=8)
def speed(ws: Workspace) -> float:
    """The speed-up on a logarithmic scale: nothing for 2 times, all for 200 times."""
    return ws.scale(math.log(max(speedup(ws), 1e-6)), floor=math.log(FLOOR), target=math.log(TARGET))
