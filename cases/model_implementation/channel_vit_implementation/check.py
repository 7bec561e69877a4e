"""Compares tokens, outputs and gradients with numpy's, for weights, pictures and channels of the judge's own.

What the driver returns comes from the process that has the agent's channel_vit.py, and is compared here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from reference import (
    FOUR,
    ONE_PATCH,
    SIX,
    SMALL,
    WIDE,
    all_tokens,
    drawn,
    picked_of,
    prepared,
    shapes,
    slope,
    wanted_of,
)

from bench.judge import Probe, array, check, close, integer, mapping, number, sequence, string

EMBEDDING = Probe(
    "PatchEmbedPerChannel(img_size=224, patch_size=16, in_chans=3, embed_dim=768)",
    target="channel_vit:PatchEmbedPerChannel",
    observe="driver.py:embedding",
)


def _compare(ws: Any, sizes: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    """Make the calls in one process, each with pictures of its own, and compare what comes back."""
    weights = drawn(rng := ws.numpy_rng(f"{ws.rng.random()}"), sizes)
    weights["patch_embed.table"] *= 4  # vectors of a length to which no table may cut them
    for call in calls:
        call["x"] = rng.normal(size=call.pop("shape")) if "shape" in call else calls[call["again"]]["x"]
    answers = sequence(ws.drive("driver.py:called", sizes, weights, calls), length=len(calls))
    for call, answer in zip(calls, answers, strict=True):
        x, indices, count, marked, found, kind = sequence(answer, length=6)
        what, channels, picked = call.get("what", ""), call["x"].shape[1], call.get("indices")
        told = f"{what or 'forward'} of {'x'.join(map(str, call['x'].shape))}, channels {picked or 'left out'}"
        exact = call.get("dtype", "float64") == "float64"
        assert kind == f"torch.{call.get('dtype', 'float64')}", f"{told}: the result is {kind}"
        assert integer(count) == all_tokens(sizes), f"{told}: num_patches is {count} after the call"
        close(x, call["x"], rtol=0, atol=0 if exact else 1e-6, what=f"{told}: x after the call")
        assert marked is False, f"{told}: x needs gradients after the call"
        if picked:
            assert array(indices, shape=(len(call["x"]), channels)).tolist() == picked, f"{told}: indices are changed"
        weights = {**weights, "pos_embed": (1 + call.get("moved", 0)) * weights["pos_embed"]}
        tokens = wanted_of(weights, sizes, call)
        if what == "get_intermediate_layers":
            found = [array(one) for one in sequence(found, length=len(tokens))]
        if call.get("half_dropped"):
            _half_dropped(array(found, shape=tokens.shape), tokens, told)
        else:
            close(found, tokens, rtol=0, atol=(1e-9 if exact else 1e-3) * float(np.abs(tokens).max()), what=told)


def _half_dropped(found: Any, tokens: Any, told: str) -> None:
    """Each value is lost or doubled, by itself; half of them, give or take."""
    kept = found != 0
    close(np.where(kept, found, 2 * tokens), 2 * tokens, rtol=0, atol=1e-8, what=f"{told}, dropout 0.5: what is kept")
    assert 0.3 < kept.mean() < 0.7, f"{told}: dropout 0.5 keeps {kept.mean():.2f} of the values"
    masks = kept.reshape(-1, kept.shape[2])  # 48 numbers each, of which no two lose the same by chance
    assert len(np.unique(masks, axis=0)) == len(masks), f"{told}: two tokens lose the same values to dropout"


def _right_sizes(values: dict[str, Any], extra: Any, value: Any) -> None:
    count, told = sequence(value, length=2)
    patch, d, channels = values["patch_size"], values["embed_dim"], values["in_chans"]
    wanted = all_tokens({**values, "img_size": [values["img_size"]]})
    assert integer(count) == wanted, f"num_patches is {count}, expected {wanted}"
    parts = sorted(tuple(integer(n) for n in sequence(shape)) for shape in sequence(told))
    assert parts == sorted([(d, 1, patch, patch), (d,), (channels, d)]), f"the parameters have the shapes {parts}"


@check(weight=1, required=True)
def sizes_are_as_promised(ws: Any) -> None:
    """Parameters and num_patches have the promised sizes, however given; what is drawn is random, no two alike."""
    EMBEDDING.signature(
        ws, {"img_size": 24, "patch_size": 6, "in_chans": 5, "embed_dim": 20}, lambda values: [], _right_sizes
    )
    usual = {"img_size": [224], "patch_size": 16, "in_chans": 3, "embed_dim": 768, "depth": 0}
    for sizes, given in ((SIX, SIX), (FOUR, FOUR), (ONE_PATCH, ONE_PATCH), (usual, None)):
        wanted = shapes(sizes)
        embedding = {wanted.pop(f"patch_embed.{name}"): name for name in ("weight", "bias", "table")}
        both = [sequence(ws.drive("driver.py:sizes_of", given, ws.seed_for(f"{seed}", 31)), length=3) for seed in "ab"]
        first, second = ({part.shape: part for part in map(array, sequence(one[1]))} for one in both)
        assert len(sequence(both[0][1])) == 3 and set(first) == set(embedding), (
            f"patch_embed's parameters have the shapes {sorted(first)}, expected {sorted(embedding)}"
        )
        assert integer(both[0][0]) == all_tokens(sizes), f"num_patches is {both[0][0]} for {sizes}"
        for shape, name in embedding.items():
            if name != "bias":
                rows = first[shape].reshape(shape[0], -1)
                assert np.unique(rows, axis=0).shape == rows.shape, f"rows of the {name} begin alike"
                assert (rows != second.get(shape, rows).reshape(rows.shape)).any(axis=1).all(), f"{name} is not random"
                assert (rows != 0).any(axis=1).all(), f"a row of the {name} begins as zeros"
        if given:
            others = {string(k): tuple(integer(n) for n in sequence(v)) for k, v in mapping(both[0][2]).items()}
            assert others == wanted, f"other parameters differ: {sorted(set(others) ^ set(wanted))[:4]}"


@check(weight=3, required=True)
def all_channels_match(ws: Any) -> None:
    """Without indices, tokens and outputs are the judge's, for all channels and for the first ones alone."""
    for sizes in (SIX, FOUR, ONE_PATCH):
        side, known = sizes["img_size"][0], sizes["in_chans"]
        many, few = {"shape": (2, known, side, side)}, {"shape": (3, known - 2, side, side)}
        whole = {"what": "prepare_tokens", "how": "plain"}
        _compare(ws, sizes, [many | whole, few | whole, many | {"how": "plain"}, few | {"how": "name"}, dict(many)])


@check(weight=3, required=True)
def chosen_channels_match(ws: Any) -> None:
    """Each sample has its own channels, in any order: tokens and outputs are the judge's."""
    for sizes in (SIX, FOUR, ONE_PATCH):
        side, known, rng = sizes["img_size"][0], sizes["in_chans"], ws.numpy_rng(f"channels {sizes}")
        calls: list[dict[str, Any]] = []
        for batch, count in ((2, 3), (3, 2), (4, known), (1, 1)):
            shape, indices = (batch, count, side, side), picked_of(rng, batch, count, known)
            for more in ({"what": "prepare_tokens"}, {"how": "name"}, {"what": "patch_embed"}):
                calls.append({"shape": shape, "indices": indices, **more})
        # One channel may be in several slots, and those of all samples may be the same, in no order of their own.
        for indices in ([[1, 1, 0, 1], [2, 0, 0, 2]], [[0, 2, 1, 3]] * 2, [[0, 0, 2]] * 3):
            shape = (len(indices), len(indices[0]), side, side)
            calls.append({"shape": shape, "indices": indices, "what": "prepare_tokens"})
        _compare(ws, sizes, calls)


@check(weight=2, required=True)
def other_pictures_match(ws: Any) -> None:
    """Pictures that are larger, smaller or not square have the plain transformer's locations."""
    rng = ws.numpy_rng("pictures")
    for sizes in (SIX, FOUR):
        patch, side = sizes["patch_size"], sizes["img_size"][0] // sizes["patch_size"]
        # With four channels half as high and half as wide, there are as many tokens as a plain ViT has.
        calls: list[dict[str, Any]] = []
        for rows, columns in ((side // 2, side // 2), (2, 8), (8, 2), (side + 3, side), (1, 1), (side, side)):
            shape = (2, 4, rows * patch, columns * patch)
            indices = picked_of(rng, 2, 4, sizes["in_chans"])
            calls += [{"shape": shape, "indices": indices, "what": "prepare_tokens"}, {"shape": shape, "how": "plain"}]
        _compare(ws, sizes, calls)


@check(weight=2, required=True)
def gradients_match(ws: Any) -> None:
    """In both modes gradients of x and the parameters are the judge's; channels that are not there get none."""
    cases = ((SIX, 4, 4, 1, 1), (FOUR, 4, 4, 0, 1), (SIX, 3, 5, 0, 1), (FOUR, 2, 3, 1, 1), (WIDE, 11, 14, 1, 0))
    for sizes, rows, columns, training, inputs in cases:
        rng, patch = ws.numpy_rng(f"slopes {rows} {sizes}"), sizes["patch_size"]
        weights, indices = drawn(rng, sizes), {3: None, 5: [[0], [0]]}.get(columns, [[0, 2, 3], [3, 0, 2]])
        channels = indices or [[0, 1, 2]]
        x = rng.normal(size=(2, len(channels[0]), rows * patch, columns * patch))
        up = rng.normal(size=(2, 1 + len(channels[0]) * rows * columns, sizes["embed_dim"]))
        told = mapping(ws.drive("driver.py:slopes", sizes, weights, x, indices, up, bool(training), bool(inputs)))
        for name in (
            *["x"] * inputs,
            "cls_token",
            "pos_embed",
            "patch_embed.weight",
            "patch_embed.bias",
            "patch_embed.table",
        ):
            entry = x if name == "x" else weights[name]
            found = array(told.get(name), shape=entry.shape)
            if name.endswith("table"):
                absent = sorted(set(range(len(found))) - set(channels[0]))
                assert not found[absent].any(), "a channel too many"
            # Tokens are linear in each of these, so a difference is exact whatever its size.
            for _ in range(3):
                along = rng.normal(size=entry.shape)
                moved = {**weights, name: entry + along}
                step = prepared(moved, x + along if name == "x" else x, indices) - prepared(weights, x, indices)
                close((found * along).sum(), (up * step).sum(), rtol=1e-7, atol=1e-6, what=f"the gradient of {name}")


@check(weight=1, required=True)
def gradients_pass_through(ws: Any) -> None:
    """Gradients of outputs, attention and intermediate layers are the judge's slopes, also where x needs none."""
    for training, inputs in ((True, False), (False, True), (False, False)):
        rng, indices = ws.numpy_rng(f"through {training} {inputs}"), [[0, 2, 3], [3, 0, 1]]
        entries = {**drawn(rng, SMALL), "x": rng.normal(size=(2, 3, 4, 8))}
        # Seven tokens: of a class, and two of each of three channels.
        ups = [rng.normal(size=size) for size in ((2, 7, 8), (2, 2, 7, 7), (2, 7, 8))]
        along = {name: rng.normal(size=it.shape) for name, it in entries.items() if inputs or name != "x"}
        told = mapping(ws.drive("driver.py:slopes_through", SMALL, entries, indices, ups, along, training))
        for name, direction in along.items():
            wanted, found = slope(entries, SMALL, indices, ups, name, direction), number(told.get(name))
            near = abs(found - wanted) <= 1e-3 * abs(wanted) + 5e-3
            assert near, f"what reaches {name} through the transformer is {found:.6g}, expected {wanted:.6g}"


@check(weight=2, required=True)
def settings_match(ws: Any) -> None:
    """Every mode, float32, dropout, calls made again, inherited methods, a copy of the model, many channels."""
    rng, side = ws.numpy_rng("settings"), SIX["img_size"][0]
    one = {"indices": picked_of(rng, 2, 3, 6)}
    calls: list[dict[str, Any]] = [{"shape": (2, 3, side, side), **one}]
    for training in (True, False):
        for gradients in (True, False):
            calls.append({"again": 0, "training": training, "gradients": gradients, **one})
    # Channels of a call are forgotten in the next one.
    calls += [{"again": 0, "how": "plain"}, {"shape": (2, 3, 64, 16), **one}, {"again": 0, **one}]
    inherited = (("get_last_selfattention", []), ("get_intermediate_layers", []), ("get_intermediate_layers", [2]))
    for method, more in inherited:
        for shape in ((1, 6, side, side), (2, 2, side, 24)):
            calls.append({"shape": shape, "what": method, "how": "plain", "more": more})
    _compare(ws, SIX, [*calls, {"again": 0, **one, "copied": True}])
    tokens = {"shape": (2, 3, side, side), "what": "prepare_tokens", **one}
    apart = {**tokens, "shape": (2, 3, side, 24), "gradients": False}
    _compare(ws, SIX, [{**apart}, {**apart, "moved": 1}, {"shape": (2, 3, side, side), "dtype": "float32", **one}])
    single = {"shape": (2, 1, side, side), "what": "prepare_tokens"}
    lost = [{**call, "training": True, "half_dropped": True} for call in (tokens, single)]
    _compare(ws, SIX | {"drop_rate": 0.5}, [*lost, {**tokens}])
    # Many tokens of a channel, and many channels.
    for side, known, count in ((64, 12, 11), (8, 90, 70)):
        wide = {"img_size": [side], "patch_size": 4, "in_chans": known, "embed_dim": 8, "depth": 1, "num_heads": 1}
        call = {"shape": (1, count, side, side), "what": "prepare_tokens"}
        _compare(ws, wide, [call | {"indices": picked_of(rng, 1, count, known)}, call | {"how": "plain"}])


@check(weight=0, required=True)
def visible_test_passes(ws: Any) -> None:
    """The visible test, where one is given, ends well."""
    if ws.original("test_channel_vit.py").is_file():
        ws.run(["python", "test_channel_vit.py"]).ok()
