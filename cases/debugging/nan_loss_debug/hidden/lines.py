"""Points along straight lines of many scales, and the least-squares line through them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# How many times the loss of the least-squares line the loss may be on the training points.
ALLOWED_RATIO = 1.5
# Name: lowest x, width of x, slope, intercept. The signs and exact sizes are drawn afresh.
SCALES = {
    "thousandths": (0.0, 0.001, 2800.0, 0.5),
    "below one": (-0.5, 1.0, 3.0, 40.0),
    "years": (1900.0, 120.0, 0.4, 10.0),
    "tens of thousands": (0.0, 30000.0, 0.02, -5.0),
    "steep": (0.0, 20000.0, 50.0, -5.0),
}
# So flat that a loss has no digits left where it is rounded to some decimals.
FLAT = (0.0, 30.0, 1e-5, 1e-4)
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


def drawn(
    ws: Any, low: float, width: float, slope: float, intercept: float, epochs: int = 20, count: int = 0, crowd: int = 1
) -> Points:
    """Points of a scale whose sign and exact sizes are drawn; count: of points, 40 to 120 where it is 0.

    crowd: this power of what is spread evenly. Where it is high, most points stand near `low`, and neither the middle
    of the range nor a quantile tells centre and spread.
    """
    draw = np.random.default_rng(ws.rng.getrandbits(128))
    side = draw.choice([-1.0, 1.0])
    low, width = side * low * draw.uniform(0.97, 1.0), side * width * draw.uniform(0.8, 1.2)
    slope *= draw.uniform(0.6, 1.5) * draw.choice([-1.0, 1.0])
    count = count or int(draw.integers(40, 120))
    x = (low + width * draw.uniform(size=(count, 1)) ** crowd).astype(np.float32)
    clean = slope * x.astype(np.float64) + intercept
    y = (clean + 0.03 * clean.std() * draw.normal(size=x.shape)).astype(np.float32)
    line = line_at(x, y, x)
    places = draw.uniform(-0.1, 1.1, size=(25, 1))
    probe = (low + width * np.sign(places) * abs(places) ** crowd).astype(np.float32)
    return Points(x, y, probe, slope * probe.astype(np.float64) + intercept, line, epochs)


def narrowed(points: Points) -> Points:
    """The same y over inputs with the same mean and half of the spread."""
    mean = points.x.mean(dtype=np.float64)
    x, probe = ((mean + (it - mean) / 2).astype(np.float32) for it in (points.x, points.probe))
    return points._replace(x=x, probe=probe, line=line_at(x, points.y, x))


def line_at(x: Any, y: Any, at: Any) -> Any:
    """The least-squares line through (x, y), at other places."""
    wide, goal = x.astype(np.float64), y.astype(np.float64)
    centred = wide - wide.mean()
    slope = float((centred * goal).sum() / (centred**2).sum())
    return goal.mean() + slope * (at.astype(np.float64) - wide.mean())


def assert_beyond(points: Points, beyond: Any) -> None:
    """Unseen points lie near the least-squares line: within 5 %, or as far off as a line with the allowed loss may be.

    In spreads of x from the middle, such a line is off by a + b z, where a * a + b * b is its loss above the least.
    """
    x, far = points.x.astype(np.float64), points.probe.astype(np.float64)
    z, spread = (far - x.mean()) / x.std(), float(points.y.std())
    most = (1.01 * (ALLOWED_RATIO - 1) * points.best * float((1 + z**2).mean())) ** 0.5
    with np.errstate(all="ignore"):
        error = float(np.sqrt(((beyond - line_at(points.x, points.y, points.probe)) ** 2).mean()))
    told = f"unseen points are off by {error:.4g}; the spread of y is {spread:.4g}"
    assert error <= max(0.05 * spread, most + 1e-4 * spread), told
