"""Compares sequences, outputs and gradients with numpy's, for weights and pictures of the judge's own.

What the driver returns comes from the process that has the agent's package, and is compared here.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
from calls import Call, check_kinds, give_pictures, parts_alone, wanted_of
from models import BARE, CHUNKS, FED, GATED, PLAIN, SETTINGS, made
from reference import drawn, layers, normed, sequence_of, shapes

from bench.judge import array, check, close, integer, mapping, number, numbers, run_command, sequence, string

CHUNK = re.compile(r"^blocks\.\d+\.(?=\d)")


def _compare(ws: Any, sizes: Any, calls: list[Call]) -> None:
    """Make the calls in one process, each with pictures of its own, and compare what comes back."""
    rng = ws.numpy_rng(f"{ws.rng.random()}")
    weights = drawn(rng, sizes)
    give_pictures(rng, sizes["patch_size"], calls)
    each = [(call, mode) for call in calls for mode in call["modes"]]
    answers = sequence(ws.drive("driver.py:called", sizes, weights, calls), length=len(each))
    for (call, mode), answer in zip(each, answers, strict=True):
        x, masks, found, *kinds = sequence(answer, length=7)
        told = f"{call.get('method', 'forward')}, {call.get('shape', 'again')}, {call.get('more', {})}"
        exact = call.get("dtype", "float64") == "float64"
        check_kinds(call, told, *kinds)
        for entry, value in ((x, call["x"]), (masks, call.get("masks"))):
            values = value if isinstance(value, list) else [value]
            entries = sequence(entry, length=len(values)) if isinstance(value, list) else [entry]
            for one, two in zip(entries, values, strict=True):
                if two is not None:
                    close(one, np.array(two, dtype=float), rtol=0, atol=0 if exact else 1e-6, what=f"{told}: an input")
        if mode == call["modes"][0]:
            weights = {name: value * call.get("factor", 1.0) for name, value in weights.items()}
            wanted = wanted_of(weights, sizes, call)
        for part, right in zip(sequence(found, length=len(wanted)), wanted, strict=True):
            largest = float(np.abs(right).max(initial=1.0))
            close(part, right, rtol=0, atol=(1e-9 if exact else 2e-3) * largest, what=told)


@check(weight=1, required=True)
def architecture_is_kept(ws: Any) -> None:
    """The package imports; parameters have the promised names and shapes, those of the factories, too."""
    for maker, given, named, sizes in made(ws.rng):
        wanted = shapes(sizes)
        parts, heads, start = sequence(ws.drive("driver.py:shapes_of", maker, given, named), length=3)
        if parts is None:
            continue
        assert heads in ([sizes["num_heads"]], []), f"{maker}: parts have {heads} heads"
        found = {string(name): tuple(integer(n) for n in sequence(shape)) for name, shape in mapping(parts).items()}
        if sizes["depth"] % (sizes.get("block_chunks", 1) or 1):
            # How uneven chunks are cut is told in two ways; no block may be lost.
            found, wanted = ({CHUNK.sub("blocks.", name): of[name] for name in of} for of in (found, wanted))
        if start is not None:
            bias, spreads = sequence(start, length=2)
            spread = numbers(spreads, length=len(spreads))
            told = f"new linear layers of {maker} have weights that spread by {spread[:3]} and biases up to {bias}"
            # A layer of a few hundred weights is within a tenth of the 0.02 that they are drawn with.
            assert number(bias) == 0 and all(0.01 < it < 0.03 for it in spread), told
        apart = sorted(set(found.items()) ^ set(wanted.items()))
        assert not apart, f"{len(apart)} parameters of {maker} differ, as in {apart[:4]}"


@check(weight=3, required=True)
def class_tokens_match(ws: Any) -> None:
    """The class token is the judge's: both attentions, with and without layer scale, chunks and biases."""
    for sizes in SETTINGS:
        _compare(ws, sizes, [{"shape": (batch, 3, *[sizes["img_size"]] * 2)} for batch in (2, 1)])


@check(weight=2, required=True)
def gated_networks_match(ws: Any) -> None:
    """The same with gated feed-forward networks."""
    for gated in GATED:
        for sizes in SETTINGS:
            _compare(ws, {**sizes, **gated}, [{"shape": (2, 3, sizes["img_size"], sizes["img_size"])}])


@check(weight=3, required=True)
def registers_and_masks_match(ws: Any) -> None:
    """Sequences and the dictionary with registers, masks, lists, and pictures of other sizes."""
    for sizes in SETTINGS:
        for registers in (0, 4):
            side, size = sizes["img_size"], sizes["patch_size"]
            shape, other = (2, 3, side, side), (3, 3, side + size, side - size)
            calls = [
                {"shape": one, "hide": hide, **way}
                for one in (shape, other)
                for hide in (False, True)
                for way in ({"method": "prepare_tokens_with_masks"}, {"more": {"is_training": True}}, {})
            ]
            lists = {"shape": [(1, 3, side, side), other, (1, 3, side, side)], "more": {"is_training": True}}
            calls += [{**lists, "hide": hide} for hide in (0, 1, 2)]
            calls.append({"shape": shape, "hide": True, "positional": True, "method": "forward_features"})
            _compare(ws, {**sizes, "num_register_tokens": registers}, calls)


@check(weight=2, required=True)
def intermediate_layers_match(ws: Any) -> None:
    """Tokens of chosen blocks, as sequences and as maps, of pictures that are square and that are not."""
    for sizes in SETTINGS:
        side, size = sizes["img_size"], sizes["patch_size"]
        for registers in (0, 2):
            ways = [{}, {"n": 2, "reshape": True}, {"n": [0], "norm": False}, {"n": [1, 0], "return_class_token": True}]
            ways.append({"n": 0})
            calls = [
                {"shape": (2, 3, *edges), "method": "get_intermediate_layers", "more": dict(way)}
                for edges in ((side, side), (size, side), (2 * size, 8 * size))
                for way in (*ways, {**ways[1], **ways[3]})
            ]
            _compare(ws, {**sizes, "num_register_tokens": registers}, calls)


@check(weight=4, required=True)
def other_patch_sizes_match(ws: Any) -> None:
    """With patch_size, all of it is computed with resampled kernels and positions, call by call."""
    for sizes in SETTINGS:
        for registers in (0, 3):
            calls: list[Call] = []
            for patch in (sizes["patch_size"] // 2, sizes["patch_size"], 2 * sizes["patch_size"], 5):
                shape, given = (2, 3, 2 * patch, 4 * patch), {"patch_size": patch}
                calls.append({"shape": shape, "hide": True, "method": "prepare_tokens_with_masks", "more": given})
                calls += [{"shape": shape, "hide": hide, "more": given} for hide in (False, True)]
                calls.append({"shape": shape, "hide": True, "more": {**given, "is_training": True}})
                calls.append({"shape": [shape, (1, 3, patch, patch)], "more": {**given, "is_training": True}})
                maps = {"n": 2, "reshape": True, "return_class_token": True, "norm": registers > 0, **given}
                both = dict.fromkeys(("positional", "hide"), True)
                calls.append({"shape": shape, "method": "get_intermediate_layers", "more": maps})
                calls.append({"shape": shape, "method": "get_intermediate_layers", "more": maps, "positional": True})
                calls.append({"shape": shape, "more": {**given, "is_training": True}, **both})
                calls.append({"shape": shape, "method": "prepare_tokens_with_masks", "more": given, **both})
                calls.append({"shape": (1, 3, sizes["patch_size"], sizes["patch_size"])})
            small = {"shape": (1, 3, 4, 4), "more": {"patch_size": 2}}
            calls += [{**small, "modes": [[False, False]]}, {**small, "factor": 1.3}]
            _compare(ws, {**sizes, "num_register_tokens": registers}, calls)


@check(weight=2, required=True)
def gradients_match(ws: Any) -> None:
    """In both modes gradients along random directions are the judge's slopes, of parameters also where x needs none."""
    bases = ({**BARE, "num_register_tokens": 2}, {**CHUNKS, "num_register_tokens": 1, "ffn_layer": "swiglu"})
    for base, patch, inputs in ((bases[0], None, True), (bases[0], 6, True), (bases[1], 3, True), (bases[0], 6, False)):
        sizes, rng = {**base, "depth": 2}, ws.numpy_rng(f"slopes {patch}")
        weights, edge = drawn(rng, sizes), 2 * (patch or base["patch_size"])
        masks = np.array([[False, True, False, False]] * 2)
        call = {"x": rng.normal(size=(2, 3, edge, edge)), "masks": masks, "patch": patch, "training": patch == 6}
        entries, first = {**weights, "x": call["x"]}, 1 + base["num_register_tokens"]
        counts = ((first + 4,), (first + 4,), (4,), (), ())
        ups = [rng.normal(size=(2, *count, base["embed_dim"])) for count in counts]
        moving = entries if inputs else weights
        along = {name: rng.normal(size=value.shape) for name, value in moving.items()}
        told = mapping(ws.drive("driver.py:slopes", sizes, weights, call, ups, along))
        for name, direction in along.items():
            ends = []
            for step in (1e-6, -1e-6):
                moved = {**entries, name: entries[name] + step * direction}
                hidden, plain = (sequence_of(moved, sizes, moved["x"], it, patch) for it in (masks, None))
                out, inner = (normed(layers(moved, sizes, it)[-1], moved, "norm") for it in (hidden, plain))
                parts = (out, out, inner[:, first:], inner[:, 0], inner[:, 0])
                ends.append(sum(float((one * up).sum()) for one, up in zip(parts, ups, strict=True)))
            wanted, found = (ends[0] - ends[1]) / 2e-6, number(told.get(name))
            near = abs(found - wanted) <= 1e-3 * abs(wanted) + 5e-3
            assert near, f"the gradient of {name} is {found:.6g}, expected {wanted:.6g}"


@check(weight=1, required=True)
def branches_are_dropped(ws: Any) -> None:
    """In training each sample loses a branch with the block's probability, which rises with depth or is uniform."""
    rng, batch = ws.numpy_rng("branches"), 400
    for rate, uniform in ((0.4, False), (0.3, True)):
        sizes: Call = {"img_size": 4, "patch_size": 4, "embed_dim": 8, "depth": 3, "num_heads": 2}
        sizes |= {"drop_path_rate": rate, "drop_path_uniform": uniform}
        weights, x = drawn(rng, sizes), rng.normal(size=(batch, 3, 4, 4))
        tokens = sequence_of(weights, sizes, x)
        answer = ws.drive("driver.py:dropped", sizes, weights, x, ws.seed_for(f"branches {uniform}", 31))
        found, rates = array(answer, shape=tokens.shape), [rate if uniform else rate * n / 2 for n in range(3)]
        ways = list(itertools.product(*((1.0 / (1 - one), 0.0) if one else (1.0,) for one in np.repeat(rates, 2))))
        ends = np.stack([layers(weights, sizes, tokens, np.reshape(way, (3, 2)).tolist())[-1] for way in ways])
        apart = np.abs(ends - found).max(axis=(2, 3)) / np.abs(ends).max(axis=(2, 3))
        told = f"drop_path_rate {rate}, drop_path_uniform {uniform}"
        assert apart.min(axis=0).max() < 1e-6, f"{told}: a sample is not what whole branches give, lost or scaled up"
        lost = (np.array(ways)[apart.argmin(axis=0)] == 0).astype(int)
        chances = np.outer(*[np.repeat(rates, 2)] * 2)
        np.fill_diagonal(chances, np.repeat(rates, 2))
        # Six standard deviations of a binomial count: of each branch, and of each two of them, lost together.
        allowed, counts = 6 * np.sqrt(batch * chances * (1 - chances)), lost.T @ lost
        assert (np.abs(counts - batch * chances) <= allowed).all(), (
            f"{told}: of {batch}, {counts.diagonal().tolist()} branches are lost, together {counts.tolist()}"
        )


@check(weight=2, required=True)
def settings_match(ws: Any) -> None:
    """Every mode, float32, calls made again after others, after some that raised an error, and with the own size."""
    for dtype in ("float64", "float32"):
        calls: list[Call] = [{"shape": (2, 3, 32, 32), "dtype": dtype, "head": True}]
        for training in (True, False):
            for gradients in (True, False):
                way = {"modes": [[training, gradients]], "dtype": dtype}
                calls.append({"again": 0, "more": {"patch_size": 16, "is_training": True}, **way})
                calls.append({"again": 0, "more": {"is_training": training, "patch_size": (None, 8)[gradients]}, **way})
        _compare(ws, {**PLAIN, "num_register_tokens": 1}, [*calls, {"again": 0, "dtype": dtype}])
    _compare(ws, {**PLAIN, "drop_path_rate": 0.5}, [{"shape": (4, 3, 32, 32), "modes": [[False, True]]}])
    methods = ("forward", "prepare_tokens_with_masks", "get_intermediate_layers")
    spoilt = itertools.product(("cut", "channels", "masks", "norm1", "norm"), methods, (16, 2))
    _compare(ws, PLAIN, [{"shape": (1, 3, 16, 32), "refused": list(one), "modes": [[False, False]]} for one in spoilt])


@check(weight=1, required=True)
def parts_are_as_described(ws: Any) -> None:
    """By themselves, the embedding and its kernels take pairs, the head and the feed-forward networks are as told."""
    parts, rights = parts_alone(ws.numpy_rng("parts"))
    answers = sequence(ws.drive("driver.py:alone", parts), length=len(parts))
    for (maker, _, _, given), answer, (right, counts) in zip(parts, answers, rights, strict=True):
        outs, told = sequence(answer, length=2)
        assert told == counts, f"{maker}{given} has rows, columns and patches {told}, expected {counts}"
        for found, wanted in zip(sequence(outs, length=len(right)), right, strict=True):
            close(found, wanted, rtol=0, atol=1e-9, what=f"what {maker}{given} gives")
    for maker, given, right in FED:
        found, *_ = sequence(ws.drive("driver.py:shapes_of", maker, given, {"bias": False}), length=3)
        assert mapping(found) == right, f"the parameters of {maker}{given} are {found}, expected {right}"


@check(weight=0, required=True)
def visible_test_passes(ws: Any) -> None:
    """The visible tests end well."""
    run_command(ws, "python test_vision_transformer.py")
