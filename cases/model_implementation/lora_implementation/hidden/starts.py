"""The parameters that a new layer begins with."""

from __future__ import annotations

from typing import Any

import numpy as np
from layers import shapes_of

from bench.judge import array


def assert_start(one: dict[str, Any], two: dict[str, Any], sizes: dict[str, Any]) -> tuple[Any, Any]:
    """Of a layer, and of another one that was made after it; gives the weight and the bias of the base layer."""
    rank, inside = sizes["rank"], sizes["in_features"]
    first = {key: array(one[key], shape=shape) for key, shape in shapes_of(sizes).items()}
    a, weight, bias = (first[key] for key in ("lora_A", "linear.weight", "linear.bias"))
    spread, wanted = float(a.std()), rank**-0.5
    assert abs(spread / wanted - 1) < 0.1, f"rank {rank}: A spreads by {spread:.4f}, expected {wanted:.4f}"
    assert abs(float(a.mean())) < 0.15 * wanted, f"rank {rank}: A has mean {float(a.mean()):.4f}, expected about 0"
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
    return weight, bias
