"""The transformer in numpy: tokens by plain loops over samples and slots, and weights drawn from a seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Sizes = dict[str, Any]

SIX: Sizes = {"img_size": [32], "patch_size": 8, "in_chans": 6, "embed_dim": 48, "depth": 2, "num_heads": 4}
FOUR: Sizes = {"img_size": [24], "patch_size": 6, "in_chans": 4, "embed_dim": 20, "depth": 3, "num_heads": 2,
        "mlp_ratio": 2.0, "qkv_bias": True}  # fmt: skip
SMALL: Sizes = {"img_size": [8], "patch_size": 4, "in_chans": 4, "embed_dim": 8, "depth": 2, "num_heads": 2}
WIDE: Sizes = {"img_size": [64], "patch_size": 32, "in_chans": 5, "embed_dim": 6, "depth": 0, "num_heads": 1}
ONE_PATCH: Sizes = {"img_size": [8], "patch_size": 8, "in_chans": 5, "embed_dim": 12, "depth": 1, "num_heads": 3}


def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters; those of `patch_embed` are told by their shapes alone."""
    d, patch, inner = sizes["embed_dim"], sizes["patch_size"], int(sizes.get("mlp_ratio", 4.0) * sizes["embed_dim"])
    found: dict[str, tuple[int, ...]] = {"cls_token": (1, 1, d), "norm.weight": (d,), "norm.bias": (d,)}
    found["pos_embed"] = (1, 1 + (sizes["img_size"][0] // patch) ** 2, d)
    embedding = {"weight": (d, 1, patch, patch), "bias": (d,), "table": (sizes["in_chans"], d)}
    found |= {f"patch_embed.{name}": shape for name, shape in embedding.items()}
    for block in range(sizes["depth"]):
        linear = {"attn.qkv": (3 * d, d), "attn.proj": (d, d), "mlp.fc1": (inner, d), "mlp.fc2": (d, inner)}
        parts = {f"{name}.weight": shape for name, shape in linear.items()}
        parts |= {f"{name}.bias": shape[:1] for name, shape in linear.items()}
        if not sizes.get("qkv_bias"):
            del parts["attn.qkv.bias"]
        parts |= {f"norm{n}.{kind}": (d,) for n in (1, 2) for kind in ("weight", "bias")}
        found |= {f"blocks.{block}.{name}": shape for name, shape in parts.items()}
    return found


def all_tokens(sizes: Sizes) -> int:
    return sizes["in_chans"] * (sizes["img_size"][0] // sizes["patch_size"]) ** 2


def drawn(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    """Weights so large that every term counts."""
    found = {}
    for name, shape in shapes(sizes).items():
        spread = 1.5 / math.prod(shape[1:]) ** 0.5 if len(shape) in (2, 4) and "table" not in name else 1.0
        found[name] = rng.normal(0, spread, shape) + ("norm" in name and name.endswith("weight"))
    return found


def _resized(count: int, wanted: int) -> Any:
    """The wanted x count matrix of bicubic interpolation (a = -0.75, corners not aligned, edges repeated)."""
    matrix = np.zeros((wanted, count))
    for row in range(wanted):
        at = (row + 0.5) * count / wanted - 0.5
        for tap in range(math.floor(at) - 1, math.floor(at) + 3):
            off = abs(at - tap)
            near, far = 1.25 * off**3 - 2.25 * off**2 + 1, -0.75 * (off**3 - 5 * off**2 + 8 * off - 4)
            matrix[row, min(max(tap, 0), count - 1)] += near if off <= 1 else far
    return matrix


def places(table: Any, rows: int, columns: int) -> Any:
    """Location vectors of a grid of patches, rows * columns x D."""
    side = math.isqrt(table.shape[1] - 1)
    square = table[0, 1:].reshape(side, side, -1)
    down, across = _resized(side, rows), _resized(side, columns)
    return np.einsum("rs,ct,std->rcd", down, across, square).reshape(-1, table.shape[2])


def embedded(weights: Arrays, x: Any, indices: Any) -> Any:
    """Tokens of patches of single channels, with the channels' vectors: B x C x patches x D."""
    kernel, bias, table = (weights[f"patch_embed.{name}"] for name in ("weight", "bias", "table"))
    patch = kernel.shape[2]
    cut = x.reshape(*x.shape[:2], x.shape[2] // patch, patch, x.shape[3] // patch, patch)
    tokens = np.einsum("bkrycx,dyx->bkrcd", cut, kernel[:, 0]) + bias
    tokens = tokens.reshape(*x.shape[:2], -1, kernel.shape[0])
    for sample in range(len(x)):
        for slot in range(x.shape[1]):
            tokens[sample, slot] += table[slot if indices is None else indices[sample][slot]]
    return tokens


def picked_of(rng: Any, batch: int, count: int, known: int) -> list[list[int]]:
    """Channels of each sample, in any order, no two samples alike where that can be."""
    return [[int(one) for one in rng.permutation(known)[:count]] for _ in range(batch)]


def prepared(weights: Arrays, x: Any, indices: Any = None) -> Any:
    """What prepare_tokens must give."""
    patch = weights["patch_embed.weight"].shape[2]
    tokens = embedded(weights, x, indices) + places(weights["pos_embed"], x.shape[2] // patch, x.shape[3] // patch)
    start = np.repeat(weights["cls_token"] + weights["pos_embed"][:, :1], len(x), axis=0)
    return np.concatenate([start, tokens.reshape(len(x), -1, tokens.shape[3])], axis=1)


def _normed(x: Any, weights: Arrays, name: str) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _linear(x: Any, weights: Arrays, name: str) -> Any:
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)


def passed(weights: Arrays, x: Any, sizes: Sizes) -> tuple[list[Any], Any]:
    """The normalised tokens after each block, and the attention of the last one."""
    heads, layers = sizes["num_heads"], []
    share: Any = None
    for number in range(sizes["depth"]):
        name = f"blocks.{number}"
        normed = _normed(x, weights, f"{name}.norm1")
        cut = _linear(normed, weights, f"{name}.attn.qkv").reshape(*x.shape[:2], 3, heads, -1)
        q, k, v = cut.transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5
        share = np.exp(scores - scores.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        x = x + _linear((share @ v).swapaxes(1, 2).reshape(x.shape), weights, f"{name}.attn.proj")
        inner = _linear(_normed(x, weights, f"{name}.norm2"), weights, f"{name}.mlp.fc1")
        inner = inner * (1 + np.vectorize(math.erf)(inner / 2**0.5)) / 2
        x = x + _linear(inner, weights, f"{name}.mlp.fc2")
        layers.append(_normed(x, weights, "norm"))
    return layers, share


def wanted_of(weights: Arrays, sizes: Sizes, call: dict[str, Any]) -> Any:
    """What a call must give; intermediate layers are stacked."""
    what, x, indices = call.get("what", ""), call["x"], call.get("indices")
    if what == "patch_embed":
        return embedded(weights, x, indices).reshape(len(x), -1, sizes["embed_dim"])
    tokens = prepared(weights, x, indices)
    if what == "prepare_tokens":
        return tokens
    layers, share = passed(weights, tokens, sizes)
    if what == "get_intermediate_layers":
        return np.stack(layers[-[*call["more"], 1][0] :])
    return share if what == "get_last_selfattention" else layers[-1]


def slope(entries: Arrays, sizes: Sizes, indices: Any, ups: list[Any], name: str, direction: Any) -> float:
    """How ups times output (with the indices), attention and last layer (without) change along a direction."""
    ends = []
    for step in (1e-6, -1e-6):
        moved = {**entries, name: entries[name] + step * direction}
        chosen, _ = passed(moved, prepared(moved, moved["x"], indices), sizes)
        plain, share = passed(moved, prepared(moved, moved["x"]), sizes)
        ends.append(sum(float((out * up).sum()) for out, up in zip((chosen[-1], share, plain[-1]), ups, strict=True)))
    return (ends[0] - ends[1]) / 2e-6
