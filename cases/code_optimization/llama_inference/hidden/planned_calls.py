"""The calls of generate in one process, in their order: what an answer may have kept of one is wrong for the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from llama import Weights, draw_tokens
from numpy.typing import NDArray

# Rows and positions, which weights they get, and of which parts the rows are turned about in place before.
FIRST = (
    ((4, 128), 0, ()), ((1, 1), 0, ()), ((9, 37), 1, ()), ((4, 128), 1, ()), ((2, 256), 2, ()), ((16, 5), 0, ()),
    ((4, 128), 0, ("head", "layer1.query", "layer3.up")), ((4, 128), 1, ("embedding", "layer0.value", "layer2.norm1")),
    ((4, 128), 2, ("layer3.output",)), ((16, 256), 0, ()), ((3, 8), 3, ()),
)  # fmt: skip
LENGTHS = (2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 97, 129, 193)
"""One for each number of rows, in any order: where blocks of a usual size end, and one more or less."""
LAYOUTS = ("plain", "locked", "columns", "slice")
DRAWN = 1  # further call, of any size
SINGLE = 2  # parts, drawn, whose change is followed by a call of its own
ALIKE = (0, 1, 63, 126, 127)
"""The only place where a row differs from the first one."""


def planned(rng: np.random.Generator, weights: Weights) -> list[dict[str, Any]]:
    """Calls of every number of rows, of rows that are nearly the same, and after a change of each part alone."""
    # The same tokens come again with other weights: what was remembered of them is wrong then.
    drawn = {shape: draw_tokens(rng, *shape) for shape, _, _ in FIRST}
    calls = [_call(drawn[shape], at, [(part, -1) for part in parts]) for shape, at, parts in FIRST]
    sizes = [(rows, int(length)) for rows, length in enumerate(rng.permutation(LENGTHS), 1)]
    sizes += [(int(rng.integers(1, 17)), int(rng.integers(1, 257))) for _ in range(DRAWN)]
    for at, size in enumerate(sizes):
        # Behind a call of one position more whose numbers are not finite: nothing of it may be in the way.
        layout = LAYOUTS[at % len(LAYOUTS)]
        calls.append({**_call(draw_tokens(rng, *size), at % 2), "layout": layout, "after_nan": layout == "columns"})
    calls.append(_call(_nearly_the_same(rng), 0))
    few = draw_tokens(rng, 2, 6)
    # Rows that change places leave every sum as it was; one number of each part is rarely among some that are compared.
    calls += [_call(few, 0, [(str(name), -1)]) for name in rng.permutation(sorted(weights))]
    places = {name: int(rng.integers(part.size)) for name, part in weights.items()}
    places["embedding"] = 128 * int(few[0, -1]) + places["embedding"] % 128
    # Of a thick sample of all parts some number is always among those; of a single part alone it rarely is.
    alone = [[(str(name), places[name])] for name in rng.permutation(sorted(weights))[:SINGLE]]
    return [*calls, *(_call(few, 0, changed) for changed in (list(places.items()), *alone))]


def _call(tokens: NDArray[np.int64], weights: int, changed: list[tuple[str, int]] | None = None) -> dict[str, Any]:
    return {"tokens": tokens, "weights": weights, "changed": changed or [], "layout": "plain", "after_nan": False}


def _nearly_the_same(rng: np.random.Generator) -> NDArray[np.int64]:
    first = draw_tokens(rng, 1, 128)
    rows = np.repeat(first, len(ALIKE) + 1, axis=0)
    for row, place in enumerate(ALIKE):
        rows[row, place] = (rows[row, place] + 1 + rng.integers(1000)) % 4096
    return rows
