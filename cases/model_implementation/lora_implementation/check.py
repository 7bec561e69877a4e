"""Judges LoraLinear by its values: every matrix holds numbers other than zero and is compared with the formula.

The driver shares a process with lora.py, so that flags, kinds and devices that it names are claims. What they mean is
seen in numbers: what is frozen and what is not by the path that training takes, worked out here as well (`descent.py`);
dtypes by the digits that values keep. That the base layer and the merged one are of the class torch.nn.Linear, and that
parameters are on the meta device, remains the process's word, and earns nothing by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from compared import assert_attributes, assert_merged_gradients, assert_near, assert_on_meta, assert_typed, right
from descent import Adam, Descent, dense, descended, output
from layers import arrays_of, inputs, shapes_of, sizes_of
from paths import assert_path, distance
from starts import assert_spread, assert_start

from bench.judge import Made, Probe, array, check, mapping, run_command, sequence, string

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


@check(weight=1, required=True)
def parts_and_freezing(ws: Any) -> None:
    """The layer has exactly the stated parameters; training moves all of them but the base weight, as it should."""
    for rank, bias in ((1, True), (3, False), (7, True)):
        sizes = sizes_of(ws, rank, bias=bias)
        keys = ("state", "trainable", "base_is_linear", "buffers", "attributes")
        found = mapping(ws.drive("driver.py:describe", sizes), keys=keys)
        shapes = {name: array(value).shape for name, value in mapping(found["state"]).items()}
        assert shapes == shapes_of(sizes), f"the state dictionary holds {shapes}, expected {shapes_of(sizes)}"
        frozen = sorted(name for name, flag in mapping(found["trainable"]).items() if flag is not True)
        assert frozen == ["linear.weight"], f"without requires_grad are {frozen}, expected only linear.weight"
        assert found["base_is_linear"] is True, "the attribute linear is not a torch.nn.Linear"
        assert not sequence(found["buffers"]), "the layer has buffers"
        assert_attributes(found["attributes"], sizes)
        arrays, draw = arrays_of(ws, sizes)
        data = tuple(draw.normal(size=(16, sizes[side])).astype(np.float32) for side in ("in_features", "out_features"))
        # Steeper where alpha / rank is large: the steps stay small enough not to run away.
        rate = 0.05 / (1 + (sizes["alpha"] / rank) ** 2)
        assert_path(ws, sizes, arrays, data, Descent(ws.rng.randint(3, 9), rate), 1e-4)


@check(weight=2, required=True)
def signature_is_kept(ws: Any) -> None:
    """Names, order and defaults of the arguments are those stated, by name, by position and left out."""
    given = {**sizes_of(ws, 3, bias=False), "device": None, "dtype": Made("torch.float64")}
    LAYER.signature(ws, given, inputs(ws), right)


@check(weight=2, required=True)
def settings_and_sizes(ws: Any) -> None:
    """The formula holds in every mode, with and without gradients, for integers and for sizes from 0 to thousands."""
    LAYER.settings(ws, sizes_of(ws, 3), inputs(ws), right)
    for rank, alpha in ((2, 3), (5, 0), (4, -1.5)):
        LAYER.compare(ws, "integers", sizes_of(ws, rank, alpha), inputs(ws), right)
    for lead in ((), (0,), (2, 0, 3), (1, 1), (3, 2), (2, 1, 3, 1, 2)):
        LAYER.compare(ws, "sizes", sizes_of(ws, 2), inputs(ws, lead), right)
    for lead in ((1,), (ws.rng.randint(9000, 9999),)):
        LAYER.settings(ws, sizes_of(ws, 2), inputs(ws, lead), right)
    for wide, narrow, rank in ((1, 1, 1), (1, 7, 3), (600, 1, 20), (2, 3, 9)):
        LAYER.compare(ws, "sizes", {"in_features": wide, "out_features": narrow, "rank": rank}, inputs(ws), right)
    LAYER.repeats(ws, sizes_of(ws, 3), sizes_of(ws, 6, bias=False), inputs(ws), right)


@check(weight=2, required=True)
def starts_as_the_base_layer(ws: Any) -> None:
    """A has standard deviation 1/sqrt(rank) for several ranks, B is zero, the fresh layer is the base layer."""
    for rank, inside, outside in ((1, 2048, 20), (64, 2048, 20), (300, 8, 1200)):
        assert_start(ws, {**sizes_of(ws, rank), "in_features": inside, "out_features": outside})
    for rank, inside in ((1, 1), (1, 2), (3, 1)):
        sizes = {"in_features": inside, "out_features": 1, "rank": rank}
        assert_spread(ws.drive("driver.py:many", sizes, 2000, ws.seed_for("many")), (2000, rank, inside))


@check(weight=4, required=True)
def forward_matches_formula(ws: Any) -> None:
    """With random non-zero A and B the output is W x + bias + (alpha / rank) B A x, for one to four dimensions."""
    for rank, bias in ((1, True), (2, False), (3, True), (5, True), (13, False)):
        sizes = sizes_of(ws, rank, bias=bias)
        arrays, draw = arrays_of(ws, sizes)
        for lead in ((), (4,), (2, 3), (2, 1, 5)):
            x = draw.normal(size=(*lead, sizes["in_features"])).astype(np.float32)
            out = ws.drive("driver.py:forward", sizes, arrays, x)
            what = f"rank {rank}, alpha {sizes['alpha']}, bias {bias}, input {x.shape}"
            assert_near(out, output(sizes, arrays, x), what)


@check(weight=2, required=True)
def alpha_over_rank(ws: Any) -> None:
    """The adapter's share of the output grows with alpha and shrinks with the rank, exactly as alpha / rank."""
    for rank in (1, 3, 6):
        sizes = sizes_of(ws, rank)
        arrays, draw = arrays_of(ws, sizes)
        x = draw.normal(size=(6, sizes["in_features"])).astype(np.float32)
        product = x.astype(np.float64) @ (arrays["b"].astype(np.float64) @ arrays["a"]).T
        base = x.astype(np.float64) @ arrays["weight"].T.astype(np.float64) + arrays["bias"]
        for alpha in (0.5, 1.0, 2.0, float(16 * rank)):
            out = array(ws.drive("driver.py:forward", {**sizes, "alpha": alpha}, arrays, x), shape=product.shape)
            share = float(((out - base) * product).sum() / (product**2).sum())
            told = f"alpha {alpha}, rank {rank}: share {share:.4f}, expected {alpha / rank:.4f}"
            assert abs(share * rank / alpha - 1) < 2e-3, told


@check(weight=2, required=True)
def gradients_match_formula(ws: Any) -> None:
    """Gradients of A, B, bias and input equal the analytic ones, in both modes; the base weight gets none."""
    for bias in (True, False):
        # Without a bias B is zero, too: such an adapter changes nothing, and has gradients nevertheless.
        steep = 1e6 if bias else 1e-6  # no bound on a gradient is promised
        LAYER.settings(ws, sizes_of(ws, 2 + 3 * bias, bias=bias), inputs(ws, (7,), bias, steep), right)


@check(weight=2, required=True)
def merged_layer_is_equal(ws: Any) -> None:
    """merged() gives a separate plain linear layer with the merged weight, and leaves the layer as it was."""
    for rank, bias, adapted in ((2, True, 1), (6, False, 1), (3, True, 0)):
        sizes = sizes_of(ws, rank, bias=bias)
        arrays, draw = arrays_of(ws, sizes)
        arrays["b"] *= adapted
        if not adapted:
            arrays["bias"] *= 1e5  # so large that a weight read off outputs is lost in it
        x = draw.normal(size=(5, sizes["in_features"])).astype(np.float32)
        keys = ("weight", "bias", "out", "after", "is_plain", "modes", "back")
        found = mapping(ws.drive("driver.py:merge", sizes, arrays, x), keys=keys)
        assert found["is_plain"] is True, "merged() did not return a plain, trainable Linear, whatever the layer is"
        assert found["modes"] == [True, False], "merged() changes the mode of the layer"
        assert_near(found["weight"], dense(sizes, arrays), "merged weight")
        if bias:
            assert_near(found["bias"], arrays["bias"], "merged bias")
        else:
            assert found["bias"] is None, "the merged layer has a bias, the layer has none"
        assert_near(found["out"], output(sizes, arrays, x), "output of the merged layer")
        assert_near(found["after"], output(sizes, arrays, x), "output of the layer after merging")
        assert_merged_gradients(found["back"], sizes, arrays, x)


@check(weight=1, required=True)
def state_survives_a_file(ws: Any) -> None:
    """A state dictionary saved to a file and loaded into a new layer brings back the same output."""
    for bias in (True, False):
        sizes = sizes_of(ws, ws.rng.randint(2, 6), bias=bias)
        arrays, draw = arrays_of(ws, sizes)
        x = draw.normal(size=(5, sizes["in_features"])).astype(np.float32)
        assert_near(ws.drive("driver.py:reload", sizes, arrays, x), output(sizes, arrays, x), "reloaded layer")


@check(weight=1, required=True)
def dtype_and_device_are_kept(ws: Any) -> None:
    """All values keep the digits of float64, and have no more than bfloat16 can hold; the device is kept."""
    for dtype, kind in (("float64", np.float64), ("bfloat16", np.float32)):
        sizes = sizes_of(ws, 3)
        arrays, draw = arrays_of(ws, sizes, kind)
        x = draw.normal(size=(5, sizes["in_features"])).astype(kind)
        assert_typed(ws.drive("driver.py:typed", sizes, arrays, x, dtype), dtype, sizes, arrays, x)
    sizes = sizes_of(ws, 3)
    assert_on_meta(ws.drive("driver.py:on_meta", sizes), sizes)
    kept = [string(told) for told in sequence(ws.drive("driver.py:defaults", sizes))]
    assert kept == ["meta torch.float64"], f"torch's own defaults are not kept, but {str(kept)[:60]}"


@check(weight=2, required=True)
def fits_a_rank_two_change(ws: Any) -> float:
    """200 steps of Adam learn a rank-2 change of the weight, on the path that the judge works out; W stays."""
    sizes: dict[str, Any] = {"in_features": 24, "out_features": 20, "rank": 2, "alpha": 4.0, "bias": True}
    while True:
        arrays, draw = arrays_of(ws, sizes)
        arrays["b"] = np.zeros_like(arrays["b"])
        x = draw.normal(size=(256, 24)).astype(np.float32)
        change = draw.normal(size=(20, 2)) @ draw.normal(size=(2, 24))
        target = (x @ (arrays["weight"] + change).T + arrays["bias"]).astype(np.float32)
        # One start in some hundreds is unlucky: from there 200 steps do not reach the change.
        if distance(sizes, descended(sizes, arrays, x, target, Adam(200, 0.05)), change) < 0.002:
            break
    # Float32 and float64 part by a thousandth in 200 steps, and hardly at all in 60.
    assert_path(ws, sizes, arrays, (x, target), Adam(ws.rng.randint(20, 60), 0.05), 1e-3)
    end = assert_path(ws, sizes, arrays, (x, target), Adam(200, 0.05), 0.02)
    error = distance(sizes, end, change)
    ws.metric("fit_error", error)
    return float(ws.scale(error, floor=0.8, target=0.02))


@check(weight=0, required=True)
def visible_test_passes(ws: Any) -> None:
    """The visible test ends well."""
    run_command(ws, "python test_lora.py")
