"""The parameters that a new layer begins with."""

from __future__ import annotations

from typing import Any

import numpy as np
from compared import assert_near
from layers import KEYS, shapes_of

from bench.judge import array, mapping, sequence


def assert_spread(found: Any, shape: tuple[int, ...]) -> None:
    """Of one A, or of the A of many small layers: spread, and drawn entry by entry."""
    a, rank, inside = array(found, shape=shape), *shape[-2:]
    spread, mean, wanted = float(a.std()), float(a.mean()), rank**-0.5
    told = f"rank {rank}, {inside} inputs: A spreads by {spread:.4f} around {mean:.4f}, expected {wanted:.4f} around 0"
    assert abs(spread / wanted - 1) < 0.1 and abs(mean) < 0.15 * wanted, told
    entries = a.reshape(len(a), -1) / spread
    for rows in (entries, entries.T):
        # Where rows know nothing of each other, a product has the standard deviation sqrt(n); few entries tell nothing.
        alike = float(np.abs(np.triu(rows @ rows.T, 1)).max(initial=0.0)) / rows.shape[1] ** 0.5
        assert alike < 8 or rows.shape[1] < 100, f"{told}; but parts of A follow from others"


def assert_start(ws: Any, sizes: dict[str, Any]) -> None:
    """Of a layer, which computes what its base layer does, and of another one that was made after it."""
    inside = sizes["in_features"]
    x = np.random.default_rng(ws.rng.getrandbits(128)).normal(size=(3, inside)).astype(np.float32)
    layers = sequence(ws.drive("driver.py:fresh", sizes, x, ws.seed_for("fresh")), length=2)
    one, two = (mapping(layer, keys=(*KEYS.values(), "out")) for layer in layers)
    first = {key: array(one[key], shape=shape) for key, shape in shapes_of(sizes).items()}
    a, weight, bias = (first[key] for key in ("lora_A", "linear.weight", "linear.bias"))
    assert_spread(a, a.shape)
    assert not first["lora_B"].any(), "B does not start at zero"
    for key in ("lora_A", "linear.weight"):
        assert not np.array_equal(first[key], array(two[key], shape=first[key].shape)), (
            f"two layers start with one {key}"
        )
    # PyTorch draws weight and bias evenly from +-1/sqrt(in): a standard deviation of 1/sqrt(3 in).
    bound = inside**-0.5
    assert 0.5 < float(np.abs(bias).max()) / bound < 1.0001, "the base bias does not spread as PyTorch's"
    ratio, most = float(weight.std()) * 3**0.5 / bound, float(np.abs(weight).max()) / bound
    told = f"the base weight spreads {ratio:.3f} times as far as PyTorch's, up to {most:.3f} times its bound"
    assert 0.97 < ratio < 1.03 and 0.99 < most < 1.0001, told
    assert_near(one["out"], x.astype(np.float64) @ weight.T + bias, "fresh layer against its base layer")
