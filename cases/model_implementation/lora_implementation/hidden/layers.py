"""Draws layers with a low-rank adapter: arguments of the constructor, parameters and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

KEYS = {"weight": "linear.weight", "bias": "linear.bias", "a": "lora_A", "b": "lora_B"}


def sizes_of(ws: Any, rank: int, alpha: float | None = None, bias: bool = True) -> dict[str, Any]:
    """Constructor arguments with fresh odd sizes."""
    alpha = round(ws.rng.uniform(0.3, 9.0), 3) if alpha is None else alpha
    sizes = {"in_features": ws.rng.randint(9, 30), "out_features": ws.rng.randint(9, 30)}
    return {**sizes, "rank": rank, "alpha": alpha, "bias": bias}


def arrays_of(ws: Any, sizes: dict[str, Any], kind: Any = np.float32) -> tuple[dict[str, Any], np.random.Generator]:
    """Fresh parameters, none of them zero."""
    draw = np.random.default_rng(ws.rng.getrandbits(128))
    shapes = shapes_of(sizes)
    # The bias last, so that layers with and without one have the same matrices.
    names = [name for name in ("weight", "a", "b", "bias") if KEYS[name] in shapes]
    return {name: draw.normal(size=shapes[KEYS[name]]).astype(kind) for name in names}, draw


def shapes_of(sizes: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Of the state dictionary."""
    inside, outside, rank = (sizes[name] for name in ("in_features", "out_features", "rank"))
    shapes: dict[str, tuple[int, ...]] = {"linear.weight": (outside, inside)}
    shapes |= {"lora_A": (rank, inside), "lora_B": (outside, rank)}
    return {**shapes, "linear.bias": (outside,)} if sizes["bias"] else shapes


def inputs(ws: Any, lead: tuple[int, ...] = (5,), adapted: bool = True, steep: float = 1.0) -> Any:
    """Draws the layer's parameters, with a B of zeros where it is not adapted, an input, and what is sent back.

    steep: how large that is.
    """

    def draw(sizes: dict[str, Any]) -> list[Any]:
        kind = np.float32 if sizes["dtype"] is None else np.float64
        arrays, rng = arrays_of(ws, sizes, kind)
        arrays["b"] *= adapted
        x, up = (rng.normal(size=(*lead, sizes[side])) for side in ("in_features", "out_features"))
        return [arrays, x.astype(kind), (steep * up).astype(kind)]

    return draw
