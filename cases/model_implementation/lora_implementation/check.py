"""Judges LoraLinear by its values: every matrix holds numbers other than zero and is compared with the formula.

The driver shares a process with lora.py, so that flags, kinds and devices that it names are claims. What they mean is
seen in numbers: what is frozen and what is not by the path that training takes, worked out here as well (`descent.py`);
dtypes by the digits that values keep. That the base layer and the merged one are of the class torch.nn.Linear, and that
parameters are on the meta device, remains the process's word, and earns nothing by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from descent import Adam, Descent, dense, descended, output

from bench.judge import Made, Probe, array, check, mapping, number, run_command, sequence, string

KEYS = {"weight": "linear.weight", "bias": "linear.bias", "a": "lora_A", "b": "lora_B"}
LAYER = Probe(
    "LoraLinear(in_features, out_features, rank=4, alpha=1.0, bias=True, device=None, dtype=None)",
    target="lora:LoraLinear",
    observe="driver.py:seen",
    promised={
        "modes": "in training and in evaluation mode",
        "gradients": "with gradients enabled and without (`torch.no_grad()`)",
        "integers": "any number: an integer, zero or a negative one",
        "sizes": "Every size from 1 on works",
        "inputs": "It does not change x.",
        "repeats": "always with the parameters as they are at that moment",
    },
)
F32 = 2e-4  # float32 sums of some dozens of products of size one


def _sizes(ws: Any, rank: int, alpha: float | None = None, bias: bool = True) -> dict[str, Any]:
    """Constructor arguments with fresh odd sizes."""
    alpha = round(ws.rng.uniform(0.3, 9.0), 3) if alpha is None else alpha
    sizes = {"in_features": ws.rng.randint(9, 30), "out_features": ws.rng.randint(9, 30)}
    return {**sizes, "rank": rank, "alpha": alpha, "bias": bias}


def _arrays(ws: Any, sizes: dict[str, Any], kind: Any = np.float32) -> tuple[dict[str, Any], np.random.Generator]:
    """Fresh parameters, none of them zero."""
    draw = np.random.default_rng(ws.rng.getrandbits(128))
    shapes: dict[str, tuple[int, ...]] = {
        "weight": (sizes["out_features"], sizes["in_features"]),
        "a": (sizes["rank"], sizes["in_features"]),
        "b": (sizes["out_features"], sizes["rank"]),
    }
    if sizes["bias"]:
        shapes["bias"] = (sizes["out_features"],)
    return {name: draw.normal(size=shape).astype(kind) for name, shape in shapes.items()}, draw


def _assert_close(found: Any, expected: Any, what: str, tolerance: float = F32) -> None:
    """Largest deviation, measured in units of the largest expected value."""
    values = array(found, shape=expected.shape)
    if not expected.size:
        return
    # Zeros are expected exactly.
    deviation = float(np.abs(values - expected).max() / max(float(np.abs(expected).max()), 1e-30))
    assert deviation <= tolerance, f"{what}: off by {deviation:.3g} of the largest value, allowed {tolerance:.3g}"


def _assert_path(
    ws: Any, sizes: dict[str, Any], arrays: dict[str, Any], data: tuple[Any, Any], moves: Descent, tolerance: float
) -> dict[str, Any]:
    """Train the layer, and compare every parameter with where the judge's own descent leads."""
    named = KEYS if sizes["bias"] else {name: key for name, key in KEYS.items() if name != "bias"}
    plan = (type(moves).__name__, moves.steps, moves.rate)
    found = mapping(ws.drive("driver.py:trained", sizes, arrays, *data, *plan), keys=list(named.values()))
    told = f"after {moves.steps} steps of {plan[0]}"
    assert sorted(found) == sorted(named.values()), f"{told} the parameters are {sorted(found)[:6]}"
    weight = array(found["linear.weight"], shape=arrays["weight"].shape)
    assert np.array_equal(weight, arrays["weight"]), f"{told} the base weight is not what it was"
    goal = descended(sizes, arrays, *data, moves)
    # Of all parameters together: one that ends near its start has still been far away, and gathered errors there.
    moved = max(float(np.abs(goal[name] - arrays[name]).max()) for name in named)
    for name, key in named.items():
        apart = float(np.abs(array(found[key], shape=goal[name].shape) - goal[name]).max())
        allowed = tolerance * moved + 2e-6 * float(np.abs(goal[name]).max())
        assert apart <= allowed, (
            f"{key} {told} is off the judge's own by {apart:.3g}, where training moves by {moved:.3g}"
        )
    return {name: array(found[key]) for name, key in named.items()}


@check(weight=1, required=True)
def parts_and_freezing(ws: Any) -> None:
    """The layer has exactly the stated parameters; training moves all of them but the base weight, as it should."""
    for rank, bias in ((1, True), (3, False), (7, True)):
        sizes = _sizes(ws, rank, bias=bias)
        found = mapping(
            ws.drive("driver.py:describe", sizes),
            keys=("state", "trainable", "base_is_linear", "buffers", "attributes"),
        )
        state = {
            "linear.weight": [sizes["out_features"], sizes["in_features"]],
            "lora_A": [rank, sizes["in_features"]],
            "lora_B": [sizes["out_features"], rank],
        }
        if bias:
            state["linear.bias"] = [sizes["out_features"]]
        shapes = {name: list(array(value).shape) for name, value in mapping(found["state"]).items()}
        assert shapes == state, f"the state dictionary holds {shapes}, expected {state}"
        frozen = sorted(name for name, flag in mapping(found["trainable"]).items() if flag is not True)
        assert frozen == ["linear.weight"], f"without requires_grad are {frozen}, expected only linear.weight"
        assert found["base_is_linear"] is True, "the attribute linear is not a torch.nn.Linear"
        assert not sequence(found["buffers"]), "the layer has buffers"
        _assert_attributes(found["attributes"], sizes)
        arrays, draw = _arrays(ws, sizes)
        data = tuple(draw.normal(size=(16, sizes[side])).astype(np.float32) for side in ("in_features", "out_features"))
        # Steeper where alpha / rank is large: the steps stay small enough not to run away.
        rate = 0.05 / (1 + (sizes["alpha"] / rank) ** 2)
        _assert_path(ws, sizes, arrays, data, Descent(ws.rng.randint(3, 9), rate), 1e-4)


def _assert_attributes(found: Any, sizes: dict[str, Any]) -> None:
    attributes = mapping(found)
    for name in ("in_features", "out_features", "rank", "alpha"):
        value = number(attributes.get(name))
        assert value == sizes[name], f"the attribute {name} is {value}, given was {sizes[name]}"


@check(weight=2, required=True)
def signature_is_kept(ws: Any) -> None:
    """Names, order and defaults of the arguments are those stated, by name, by position and left out."""
    given = {**_sizes(ws, 3, bias=False), "device": None, "dtype": Made("torch.float64")}
    LAYER.signature(ws, given, _inputs(ws), _right)


@check(weight=2, required=True)
def settings_and_sizes(ws: Any) -> None:
    """The formula holds in every mode, with and without gradients, for integers and for sizes from 0 to thousands."""
    LAYER.settings(ws, _sizes(ws, 3), _inputs(ws), _right)
    for rank, alpha in ((2, 3), (5, 0), (4, -1.5)):
        LAYER.compare(ws, "integers", _sizes(ws, rank, alpha), _inputs(ws), _right)
    for lead in ((0,), (2, 0, 3), (1, 1), (3, 2)):
        LAYER.compare(ws, "sizes", _sizes(ws, 2), _inputs(ws, lead), _right)
    for lead in ((1,), (4000,)):
        LAYER.settings(ws, _sizes(ws, 2), _inputs(ws, lead), _right)
    for wide, narrow, rank in ((1, 1, 1), (1, 7, 3), (600, 1, 20)):
        LAYER.compare(ws, "sizes", {"in_features": wide, "out_features": narrow, "rank": rank}, _inputs(ws), _right)
    LAYER.repeats(ws, _sizes(ws, 3), _sizes(ws, 6, bias=False), _inputs(ws), _right)


def _inputs(ws: Any, lead: tuple[int, ...] = (5,)) -> Any:
    """Draws the layer's parameters, an input for it, and what is sent back."""

    def draw(sizes: dict[str, Any]) -> list[Any]:
        kind = np.float32 if sizes["dtype"] is None else np.float64
        arrays, rng = _arrays(ws, sizes, kind)
        sides = (rng.normal(size=(*lead, sizes[side])).astype(kind) for side in ("in_features", "out_features"))
        return [arrays, *sides]

    return draw


def _right(sizes: dict[str, Any], extra: Any, value: Any) -> None:
    """What the layer computes and passes back, its merged weight and its attributes are those of the formula."""
    arrays, x, up = extra
    found = mapping(value, keys=("out", "merged", "state", "attributes", "gradients", "later"))
    names = sorted(key for name, key in KEYS.items() if name in arrays)
    state = sequence(found["state"])
    assert sorted(map(str, state)) == names, f"the state dictionary has {state[:6]}, expected {names}"
    tolerance = F32 if sizes["dtype"] is None else 1e-12
    _assert_close(found["out"], output(sizes, arrays, x), "output", tolerance)
    _assert_close(found["merged"], dense(sizes, arrays), "merged weight", tolerance)
    for what in ("out", "merged"):
        kind = getattr(found[what], "dtype", None)
        assert kind == x.dtype, f"{what} is {kind}, expected {x.dtype}"
    _assert_attributes(found["attributes"], sizes)
    for doubled, out in enumerate(sequence(found["later"], length=5)):
        now = {**arrays, "b": 2**doubled * arrays["b"]}
        told = "wiping the merged layer" if doubled == 0 else f"changing B for the {doubled}. time"
        _assert_close(out, output(sizes, now, x), f"output after {told}", tolerance)
    if found["gradients"] is not None:
        _assert_gradients(found["gradients"], sizes, arrays, x, up, tolerance)


def _assert_gradients(found: Any, sizes: dict[str, Any], arrays: dict[str, Any], x: Any, up: Any, near: float) -> None:
    gradients = mapping(found, keys=("lora_A", "lora_B", "x"))
    wide = x.reshape(-1, x.shape[-1]).astype(np.float64)
    back = up.reshape(-1, up.shape[-1]).astype(np.float64)
    scale = sizes["alpha"] / sizes["rank"]
    assert gradients.get("linear.weight") is None, "the frozen base weight received a gradient"
    _assert_close(gradients["lora_A"], scale * arrays["b"].T @ back.T @ wide, "gradient of A", near)
    _assert_close(gradients["lora_B"], scale * back.T @ wide @ arrays["a"].T, "gradient of B", near)
    _assert_close(gradients["x"], (back @ dense(sizes, arrays)).reshape(x.shape), "gradient of the input", near)
    if "bias" in arrays:
        _assert_close(gradients.get("linear.bias"), back.sum(axis=0), "gradient of the bias", near)


@check(weight=2, required=True)
def starts_as_the_base_layer(ws: Any) -> None:
    """A has standard deviation 1/sqrt(rank) for several ranks, B is zero, the fresh layer is the base layer."""
    for rank in (1, 4, 64):
        sizes = {**_sizes(ws, rank), "in_features": 2048}
        x = np.random.default_rng(ws.rng.getrandbits(128)).normal(size=(3, 2048)).astype(np.float32)
        layers = sequence(ws.drive("driver.py:fresh", sizes, x, ws.seed_for("fresh")), length=2)
        one, two = (
            mapping(layer, keys=("linear.weight", "linear.bias", "lora_A", "lora_B", "out")) for layer in layers
        )
        a = array(one["lora_A"], shape=(rank, 2048))
        spread, wanted = float(a.std()), rank**-0.5
        assert abs(spread / wanted - 1) < 0.1, f"rank {rank}: A spreads by {spread:.4f}, expected {wanted:.4f}"
        assert abs(float(a.mean())) < 0.15 * wanted, f"rank {rank}: A has mean {float(a.mean()):.4f}, expected about 0"
        assert not np.array_equal(a, array(two["lora_A"], shape=a.shape)), "two layers start with the same A"
        assert not array(one["lora_B"], shape=(sizes["out_features"], rank)).any(), "B does not start at zero"
        weight = array(one["linear.weight"], shape=(sizes["out_features"], 2048))
        bias = array(one["linear.bias"], shape=(sizes["out_features"],))
        assert 0.5 < float(np.abs(bias).max()) * 2048**0.5 < 1.0001, "the base bias does not spread as PyTorch's"
        # PyTorch draws a linear weight evenly from +-1/sqrt(in): a standard deviation of 1/sqrt(3 in).
        ratio = float(weight.std()) * (3 * 2048) ** 0.5
        assert 0.9 < ratio < 1.1, f"the base weight spreads {ratio:.3f} times as far as PyTorch's"
        base = x.astype(np.float64) @ weight.T + bias
        _assert_close(one["out"], base, f"rank {rank}: fresh layer against its base layer")


@check(weight=4, required=True)
def forward_matches_formula(ws: Any) -> None:
    """With random non-zero A and B the output is W x + bias + (alpha / rank) B A x, for one to four dimensions."""
    for rank, bias in ((1, True), (2, False), (3, True), (5, True), (13, False)):
        sizes = _sizes(ws, rank, bias=bias)
        arrays, draw = _arrays(ws, sizes)
        for lead in ((), (4,), (2, 3), (2, 1, 5)):
            x = draw.normal(size=(*lead, sizes["in_features"])).astype(np.float32)
            out = ws.drive("driver.py:forward", sizes, arrays, x)
            what = f"rank {rank}, alpha {sizes['alpha']}, bias {bias}, input {x.shape}"
            _assert_close(out, output(sizes, arrays, x), what)


@check(weight=2, required=True)
def alpha_over_rank(ws: Any) -> None:
    """The adapter's share of the output grows with alpha and shrinks with the rank, exactly as alpha / rank."""
    for rank in (1, 3, 6):
        sizes = _sizes(ws, rank)
        arrays, draw = _arrays(ws, sizes)
        x = draw.normal(size=(6, sizes["in_features"])).astype(np.float32)
        product = x.astype(np.float64) @ (arrays["b"].astype(np.float64) @ arrays["a"]).T
        base = x.astype(np.float64) @ arrays["weight"].T.astype(np.float64) + arrays["bias"]
        for alpha in (0.5, 1.0, 2.0, float(16 * rank)):
            out = array(ws.drive("driver.py:forward", {**sizes, "alpha": alpha}, arrays, x), shape=product.shape)
            share = float(((out - base) * product).sum() / (product**2).sum())
            wanted = alpha / rank
            assert abs(share / wanted - 1) < 2e-3, (
                f"alpha {alpha}, rank {rank}: share {share:.4f}, expected {wanted:.4f}"
            )


@check(weight=2, required=True)
def gradients_match_formula(ws: Any) -> None:
    """Gradients of A, B, bias and input equal the analytic ones, in both modes; the base weight gets none."""
    for bias in (True, False):
        LAYER.settings(ws, _sizes(ws, 2 + 3 * bias, bias=bias), _inputs(ws, (7,)), _right)


@check(weight=2, required=True)
def merged_layer_is_equal(ws: Any) -> None:
    """merged() gives a separate plain linear layer with the merged weight, and leaves the layer as it was."""
    for rank, bias, adapted in ((2, True, 1), (6, False, 1), (3, True, 0)):
        sizes = _sizes(ws, rank, bias=bias)
        arrays, draw = _arrays(ws, sizes)
        arrays["b"] *= adapted
        x = draw.normal(size=(5, sizes["in_features"])).astype(np.float32)
        keys = ("weight", "bias", "out", "after", "is_plain")
        found = mapping(ws.drive("driver.py:merge", sizes, arrays, x), keys=keys)
        assert found["is_plain"] is True, "merged() did not return a plain torch.nn.Linear"
        _assert_close(found["weight"], dense(sizes, arrays), "merged weight")
        if bias:
            _assert_close(found["bias"], arrays["bias"], "merged bias")
        else:
            assert found["bias"] is None, "the merged layer has a bias, the layer has none"
        _assert_close(found["out"], output(sizes, arrays, x), "output of the merged layer")
        _assert_close(found["after"], output(sizes, arrays, x), "output of the layer after merging")


@check(weight=1, required=True)
def state_survives_a_file(ws: Any) -> None:
    """A state dictionary saved to a file and loaded into a new layer brings back the same output."""
    for bias in (True, False):
        sizes = _sizes(ws, ws.rng.randint(2, 6), bias=bias)
        arrays, draw = _arrays(ws, sizes)
        x = draw.normal(size=(5, sizes["in_features"])).astype(np.float32)
        _assert_close(ws.drive("driver.py:reload", sizes, arrays, x), output(sizes, arrays, x), "reloaded layer")


@check(weight=1, required=True)
def dtype_and_device_are_kept(ws: Any) -> None:
    """All values keep the digits of float64, and have no more than bfloat16 can hold; the device is kept."""
    for dtype, kind, tolerance in (("float64", np.float64, 1e-12), ("bfloat16", np.float32, 0.05)):
        sizes = _sizes(ws, 3)
        arrays, draw = _arrays(ws, sizes, kind)
        x = draw.normal(size=(5, sizes["in_features"])).astype(kind)
        found = mapping(ws.drive("driver.py:typed", sizes, arrays, x, dtype), keys=("kinds", "state", "out", "merged"))
        kinds = {name: string(kind) for name, kind in mapping(found["kinds"]).items()}
        others = {name: kind for name, kind in kinds.items() if kind != f"torch.{dtype}"}
        assert not others, f"with dtype {dtype} these have another: {others}"
        state = mapping(found["state"], keys=list(KEYS.values()))
        for name, key in KEYS.items():
            kept = arrays[name] if dtype == "float64" else _brain(arrays[name])
            same = np.array_equal(array(state[key], shape=kept.shape), kept)
            assert same, f"with dtype {dtype}, {key} does not hold what was put into it as {dtype} does"
        _assert_close(found["out"], output(sizes, arrays, x), f"output in {dtype}", tolerance)
        _assert_close(found["merged"], dense(sizes, arrays), f"merged weight in {dtype}", tolerance)
        for what in ("out", "merged"):
            values = array(found[what])
            short = dtype == "float64" or np.array_equal(values, _brain(values.astype(np.float32)))
            assert short, f"with dtype {dtype}, {what} has more digits than {dtype} can hold"
    sizes = _sizes(ws, 3)
    devices = mapping(ws.drive("driver.py:on_meta", sizes), keys=["output", *KEYS.values()])
    for name, found in devices.items():
        device = string((sequence(found) or [""])[0])
        assert device == "meta", f"with device meta, {name} is on {device!r}"
    shape = sequence(devices["output"])[1:]
    assert shape == [5, sizes["out_features"]], f"with device meta the output has the shape {shape}"


def _brain(values: Any) -> Any:
    """float32 values rounded to the nearest bfloat16, to even where two are equally near."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def _distance(sizes: dict[str, Any], arrays: dict[str, Any], change: Any) -> float:
    """Mean squared distance of what A and B have learned from the change, as a share of the change's own."""
    learned = sizes["alpha"] / sizes["rank"] * (arrays["b"] @ arrays["a"])
    return float(((learned - change) ** 2).mean() / (change**2).mean())


@check(weight=2, required=True)
def fits_a_rank_two_change(ws: Any) -> float:
    """200 steps of Adam learn a rank-2 change of the weight, on the path that the judge works out; W stays."""
    sizes: dict[str, Any] = {"in_features": 24, "out_features": 20, "rank": 2, "alpha": 4.0, "bias": True}
    while True:
        arrays, draw = _arrays(ws, sizes)
        arrays["b"] = np.zeros_like(arrays["b"])
        x = draw.normal(size=(256, 24)).astype(np.float32)
        change = draw.normal(size=(20, 2)) @ draw.normal(size=(2, 24))
        target = (x @ (arrays["weight"] + change).T + arrays["bias"]).astype(np.float32)
        # One start in some hundreds is unlucky: from there 200 steps do not reach the change.
        if _distance(sizes, descended(sizes, arrays, x, target, Adam(200, 0.05)), change) < 0.002:
            break
    # Float32 and float64 part by a thousandth in 200 steps, and hardly at all in 60.
    _assert_path(ws, sizes, arrays, (x, target), Adam(ws.rng.randint(20, 60), 0.05), 1e-3)
    end = _assert_path(ws, sizes, arrays, (x, target), Adam(200, 0.05), 0.02)
    error = _distance(sizes, end, change)
    ws.metric("fit_error", error)
    return float(ws.scale(error, floor=0.8, target=0.02))


@check(weight=0, required=True)
def visible_test_passes(ws: Any) -> None:
    """The visible test ends well."""
    run_command(ws, "python test_lora.py")
