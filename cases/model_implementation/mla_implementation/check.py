"""Judges latent attention by outputs, caches and gradients with the judge's weights; the reference is numpy.

What the driver returns comes from the process that has the agent's mla.py, and is compared with what must come out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from reference import attention, drawn

from bench.casekit.given_code import altered
from bench.judge import check, close, mapping, number, run_command, sequence

SIZES = ((48, 4), (24, 1), (40, 2), (72, 3))  # width and heads; 2/3 of 40 is no whole number


def _calls(ws: Any, d: int, heads: int, calls: list[dict[str, Any]], *, sharp: float = 1.0, **more: Any) -> None:
    """Make the calls and compare outputs, caches and inputs with the judge's; x is drawn for each call.

    sharp: by how much scores are larger than usual.
    """
    weights, rng = drawn(ws.rng.getrandbits(60), d, heads), ws.numpy_rng(f"{ws.rng.random()}")
    weights["W_uq"] = sharp * weights["W_uq"]
    for call in calls:
        call["x"] = rng.normal(size=(*call.pop("shape"), d)) if "shape" in call else call["x"]
    answer = ws.drive("driver.py:called", {"d_model": d, "n_heads": heads, **more}, weights, calls)
    caches: list[Any] = []
    for call, entry in zip(calls, sequence(answer, length=len(calls)), strict=True):
        x, out, new, kind = sequence(entry, length=4)
        weights = {name: call.get("scaled", 1.0) * value for name, value in weights.items()}
        cache = None if call.get("cache") is None else caches[call["cache"]][:, : call["past"]]
        theta = call.get("theta", more.get("rope_theta", 1e4))
        wanted, raw = attention(weights, call["x"], heads, cache, call["past"], theta)
        caches.append(raw)
        exact = call.get("dtype", "float64") == "float64"
        told = f"width {d}, {heads} heads, {call['x'].shape[1]} positions after {call['past']}"
        assert kind == f"torch.{call.get('dtype', 'float64')}", f"{told}: the output is {kind}"
        for name, found, right in (("output", out, wanted), ("cache", new, raw)):
            allowed = 1e-9 if exact else 2e-4
            close(found, right, rtol=0, atol=allowed * float(np.abs(right).max()), what=f"{told}: the {name}")
        close(x, call["x"], rtol=0, atol=0 if exact else 1e-6, what="x after the call")


@check(weight=3, required=True)
def whole_sequences_match(ws: Any) -> None:
    """Without a cache the output and the raw cache are the judge's, for several widths, heads, batches and lengths."""
    for d, heads in SIZES:
        _calls(ws, d, heads, [{"shape": shape, "past": 0} for shape in ((2, 7), (1, 1), (3, 1), (1, 40))])
    _calls(ws, 128, 4, [{"shape": (1, 6), "past": 0}])
    _calls(ws, 48, 4, [{"shape": (1, 30), "past": 0}], rope_theta=100.0, max_len=30)
    # What may not be seen stays unseen, however large its score is.
    _calls(ws, 24, 2, [{"shape": (8, 9), "past": 0}], sharp=3e4)


@check(weight=3, required=True)
def cached_steps_match(ws: Any) -> None:
    """Token by token, in uneven chunks, and twice from one cache: as if the sequence had been given at once."""
    for d, heads in SIZES:
        steps = [{"shape": (2, 4), "past": 0}] + [{"shape": (2, 1), "past": 4 + n, "cache": n} for n in range(6)]
        back = [{"shape": (2, length), "past": 5, "cache": 6} for length in (3, 1)]
        chunks, past = [{"shape": (1, 3), "past": 0}], 3
        for length in (5, 1, 9, 2):
            chunks.append({"shape": (1, length), "past": past, "cache": len(chunks) - 1})
            past += length
        chunks += [{"shape": (1, 4), "past": 8, "cache": 1}, {"shape": (1, 2), "past": 3, "cache": 0}]
        # What a cache holds is raw: other weights and tables make other keys and values of it.
        chunks.append({"shape": (1, 3), "past": 5, "cache": len(chunks) - 1, "scaled": 1.25, "theta": 300.0})
        # Where nothing is kept for gradients, a program may be tempted to write into the room of an earlier cache.
        for calls in ([*steps, *back], chunks):
            for gradients in (True, False):
                _calls(ws, d, heads, [{**call, "gradients": gradients} for call in calls])


@check(weight=2, required=True)
def gradients_match(ws: Any) -> None:
    """In both modes gradients along random directions are the judge's slopes, also where only some need any.

    The cache is made without gradients before.
    """
    ways = ((32, 4, False, 5, "weights x cache"), (32, 4, True, 1, "weights x cache"), (24, 2, True, 4, "weights"))
    more = ((24, 2, False, 4, "weights"), (24, 2, True, 5, "cache"), (24, 2, False, 1, "cache"), (24, 2, True, 5, "x"))
    alone = [(24, 2, n % 2 == 0, 4, name) for n, name in enumerate(drawn(1, 24, 2))]
    for d, heads, training, length, needing in (*ways, *more, *alone, (24, 2, True, 520, "weights x cache")):
        weights, rng = drawn(ws.rng.getrandbits(60), d, heads), ws.numpy_rng(f"slopes {d}")
        wide, before, x = 2 * d // 3 + d // heads // 2, rng.normal(size=(2, 3, d)), rng.normal(size=(2, length, d))
        entries = {"x": x, "cache": attention(weights, before, heads, None, 0)[1]}
        ups = [rng.normal(size=(2, length, d)), rng.normal(size=(2, 3 + length, wide))]
        parts = {name: {name} if name in entries else {name, "weights"} for name in (*weights, *entries)}
        moving = [name for name in parts if parts[name] & set(needing.split())]
        along = {name: rng.normal(size={**weights, **entries}[name].shape) for name in moving}
        sizes = {"d_model": d, "n_heads": heads}
        told = mapping(ws.drive("driver.py:slopes", sizes, weights, before, x, ups, along, training))
        # Those of many positions all together, which takes one pair of passes.
        for names in [moving] if length > 99 else [[name] for name in moving]:
            ends = []
            for step in (1e-6, -1e-6):
                moved = {**weights, **entries}
                moved |= {name: moved[name] + step * along[name] for name in names}
                out, raw = attention(moved, moved["x"], heads, moved["cache"], 3)
                ends.append(float((out * ups[0]).sum() + (raw * ups[1]).sum()))
            wanted, found = (ends[0] - ends[1]) / 2e-6, sum(number(told.get(name)) for name in names)
            apart = abs(found - wanted)
            assert apart <= 1e-3 * abs(wanted) + 5e-3, (
                f"the gradient of {', '.join(names)} for {length} positions is {found:.6g}, not {wanted:.6g}"
            )


@check(weight=2, required=True)
def settings_and_lengths(ws: Any) -> None:
    """Arguments by name, by position and left out; every mode; float32; 1024 positions, the last from a cache."""
    modes = [
        {"shape": (2, 5), "past": 0, "training": mode, "gradients": flag}
        for mode in (True, False)
        for flag in (True, False)
    ]
    more = [{"shape": (2, 5), "past": 0, "plain": True}, {"shape": (2, 3), "past": 5, "cache": 0, "positional": True}]
    _calls(ws, 48, 4, [*modes, *more, {"shape": (2, 3), "past": 5, "cache": 1, "gradients": False, "training": True}])
    _calls(
        ws,
        32,
        4,
        [
            {"shape": (2, 9), "past": 0, "dtype": "float32"},
            {"shape": (2, 2), "past": 9, "cache": 0, "dtype": "float32"},
        ],
    )
    _calls(
        ws,
        24,
        1,
        [
            {"shape": (1, 1000), "past": 0},
            {"shape": (1, 23), "past": 1000, "cache": 0},
            {"shape": (1, 700), "past": 300, "cache": 0},
            {"shape": (1, 1), "past": 1023, "cache": 1},
        ],
    )


@check(weight=0, guard=True)
def given_code_stays(ws: Any) -> None:
    """What `mla.py` gives is as it was; comments, docstrings, form and further definitions are free."""
    changed = altered(ws.original("mla.py").read_text("utf-8"), ws.source("mla.py"), {"MLA.forward"})
    assert not changed, f"given in mla.py, and changed: {', '.join(changed)}"


@check(weight=0, required=True)
def visible_test_passes(ws: Any) -> None:
    """The visible test ends well."""
    run_command(ws, "python test_mla.py")
