"""Judges train() on data of many scales. Every loss is recomputed here from what the model predicted at that epoch.

The driver runs in one process with train(), so that its counts are claims. What this file relies on are predictions:
they must be those of a straight line in every epoch, agree with the losses that were told, and reach the least-squares
line, and not by the first step. Whether a line that comes nearer from epoch to epoch was moved by gradients cannot be
known: a formula that does what gradient descent would do gives the same numbers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from fits import at_the_end, fit, loss_of, losses_of, mild, predictions, times_the_line
from lines import ALLOWED_RATIO, FAR, FLAT, SCALES, USUAL, drawn, line_at, narrowed
from promised import fitted, given, made_data, unseen

from bench.judge import Made, Probe, array, check, integer, mapping, numbers, run_command, sequence

TRAIN = Probe(
    "train(x, y, epochs=20, callback=None)",
    target="train:train",
    observe="driver.py:fitted",
    promised={
        "sizes": "n between 20 and 200",
        "inputs": "`x` and `y` are not changed",
        "repeats": "a call does not depend on earlier ones",
    },
)
MAKE_DATA = Probe("make_data(points=50, seed=42)", target="train:make_data", observe="driver.py:made")
# What a first step may not undercut, as a share of the excess over the least-squares line; how far float32 bends that.
LANDED, STRAIGHT = 1e-6, 1e-4
# How near the line, in spreads of y, a step may be too small for float32 to show.
AT_REST = 1e-4


@check(guard=True)
def still_one_weight_and_one_bias(ws: Any) -> None:
    """At every epoch the model is a straight line, also away from the data: one weight and one bias."""
    points = mild(ws)
    points = points._replace(
        probe=np.concatenate([points.probe, 40 * points.probe]), truth=np.tile(points.truth, (2, 1))
    )
    found = fit(ws, points)
    end = np.concatenate([points.x, points.probe]), at_the_end(points, found)
    for epoch, (x, predicted) in enumerate([*((points.x, one) for one in predictions(points, found)), end], 1):
        bend, size = (float(np.abs(it).max()) for it in (predicted - line_at(x, predicted, x), predicted))
        assert bend <= STRAIGHT * (1 + size), f"epoch {epoch}: off any straight line by {bend:.3g}"
    sizes = [int(np.prod([integer(n) for n in sequence(shape)])) for shape in sequence(found["shapes"])]
    assert sorted(sizes) == [1, 1], f"trainable tensors have {sizes} entries; expected one weight and one bias"
    layers = integer(found["layers"])
    assert layers <= 1, f"the model has {layers} linear layers, expected one"


@check(guard=True)
def one_step_an_epoch(ws: Any) -> None:
    """The first step does not land on the line, as a formula does; one backward pass an epoch, as far as it shows."""
    for epochs in (1, 20):
        points = mild(ws)._replace(epochs=epochs)
        found = fit(ws, points)
        path = [*predictions(points, found), array(found["final"], shape=points.y.shape)]
        before, after = (float(((one - points.line) ** 2).mean()) for one in path[:2])
        assert after > LANDED * before, f"the first of {epochs} steps lands on the exact least-squares line"
        _assert_every_step_moves(points, path)
        # A claim of train()'s own process: it shows what was done by mistake, and nothing that was hidden.
        passes = integer(found["passes"])
        assert passes == epochs, f"{passes} backward passes in {epochs} epochs, expected one in each"
    _assert_untrained_at_first(ws)
    _assert_all_points_count(ws)


def _assert_every_step_moves(points: Any, path: list[Any]) -> None:
    """A step that is left out, or taken back, leaves the predictions as they were; far from the line no step does."""
    for epoch, (one, two) in enumerate(pairwise(path), 1):
        away = float(np.abs(one - points.line).max())
        moved = away < AT_REST * float(points.y.std()) or not np.array_equal(one, two)
        assert moved, f"the weights do not change in epoch {epoch} of {points.epochs}, still {away:.3g} from the line"


def _assert_untrained_at_first(ws: Any) -> None:
    """What does not know the slope cannot be near a line and near its mirror image: their first losses tell."""
    points = mild(ws)._replace(epochs=1)
    mirrored = points._replace(y=2 * points.y.mean() - points.y)
    first = [losses_of(it, fit(ws, it))[0] for it in (points, mirrored)]
    share = sum(first) / (2 * float(points.y.var()))
    assert share > 0.9, f"the model is fitted before the first step: its loss is {share:.2g} times the variance of y"


def _assert_all_points_count(ws: Any) -> None:
    """No step depends on the order of the points, wherever the one far off stands, nor on what squares do not show."""
    for count in (23, 187):
        points = mild(ws, count)._replace(epochs=3)
        points.y[0] += 20 * points.y.std()
        # Noise mirrored about the line leaves the sums as they are, and so each step along the squared error.
        mirrored = points._replace(y=(2 * line_at(points.x, points.y, points.x) - points.y).astype(np.float32))
        turned = [{at: np.roll(getattr(points, at), -n, axis=0) for at in "xy"} for n in (0, 1, count // 2)]
        founds = [fit(ws, it) for it in (*(points._replace(**two) for two in turned), mirrored)]
        # A model that takes more from y than mean and spread may begin elsewhere.
        first, other = (predictions(points, found)[0] for found in (founds[0], founds[3]))
        alike = float(np.abs(first - other).max()) < 1e-5 * float(points.y.std())
        ends = [array(found["beyond"], shape=points.truth.shape) for found in founds[: 3 + alike]]
        apart = [float(np.abs(end - ends[0]).max() / points.y.std()) for end in ends]
        assert max(apart) < 1e-3, f"{count} points in another order, or mirrored about the line, give another: {apart}"


@check(weight=2, required=True)
def losses_stay_finite(ws: Any) -> None:
    """On fresh data the model stays finite in all epochs, for 20 and for 35 of them."""
    for epochs in (20, 35):
        points = drawn(ws, *USUAL["up to 1000"], epochs=epochs)
        found = fit(ws, points)
        losses_of(points, found)
        numbers(found["losses"], length=epochs)


@check(weight=2, required=True)
def losses_fall(ws: Any) -> None:
    """No recomputed loss is above the one before, and the last of twenty is a tenth of the first or less."""
    for scale, epochs in (*((it, 20) for it in USUAL.values()), (USUAL["up to 100"], 3)):
        points = drawn(ws, *scale, epochs=epochs)
        path = losses_of(points, fit(ws, points))
        # Once the line is found the loss rests at its floor, where float32 makes it tremble a little.
        rises = [f"from {one:.4g} to {two:.4g}" for one, two in pairwise(path) if two > 1.01 * one]
        assert not rises, f"the losses rise: {'; '.join(rises)}"
        told = f"the last loss, {path[-1]:.4g}, is not a tenth of the first, {path[0]:.4g}"
        assert epochs < 20 or path[-1] <= path[0] / 10, told


@check(weight=2, required=True)
def calls_as_promised(ws: Any) -> None:
    """Arguments by name, by position and left out; 20 and 200 points; the model in every mode."""
    points = drawn(ws, *USUAL["up to 1000"], count=50)
    every = {**given(points), "epochs": 23, "callback": Made("remember")}
    TRAIN.signature(ws, every, lambda _: unseen(points), fitted(points))
    for count, scale in ((20, USUAL["up to 100"]), (200, USUAL["up to 1000"]), (60, FAR)):
        sized = drawn(ws, *scale, count=count)
        TRAIN.compare(ws, "sizes", given(sized), lambda _, it=sized: unseen(it), fitted(sized))
    # As many points with the same mean and the same y: no part of one call can pass for that of the other.
    other, losses = narrowed(points), []
    both = {it.x.tobytes(): it for it in (points, other)}

    def repeated(values: dict[str, Any], extra: Any, value: Any) -> None:
        fitted(both[values["x"].array.tobytes()])(values, extra, value)
        losses.append(np.array(numbers(mapping(value)["losses"])))

    TRAIN.repeats(ws, given(points), given(other), lambda it: unseen(both[it["x"].array.tobytes()]), repeated)
    again = float(np.abs(losses[2] / losses[0] - 1).max())
    # Where other weights begin as far from the line, the losses differ by less than that once in ten thousand seeds.
    assert again < 1e-7, f"a call that is made again, after another one, has losses that are off by {again:.2g} of them"
    for count, seed in ((400, 7), (ws.rng.randint(51, 99), 0)):
        MAKE_DATA.signature(ws, {"points": count, "seed": seed}, lambda it: [it["points"], it["seed"]], made_data)


@check(weight=2, required=True)
def reported_losses_are_true(ws: Any) -> None:
    """Returned losses and those told to the callback equal the loss recomputed from the model at that epoch."""
    scales = [*USUAL.values(), *(SCALES[name] for name in ("years", "thousandths", "below one")), FLAT]
    # After two epochs the line is not found yet, so that a callback that comes after the last step shows.
    for scale, epochs in [*((it, 20) for it in scales), (USUAL["up to 100"], 2)]:
        points = drawn(ws, *scale, epochs=epochs)
        found = fit(ws, points)
        path = losses_of(points, found)
        told, losses = (numbers(found[name], length=epochs) for name in ("told", "losses"))
        # Float32 cannot square a small difference of large numbers exactly, hence the share of the size of y.
        slack = 1e-6 * float((points.y.astype(np.float64) ** 2).mean())
        for epoch, (true, one, two) in enumerate(zip(path, told, losses, strict=True), 1):
            worst = max(abs(one - true), abs(two - true))
            assert worst <= 0.01 * true + slack, f"epoch {epoch}: reported {two:.5g}, told {one:.5g}, true {true:.5g}"


@check(weight=3, required=True)
def line_is_found(ws: Any) -> None:
    """After 20 epochs the returned model's own loss is at most 1.5 times that of the least-squares line."""
    fits = [(points, fit(ws, points)) for points in (drawn(ws, *scale) for scale in USUAL.values())]
    for points, found in fits:
        losses_of(points, found)
    worst = max(loss_of(points, found["final"]) / points.best for points, found in fits)
    ws.metric("loss_ratio", min(worst, 1e9))
    assert worst <= ALLOWED_RATIO, f"the final loss is {worst:.4g} times that of the best line, allowed {ALLOWED_RATIO}"
    for points, found in fits:
        times_the_line(points, found)


@check(weight=3, required=True)
def other_scales_work(ws: Any) -> float:
    """The line is also found for tiny, large and far-off inputs; the credit is the share of scales that work."""
    good, reasons = 0, []
    for number, (name, scale) in enumerate(SCALES.items()):
        points = drawn(ws, *scale, crowd=1 + 7 * (number % 2))
        try:
            found = fit(ws, points)
            losses_of(points, found)
            ratio = times_the_line(points, found)
            assert ratio <= ALLOWED_RATIO, f"the final loss is {ratio:.4g} times that of the best line"
            good += 1
        except AssertionError as problem:
            reasons.append(f"{name}: {problem}")
    assert good, "no scale works; " + "; ".join(reasons)
    return good / len(SCALES)


@check(weight=0, required=True)
def scripts_end_well(ws: Any) -> None:
    """train.py and the visible test end with status 0."""
    run_command(ws, "python train.py")
    run_command(ws, "python test_model.py")
