"""Compares what a layer with a low-rank adapter computes, and what it is made of, with the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
from descent import dense, output
from layers import KEYS

from bench.judge import array, close, mapping, number, sequence, string

F32, F64 = 2e-4, 1e-12  # sums of some dozens of products of size one
# What the driver doubles, one after the other, between two passes of one layer; B in four ways.
DOUBLED = ("b", "b", "b", "b", "a", "weight", "bias")


def assert_near(found: Any, expected: Any, what: str, tolerance: float = F32) -> None:
    """Deviations are measured in units of the largest expected value; zeros are expected exactly."""
    largest = float(np.abs(expected).max()) if expected.size else 0.0
    close(array(found, shape=expected.shape), expected, rtol=0, atol=tolerance * largest, what=what)


def assert_attributes(found: Any, sizes: dict[str, Any]) -> None:
    attributes = mapping(found)
    for name in ("in_features", "out_features", "rank", "alpha"):
        value = number(attributes.get(name))
        assert value == sizes[name], f"the attribute {name} is {value}, given was {sizes[name]}"


def right(sizes: dict[str, Any], extra: Any, value: Any) -> None:
    """What the layer computes and passes back, its merged weight and its attributes are those of the formula."""
    arrays, x, up = extra
    found = mapping(value, keys=("out", "merged", "state", "attributes", "gradients", "later", "double"))
    names = sorted(key for name, key in KEYS.items() if name in arrays)
    state = sequence(found["state"])
    assert sorted(map(str, state)) == names, f"the state dictionary has {state[:6]}, expected {names}"
    tolerance = F32 if sizes["dtype"] is None else F64
    assert_near(found["out"], output(sizes, arrays, x), "output", tolerance)
    assert_near(found["merged"], dense(sizes, arrays), "merged weight", tolerance)
    for what in ("out", "merged"):
        kind = getattr(found[what], "dtype", None)
        assert kind == x.dtype, f"{what} is {kind}, expected {x.dtype}"
    assert_attributes(found["attributes"], sizes)
    _assert_present(found, sizes, arrays, x, tolerance)
    if found["gradients"] is not None:
        assert_gradients(found["gradients"], sizes, arrays, x, up, tolerance)


def _assert_present(found: dict[str, Any], sizes: dict[str, Any], arrays: dict[str, Any], x: Any, near: float) -> None:
    """Each later pass is with the parameters as they are then."""
    now, told = arrays, "wiping the merged layer"
    first, *later = sequence(found["later"], length=1 + len(DOUBLED))
    assert_near(first, output(sizes, now, x), f"output after {told}", near)
    for name, out in zip(DOUBLED, later, strict=True):
        now = {key: value * (2 if key == name else 1) for key, value in now.items()}
        assert_near(out, output(sizes, now, x), f"output after a change of {KEYS[name]}", near)
    out, merged = sequence(found["double"], length=2)
    assert_near(out, output(sizes, now, x), "output of the layer moved to float64", F64)
    assert_near(merged, dense(sizes, now), "merged weight of the layer moved to float64", F64)


def assert_merged_gradients(found: Any, sizes: dict[str, Any], arrays: dict[str, Any], x: Any) -> None:
    """Of the sum of all outputs: the layer's are its own, and those of the merged layer are from its own pass alone."""
    own, merged = sequence(found, length=2)
    up = np.ones((*x.shape[:-1], sizes["out_features"]))
    assert_gradients(own, sizes, arrays, x, up, F32)
    gradients = mapping(merged)
    assert_near(gradients.get("weight"), up.T @ x, "gradient of the merged weight", F32)
    if "bias" in arrays:
        assert_near(gradients.get("bias"), up.sum(axis=0), "gradient of the merged bias", F32)


def assert_gradients(found: Any, sizes: dict[str, Any], arrays: dict[str, Any], x: Any, up: Any, near: float) -> None:
    gradients = mapping(found, keys=("lora_A", "lora_B", "x"))
    wide = x.reshape(-1, x.shape[-1]).astype(np.float64)
    back = up.reshape(-1, up.shape[-1]).astype(np.float64)
    scale = sizes["alpha"] / sizes["rank"]
    assert gradients.get("linear.weight") is None, "the frozen base weight received a gradient"
    assert_near(gradients["lora_A"], scale * arrays["b"].T @ back.T @ wide, "gradient of A", near)
    assert_near(gradients["lora_B"], scale * back.T @ wide @ arrays["a"].T, "gradient of B", near)
    assert_near(gradients["x"], (back @ dense(sizes, arrays)).reshape(x.shape), "gradient of the input", near)
    if "bias" in arrays:
        assert_near(gradients.get("linear.bias"), back.sum(axis=0), "gradient of the bias", near)


def assert_typed(found: Any, dtype: str, sizes: dict[str, Any], arrays: dict[str, Any], x: Any) -> None:
    """Parameters, output and merged layer have the dtype by name, by the digits they keep, and by their values."""
    answer = mapping(found, keys=("kinds", "state", "out", "merged"))
    kinds = {name: string(kind) for name, kind in mapping(answer["kinds"]).items()}
    others = {name: kind for name, kind in kinds.items() if kind != f"torch.{dtype}"}
    assert not others, f"with dtype {dtype} these have another: {others}"
    state = mapping(answer["state"], keys=list(KEYS.values()))
    for name, key in KEYS.items():
        kept = arrays[name] if dtype == "float64" else _as_bfloat16(arrays[name])
        same = np.array_equal(array(state[key], shape=kept.shape), kept)
        assert same, f"with dtype {dtype}, {key} does not hold what was put into it as {dtype} does"
    near = F64 if dtype == "float64" else 0.05
    for what, expected in (("out", output(sizes, arrays, x)), ("merged", dense(sizes, arrays))):
        assert_near(answer[what], expected, f"{what} in {dtype}", near)
        values = array(answer[what])
        short = dtype == "float64" or np.array_equal(values, _as_bfloat16(values))
        assert short, f"with dtype {dtype}, {what} has more digits than {dtype} can hold"


def _as_bfloat16(values: Any) -> Any:
    """Values rounded to the nearest bfloat16, to even where two are equally near."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def assert_on_meta(found: Any, sizes: dict[str, Any]) -> None:
    """All parameters, the output and the merged layer are on the meta device, by the word of the process."""
    for layer in sequence(found, length=2):
        devices = mapping(layer, keys=["output", "merged weight", "merged bias", *KEYS.values()])
        for name, told in devices.items():
            device = string((sequence(told) or [""])[0])
            assert device == "meta", f"of a layer on the device meta, {name} is on {device!r}"
        shape = sequence(devices["output"])[1:]
        assert shape == [5, sizes["out_features"]], f"on the device meta the output has the shape {shape}"
