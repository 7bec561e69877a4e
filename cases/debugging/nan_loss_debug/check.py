"""Judges train() on data of many scales. Every loss is recomputed here from what the model predicted at that epoch.

The driver runs in one process with train(), so that its counts are claims. What this file relies on are predictions:
they must be those of a straight line in every epoch, agree with the losses that were told, and reach the least-squares
line, and not by the first step. Whether a line that comes nearer from epoch to epoch was moved by gradients cannot be
known: a formula that does what gradient descent would do gives the same numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bench.judge import Made, Probe, Tensor, array, check, integer, mapping, numbers, run_command, sequence, string

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
ALLOWED_RATIO = 1.5
# What a first step may not undercut, as a share of the excess over the least-squares line; how far float32 bends that.
LANDED, STRAIGHT = 1e-6, 1e-4
# Name: lowest x, width of x, slope, intercept. The signs and exact sizes are drawn afresh.
SCALES = {
    "thousandths": (0.0, 0.001, 2800.0, 0.5),
    "below one": (-0.5, 1.0, 3.0, 40.0),
    "years": (1900.0, 120.0, 0.4, 10.0),
    "tens of thousands": (0.0, 30000.0, 0.02, -5.0),
    "steep": (0.0, 20000.0, 50.0, -5.0),
}
# The mean of x is about ninety times its spread from zero.
FAR = (5000.0, 240.0, 0.4, 10.0)
USUAL = {"up to 100": (0.0, 100.0, 2.0, 1.0), "up to 1000": (0.0, 1000.0, 3.0, -100.0)}


class Points(NamedTuple):
    """Training points, unseen points on the true line, and the loss of the least-squares line."""

    x: Any
    y: Any
    probe: Any
    truth: Any
    line: Any
    epochs: int

    @property
    def best(self) -> float:
        """Mean squared error of the least-squares line."""
        return float(((self.line - self.y) ** 2).mean())


def _points(
    ws: Any, low: float, width: float, slope: float, intercept: float, epochs: int = 20, count: int = 0
) -> Points:
    draw = np.random.default_rng(ws.rng.getrandbits(128))
    low, width = low * draw.uniform(0.97, 1.0), width * draw.uniform(0.8, 1.2)
    slope *= draw.uniform(0.6, 1.5) * draw.choice([-1.0, 1.0])
    count = count or int(draw.integers(40, 120))
    x = (low + width * draw.uniform(size=(count, 1))).astype(np.float32)
    clean = slope * x.astype(np.float64) + intercept
    y = (clean + 0.03 * clean.std() * draw.normal(size=x.shape)).astype(np.float32)
    line = _line(x, y, x)
    probe = (low + width * draw.uniform(-0.1, 1.1, size=(25, 1))).astype(np.float32)
    return Points(x, y, probe, slope * probe.astype(np.float64) + intercept, line, epochs)


def _line(x: Any, y: Any, at: Any) -> Any:
    """The least-squares line through (x, y), at other places."""
    wide, goal = x.astype(np.float64), y.astype(np.float64)
    centred = wide - wide.mean()
    slope = float((centred * goal).sum() / (centred**2).sum())
    return goal.mean() + slope * (at.astype(np.float64) - wide.mean())


def _fit(ws: Any, points: Points) -> dict[str, Any]:
    keys = ("losses", "told", "path", "final", "beyond", "shapes", "passes")
    found = ws.drive("driver.py:fit", points.x, points.y, points.probe, points.epochs)
    return mapping(found, keys=keys)


def _mild(ws: Any, count: int = 0) -> Points:
    """Data that even the starter can be trained on."""
    return _points(ws, -1.0, 2.0, 1.0, 0.0, count=count)


def _loss(points: Points, predicted: Any) -> float:
    """Mean squared error, recomputed; predictions out of all proportion count as infinite."""
    values = array(predicted, shape=points.y.shape, finite=False)
    if not np.isfinite(values).all() or np.abs(values).max() > 1e30:
        return float("inf")
    return float(((values - points.y) ** 2).mean())


def _path(points: Points, found: dict[str, Any]) -> list[float]:
    """The true loss of every epoch; all must be finite."""
    path = [_loss(points, one) for one in sequence(found["path"])]
    assert len(path) == points.epochs, f"the callback was called {len(path)} times in {points.epochs} epochs"
    broken = [epoch for epoch, loss in enumerate(path) if loss == float("inf")]
    assert not broken, f"the model's predictions are not finite from epoch {broken[0] + 1} on"
    return path


def _ratio(points: Points, found: dict[str, Any]) -> float:
    """How many times the loss of the least-squares line the returned model's loss is, also away from the data."""
    ratio = _loss(points, found["final"]) / points.best
    beyond = array(found["beyond"], shape=points.truth.shape, finite=False)
    with np.errstate(all="ignore"):
        error = float(np.sqrt(((beyond - points.truth) ** 2).mean()))
    spread = float(points.y.std())
    assert error <= 0.05 * spread, (
        f"unseen points are off by {error:.4g}, allowed are 5 % of {spread:.4g}, the spread of y"
    )
    return ratio


@check(guard=True)
def still_one_weight_and_one_bias(ws: Any) -> None:
    """At every epoch the model is a straight line, also away from the data: one weight and one bias."""
    points = _mild(ws)
    points = points._replace(
        probe=np.concatenate([points.probe, 40 * points.probe]), truth=np.tile(points.truth, (2, 1))
    )
    found = _fit(ws, points)
    end = np.concatenate([points.x, points.probe]), _joined(points, found)
    for epoch, (x, predicted) in enumerate([*((points.x, one) for one in _paths(points, found)), end], 1):
        bend, size = (float(np.abs(it).max()) for it in (predicted - _line(x, predicted, x), predicted))
        assert bend <= STRAIGHT * (1 + size), f"epoch {epoch}: off any straight line by {bend:.3g}"
    sizes = [int(np.prod([integer(n) for n in sequence(shape)])) for shape in sequence(found["shapes"])]
    assert sorted(sizes) == [1, 1], f"trainable tensors have {sizes} entries; expected one weight and one bias"


def _paths(points: Points, found: dict[str, Any]) -> list[Any]:
    """The predictions of every epoch."""
    return [array(one, shape=points.y.shape) for one in sequence(found["path"], length=points.epochs)]


def _joined(points: Points, found: dict[str, Any]) -> Any:
    """The returned model's predictions for the training points and the unseen ones."""
    final, beyond = array(found["final"], shape=points.y.shape), array(found["beyond"], shape=points.truth.shape)
    return np.concatenate([final, beyond])


@check(guard=True)
def one_step_an_epoch(ws: Any) -> None:
    """The first step does not land on the line, as a formula does; one backward pass an epoch, as far as it shows."""
    for epochs in (1, 20):
        points = _mild(ws)._replace(epochs=epochs)
        found = _fit(ws, points)
        path = [*_paths(points, found), array(found["final"], shape=points.y.shape)]
        before, after = (float(((one - points.line) ** 2).mean()) for one in path[:2])
        assert after > LANDED * before, f"the first of {epochs} steps lands on the exact least-squares line"
        # A claim of train()'s own process: it shows what was done by mistake, and nothing that was hidden.
        passes = integer(found["passes"])
        assert passes == epochs, f"{passes} backward passes in {epochs} epochs, expected one in each"
    _assert_untrained_at_first(ws)
    _assert_all_points_count(ws)


def _assert_untrained_at_first(ws: Any) -> None:
    """What does not know the slope cannot be near a line and near its mirror image: their first losses tell."""
    points = _mild(ws)._replace(epochs=1)
    mirrored = points._replace(y=2 * points.y.mean() - points.y)
    first = [_path(it, _fit(ws, it))[0] for it in (points, mirrored)]
    share = sum(first) / (2 * float(points.y.var()))
    assert share > 0.9, f"the model is fitted before the first step: its loss is {share:.2g} times the variance of y"


def _assert_all_points_count(ws: Any) -> None:
    """A step over all points does not depend on their order, wherever the one stands that lies far from the others."""
    for count in (23, 187):
        points = _mild(ws, count)._replace(epochs=3)
        points.y[0] += 20 * points.y.std()
        ends = []
        for turn in (0, 1, count // 2):
            turned = points._replace(x=np.roll(points.x, -turn, axis=0), y=np.roll(points.y, -turn, axis=0))
            ends.append(array(_fit(ws, turned)["beyond"], shape=points.truth.shape))
        apart = max(float(np.abs(end - ends[0]).max()) for end in ends[1:]) / float(points.y.std())
        assert apart < 1e-3, f"the order of the {count} points changes the model by {apart:.2g} times the spread of y"


@check(weight=2, required=True)
def losses_stay_finite(ws: Any) -> None:
    """On fresh data the model stays finite in all epochs, for 20 and for 35 of them."""
    for epochs in (20, 35):
        points = _points(ws, *USUAL["up to 1000"], epochs=epochs)
        found = _fit(ws, points)
        _path(points, found)
        numbers(found["losses"], length=epochs)


@check(weight=2, required=True)
def losses_fall(ws: Any) -> None:
    """The recomputed losses fall: first above middle, middle not below last, last a tenth of the first or less."""
    for low, width, slope, intercept in USUAL.values():
        points = _points(ws, low, width, slope, intercept)
        path = _path(points, _fit(ws, points))
        first, middle, last = path[0], path[10], path[-1]
        trio = f"first {first:.4g}, middle {middle:.4g}, last {last:.4g}"
        # Once the line is found the loss rests at its floor, where float32 makes it tremble a little.
        assert first > middle, f"the losses do not fall: {trio}"
        assert last <= 1.01 * middle, f"the losses rise again: {trio}"
        assert last <= first / 10, f"the last loss is more than a tenth of the first: {trio}"


@check(weight=2, required=True)
def calls_as_promised(ws: Any) -> None:
    """Arguments by name, by position and left out; 20 and 200 points; the model in every mode."""
    points, other = _points(ws, *USUAL["up to 1000"], count=50), _points(ws, *USUAL["up to 100"], count=70)
    given = {**_given(points), "epochs": 23, "callback": Made("remember")}
    TRAIN.signature(ws, given, lambda _: _unseen(points), _fitted(points))
    for count, scale in ((20, USUAL["up to 100"]), (200, USUAL["up to 1000"]), (60, FAR)):
        sized = _points(ws, *scale, count=count)
        TRAIN.compare(ws, "sizes", _given(sized), lambda _, it=sized: _unseen(it), _fitted(sized))
    both, losses = {len(it.x): it for it in (points, other)}, []

    def repeated(values: dict[str, Any], extra: Any, value: Any) -> None:
        _fitted(both[len(values["x"].array)])(values, extra, value)
        losses.append(np.array(numbers(mapping(value)["losses"])))

    TRAIN.repeats(ws, _given(points), _given(other), lambda values: _unseen(both[len(values["x"].array)]), repeated)
    again = float(np.abs(losses[2] / losses[0] - 1).max())
    assert again < 1e-5, f"a call that is made again, after another one, has losses that are off by {again:.2g} of them"
    MAKE_DATA.signature(ws, {"points": 400, "seed": 7}, lambda it: [it["points"], it["seed"]], _made_data)


def _given(points: Points) -> dict[str, Any]:
    return {"x": Tensor(points.x), "y": Tensor(points.y)}


def _unseen(points: Points) -> list[Any]:
    """The unseen points, and many on one side of them to stand beside."""
    high = float(points.probe.max())
    beside = np.linspace(high, high + float(np.ptp(points.probe)), 300, dtype=np.float32)[:, None]
    return [points.probe, beside]


def _fitted(points: Points) -> Any:
    """Compares what a call of train() on these points has returned and told."""

    def right(values: dict[str, Any], extra: Any, value: Any) -> None:
        found = mapping(value, keys=("losses", "kinds", "told", "predicted", "single", "among"))
        losses = numbers(found["losses"], length=values["epochs"])
        kinds = [string(kind) for kind in sequence(found["kinds"])]
        assert kinds == ["float"], f"the losses are of type {kinds}, not Python floats"
        told = [[epoch, loss] for epoch, loss in enumerate(losses)] if values["callback"] else []
        assert sequence(found["told"]) == told, "the callback was not told every epoch, from 0 on, with its loss"
        assert losses[-1] <= losses[0] / 10, f"the losses go from {losses[0]:.4g} to {losses[-1]:.4g}"
        predicted = [array(one, shape=points.truth.shape) for one in sequence(found["predicted"], length=4)]
        size = float(np.abs(points.truth).max()) + float(points.y.std())
        others = (array(found[name], shape=points.truth.shape) for name in ("single", "among"))
        for one in (*predicted[1:], *others):
            apart = float(np.abs(one - predicted[0]).max())
            assert apart <= 1e-4 * size, f"a prediction changes by {apart:.4g} with the mode or with its neighbours"
        error = float(np.sqrt(((predicted[0] - points.truth) ** 2).mean()))
        assert error <= 0.05 * points.y.std(), f"unseen points are off by {error:.4g}"

    return right


def _made_data(values: dict[str, Any], extra: Any, value: Any) -> None:
    """The points lie evenly from 0 to 1000, and off y = 2 x + 1 by the noise of their seed."""
    found = mapping(value, keys=("x", "y", "noise"))
    x, y, noise = (array(found[name], shape=(values["points"], 1)) for name in ("x", "y", "noise"))
    assert np.abs(x[:, 0] - np.linspace(0, 1000, values["points"])).max() < 0.01, "x is not even from 0 to 1000"
    off = float(np.abs(y - 2 * x - 1 - noise).max())
    assert off < 0.01, f"with points={values['points']}, seed={values['seed']} make_data is off by {off:.3g}"


@check(weight=2, required=True)
def reported_losses_are_true(ws: Any) -> None:
    """Returned losses and those told to the callback equal the loss recomputed from the model at that epoch."""
    for low, width, slope, intercept in [
        *USUAL.values(),
        *(SCALES[name] for name in ("years", "thousandths", "below one")),
    ]:
        points = _points(ws, low, width, slope, intercept)
        found = _fit(ws, points)
        path = _path(points, found)
        told, losses = numbers(found["told"], length=20), numbers(found["losses"], length=20)
        # Float32 cannot square a small difference of large numbers exactly, hence the share of the size of y.
        slack = 1e-6 * float((points.y.astype(np.float64) ** 2).mean())
        for epoch, (true, one, two) in enumerate(zip(path, told, losses, strict=True), 1):
            worst = max(abs(one - true), abs(two - true))
            assert worst <= 0.01 * true + slack, f"epoch {epoch}: reported {two:.5g}, told {one:.5g}, true {true:.5g}"


@check(weight=3, required=True)
def line_is_found(ws: Any) -> None:
    """After 20 epochs the returned model's own loss is at most 1.5 times that of the least-squares line."""
    fits = []
    for low, width, slope, intercept in USUAL.values():
        points = _points(ws, low, width, slope, intercept)
        found = _fit(ws, points)
        _path(points, found)
        fits.append((points, found))
    worst = max(_loss(points, found["final"]) / points.best for points, found in fits)
    ws.metric("loss_ratio", min(worst, 1e9))
    assert worst <= ALLOWED_RATIO, f"the final loss is {worst:.4g} times that of the best line, allowed {ALLOWED_RATIO}"
    for points, found in fits:
        _ratio(points, found)


@check(weight=3, required=True)
def other_scales_work(ws: Any) -> float:
    """The line is also found for tiny, large and far-off inputs; the credit is the share of scales that work."""
    good, reasons = 0, []
    for name, (low, width, slope, intercept) in SCALES.items():
        points = _points(ws, low, width, slope, intercept)
        try:
            found = _fit(ws, points)
            _path(points, found)
            ratio = _ratio(points, found)
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
