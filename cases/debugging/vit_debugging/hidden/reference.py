"""The transformer in numpy, in float64: names and shapes of its parameters, weights of a seed, and what it gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Sizes = dict[str, Any]


def prefix(sizes: Sizes, block: int) -> str:
    """The beginning of the names of a block's parameters."""
    chunks = sizes.get("block_chunks", 1)
    return f"blocks.{block // (sizes['depth'] // chunks)}.{block}." if chunks else f"blocks.{block}."


def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters."""
    d, patch, registers = sizes["embed_dim"], sizes["patch_size"], sizes.get("num_register_tokens", 0)
    found: dict[str, tuple[int, ...]] = {"cls_token": (1, 1, d), "mask_token": (1, d)}
    found |= {"pos_embed": (1, 1 + (sizes["img_size"] // patch) ** 2, d), "norm.weight": (d,), "norm.bias": (d,)}
    found |= {"patch_embed.proj.weight": (d, sizes.get("in_chans", 3), patch, patch), "patch_embed.proj.bias": (d,)}
    if registers:
        found["register_tokens"] = (1, registers, d)
    inner, kind = int(d * sizes.get("mlp_ratio", 4.0)), sizes.get("ffn_layer", "mlp")
    rounded = (int(inner * 2 / 3) + 7) // 8 * 8 if kind == "swiglufused" else inner
    linear = {"attn.qkv": (3 * d, d, "qkv_bias"), "attn.proj": (d, d, "proj_bias")}
    if kind == "mlp":
        linear |= {"mlp.fc1": (inner, d, "ffn_bias"), "mlp.fc2": (d, inner, "ffn_bias")}
    else:
        linear |= {"mlp.w12": (2 * rounded, d, "ffn_bias"), "mlp.w3": (d, rounded, "ffn_bias")}
    for block in range(sizes["depth"]):
        start = prefix(sizes, block)
        found |= {f"{start}norm{n}.{kind}": (d,) for n in (1, 2) for kind in ("weight", "bias")}
        for name, (rows, columns, bias) in linear.items():
            found[f"{start}{name}.weight"] = (rows, columns)
            if sizes.get(bias, True):
                found[f"{start}{name}.bias"] = (rows,)
        if sizes.get("init_values"):
            found |= {f"{start}ls{n}.gamma": (d,) for n in (1, 2)}
    return found


def drawn(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    """Weights so large that every term counts."""
    found = {}
    for name, shape in shapes(sizes).items():
        spread = 1.5 / math.prod(shape[1:]) ** 0.5 if name.endswith(".weight") and len(shape) > 1 else 1.0
        found[name] = rng.normal(0, spread, shape) + ("norm" in name and name.endswith("weight"))
    return found


def _resized(count: int, wanted: int, scale: float) -> Any:
    """The wanted x count matrix of bicubic interpolation (a = -0.75, corners not aligned, edges repeated)."""
    matrix = np.zeros((wanted, count))
    for row in range(wanted):
        at = (row + 0.5) / scale - 0.5
        for tap in range(math.floor(at) - 1, math.floor(at) + 3):
            off = abs(at - tap)
            near, far = 1.25 * off**3 - 2.25 * off**2 + 1, -0.75 * (off**3 - 5 * off**2 + 8 * off - 4)
            matrix[row, min(max(tap, 0), count - 1)] += near if off <= 1 else far
    return matrix


def resampled(kernel: Any, size: tuple[int, int]) -> Any:
    """The kernel of an embedding for patches of a height and a width."""
    down, across = (_resized(n, wanted, wanted / n) for n, wanted in zip(kernel.shape[2:], size, strict=True))
    shrunk = np.prod(kernel.shape[2:]) / np.prod(size)
    return np.einsum("ys,xt,dkst->dkyx", down, across, kernel) * shrunk


def sequence_of(weights: Arrays, sizes: Sizes, x: Any, masks: Any = None, patch: int | None = None) -> Any:
    """What prepare_tokens_with_masks must give."""
    size, batch = patch or sizes["patch_size"], len(x)
    rows, columns = x.shape[2] // size, x.shape[3] // size
    kernel = resampled(weights["patch_embed.proj.weight"], (size, size))
    cut = x.reshape(batch, 3, rows, size, columns, size)
    tokens = np.einsum("bkrycx,dkyx->brcd", cut, kernel) + weights["patch_embed.proj.bias"]
    tokens = tokens.reshape(batch, rows * columns, -1)
    if masks is not None:
        tokens = np.where(np.array(masks)[:, :, None], weights["mask_token"], tokens)
    places, side = weights["pos_embed"][0, 1:], math.isqrt(weights["pos_embed"].shape[1] - 1)
    if (rows, columns) != (side, side):
        offset = sizes.get("interpolate_offset", 0.1)
        down, across = (_resized(side, n, (n + offset) / side) for n in (rows, columns))
        places = np.einsum("rs,ct,std->rcd", down, across, places.reshape(side, side, -1))
    start = [np.repeat(weights["cls_token"] + weights["pos_embed"][:, :1], batch, axis=0)]
    if "register_tokens" in weights:
        start.append(np.repeat(weights["register_tokens"], batch, axis=0))
    return np.concatenate([*start, tokens + places.reshape(rows * columns, -1)], axis=1)


def normed(x: Any, weights: Arrays, name: str) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _linear(x: Any, weights: Arrays, name: str) -> Any:
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)


def _fed(x: Any, weights: Arrays, start: str, kind: str) -> Any:
    if kind == "mlp":
        inner = _linear(x, weights, f"{start}mlp.fc1")
        return _linear(inner * (1 + np.vectorize(math.erf)(inner / 2**0.5)) / 2, weights, f"{start}mlp.fc2")
    gate, value = np.split(_linear(x, weights, f"{start}mlp.w12"), 2, axis=-1)
    return _linear(gate / (1 + np.exp(-gate)) * value, weights, f"{start}mlp.w3")


def headed(x: Any, weights: Arrays) -> Any:
    """What DinoHead must give."""
    renamed = {name.replace("mlp.0", "mlp.fc1").replace("mlp.2", "mlp.fc2"): value for name, value in weights.items()}
    both = _fed(x, renamed, "", "mlp"), weights["last_layer.weight"]
    one, two = (it / np.linalg.norm(it, axis=-1, keepdims=True) for it in both)
    return one @ two.T


def layers(weights: Arrays, sizes: Sizes, x: Any, factors: Any = None) -> list[Any]:
    """The sequence after each block, before the last norm. factors: of both branches of each block."""
    found = []
    for block in range(sizes["depth"]):
        start, (of_attention, of_fed) = prefix(sizes, block), factors[block] if factors else (1.0, 1.0)
        qkv = _linear(normed(x, weights, f"{start}norm1"), weights, f"{start}attn.qkv")
        q, k, v = qkv.reshape(*x.shape[:2], 3, sizes["num_heads"], -1).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5
        share = np.exp(scores - scores.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        mixed = (share @ v).swapaxes(1, 2).reshape(x.shape)
        x = x + of_attention * _linear(mixed, weights, f"{start}attn.proj") * weights.get(f"{start}ls1.gamma", 1.0)
        fed = _fed(normed(x, weights, f"{start}norm2"), weights, start, sizes.get("ffn_layer", "mlp"))
        x = x + of_fed * fed * weights.get(f"{start}ls2.gamma", 1.0)
        found.append(x)
    return found
