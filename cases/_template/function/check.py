"""Calls `smooth` in every way that task.md promises, and compares each value with the judge's own means.

To make this your case: write your signature into SMOOTH, your reference into `_right`, and your inputs into the checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.judge import Probe, Workspace, check, close

# Names, order and defaults of the parameters are read from the quoted signature. Every further kind of probe needs the
# words of task.md that promise it, so that no right answer fails on what it was never told.
SMOOTH = Probe(
    'smooth(values, window=3, edges="shrink")',
    target="smooth:smooth",
    promised={
        "inputs": "`values` may hold integers or floats, and is not changed",
        "integers": "`values` may hold integers or floats, and is not changed",
        "sizes": "It has from 1 to 100,000 entries, possibly fewer than `window`",
    },
)


@check(weight=3, required=True)
def means_are_right(ws: Workspace) -> None:
    """Fresh values: by name, by position, and with each default left out."""
    values = ws.numpy_rng("values").normal(5, 3, 40)
    # Values that differ from the defaults, or a wrong default would not show.
    _signature(ws, {"values": values, "window": 7, "edges": "zero"})
    _signature(ws, {"values": values, "window": 1, "edges": "shrink"})


@check(weight=1, required=True)
def integers_are_averaged(ws: Workspace) -> None:
    """Integers of two types give float64 means, and none that are rounded or have run over."""
    for kind in ("int64", "uint8"):
        values = ws.numpy_rng(kind).integers(100, 250, 30).astype(kind)
        SMOOTH.compare(ws, "integers", {"values": values}, lambda _: [], _right)


@check(weight=1, required=True)
def sizes_are_handled(ws: Workspace) -> None:
    """One value, fewer than the window, as many, one more, and 100,000; both kinds of edges."""
    rng = ws.numpy_rng("sizes")
    for count, window in ((1, 3), (2, 9), (5, 5), (6, 5), (100_000, 101)):
        for edges in ("shrink", "zero"):
            given = {"values": rng.uniform(-50, 90, count), "window": window, "edges": edges}
            SMOOTH.compare(ws, "sizes", given, lambda _: [], _right)


def _signature(ws: Workspace, given: dict[str, Any]) -> None:
    SMOOTH.signature(ws, given, lambda _: [], _right)


def _right(values: dict[str, Any], inputs: Any, found: Any) -> None:
    """Compare with sums of slices: another way than the solution's, so that one mistake is not made twice."""
    given, window = values["values"].astype(np.float64), values["window"]
    total = np.concatenate([[0.0], np.cumsum(given)])
    places = np.arange(len(given))
    first, last = np.maximum(places - window // 2, 0), np.minimum(places + window // 2 + 1, len(given))
    count = last - first if values["edges"] == "shrink" else window
    kind = str(getattr(found, "dtype", type(found).__name__))
    assert kind == "float64", f"the result is {kind}, and float64 was asked for"
    # 100,000 sums of floats differ by their order in the tenth digit; what is wrong differs in the second.
    close(found, (total[last] - total[first]) / count, rtol=1e-7, atol=1e-7, what="the mean")
