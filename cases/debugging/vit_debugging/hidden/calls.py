"""The calls of the judge: pictures and masks for each, and the arrays that it must give."""

from __future__ import annotations

from typing import Any

import numpy as np
from models import HEAD
from reference import headed, layers, normed, resampled, sequence_of

Call = dict[str, Any]
NAMES = ["masks", "x_norm_clstoken", "x_norm_patchtokens", "x_norm_regtokens", "x_prenorm"]


def give_pictures(rng: np.random.Generator, patch_size: int, calls: list[Call]) -> None:
    """Put pictures of each call's `shape` into `x`, those of call `again` where it names one, and its masks.

    A shape is (pictures, channels, height, width), or a list of such. hide: 1 hides patches of every entry of a list, 2
    of the first alone; `masks` is True for a hidden patch.
    """
    for call in calls:
        lists = isinstance(call.get("shape"), list)
        painted = [rng.normal(size=shape) for shape in (call["shape"] if lists else [call.get("shape", 1)])]
        call.setdefault("modes", [[False, False], [True, True]])
        call["x"] = calls[call["again"]]["x"] if "again" in call else painted if lists else painted[0]
        if hide := call.pop("hide", 0):
            size = call.get("more", {}).get("patch_size") or patch_size
            pictures = call["x"] if lists else [call["x"]]
            hidden = [rng.random((len(x), x.shape[2] * x.shape[3] // size**2)) < 0.4 for x in pictures]
            hidden[1:] = [None] * len(hidden[1:]) if hide == 2 else hidden[1:]
            call["masks"] = hidden if lists else hidden[0]


def check_kinds(call: Call, told: str, is_list: Any, names: Any, dtypes: list[Any], drew: Any) -> None:
    """A call gives a list for a list and dictionaries with the promised names, in its dtype, and draws nothing."""
    lists, more = isinstance(call["x"], list), call.get("more", {})
    assert is_list or not lists, f"{told}: the result for a list is none"
    wanted = call.get("method") == "forward_features" or more.get("is_training")
    assert names == [NAMES] * (len(call["x"]) if lists else 1) * bool(wanted), f"{told}: its names are {names}"
    own = {f"torch.{call.get('dtype', 'float64')}", *(["torch.bool"] if call.get("masks") is not None else [])}
    assert set(dtypes) <= own, f"{told}: the result is {dtypes}"
    assert not drew, f"{told}: random numbers are drawn"


def wanted_of(weights: Any, sizes: Any, call: Call) -> list[Any]:
    """The arrays that a call must give, a dictionary's by their names."""
    x, masks, more, method = call["x"], call.get("masks"), call.get("more", {}), call.get("method", "forward")
    if isinstance(x, list):
        both = zip(x, masks or [None] * len(x), strict=True)
        return [part for one, two in both for part in wanted_of(weights, sizes, {**call, "x": one, "masks": two})]
    patch = more.get("patch_size")
    tokens = sequence_of(weights, sizes, x, masks, patch)
    if method == "prepare_tokens_with_masks":
        return [tokens]
    after, start = layers(weights, sizes, tokens), 1 + sizes.get("num_register_tokens", 0)
    if method == "get_intermediate_layers":
        n, found = more.get("n", 1), []
        for number_of in range(len(after) - n, len(after)) if isinstance(n, int) else sorted(n):
            out = normed(after[number_of], weights, "norm") if more.get("norm", True) else after[number_of]
            map_of, side = out[:, start:], [edge // (patch or sizes["patch_size"]) for edge in x.shape[2:]]
            if more.get("reshape"):
                map_of = map_of.reshape(len(x), *side, -1).transpose(0, 3, 1, 2)
            found += [map_of, out[:, 0]] if more.get("return_class_token") else [map_of]
        return found
    out = normed(after[-1], weights, "norm")
    if not (more.get("is_training") or method == "forward_features"):
        return [out[:, 0] / (1 + np.abs(out[:, 0])) if call.get("head") else out[:, 0]]
    given = [] if masks is None else [np.array(masks, dtype=float)]
    return [*given, out[:, 0], out[:, start:], out[:, 1:start], after[-1]]


def parts_alone(rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """Parts by name, with weights, what goes in and arguments; what comes out, kernels, and an embedding's numbers."""
    weight, bias, x = rng.normal(size=(7, 2, 3, 5)), rng.normal(size=7), rng.normal(size=(2, 2, 12, 10))
    head, rows = {name: rng.normal(size=shape) for name, shape in HEAD.items()}, rng.normal(size=(2, 6))
    tokens = np.einsum("bcrpsq,dcpq->brsd", x.reshape(2, 2, 4, 3, 2, 5), weight).reshape(2, 8, 7) + bias
    embed = ("PatchEmbed", {"proj.weight": weight, "proj.bias": bias}, x)
    parts = [(*embed, [[12, 10], [3, 5], 2, 7]), (*embed, [30, [3, 5], 2, 7]), ("DinoHead", head, rows, [6, 3, 5, 4])]
    embedded = [tokens, *(resampled(weight, size) for size in ((2, 4), (3, 7), (6, 5)))]
    return parts, [(embedded, [4, 2, 8]), (embedded, [10, 6, 60]), ([headed(rows, head)], [])]
