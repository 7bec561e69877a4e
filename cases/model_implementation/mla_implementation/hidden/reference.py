"""MLA in numpy, one query at a time; and the weights and inputs that judge and driver both draw from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np


def shapes(d: int, heads: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the parameters of a layer."""
    q, kv, rope = d // 2, 2 * d // 3, d // heads // 2
    norms = {f"{n}_layernorm.{kind}": (wide,) for n, wide in (("q", q), ("kv", kv)) for kind in ("weight", "bias")}
    weights = {"W_dq": (d, q), "W_uq": (q, d), "W_dkv": (d, kv + rope), "W_ukv": (kv, d + heads * rope), "W_o": (d, d)}
    return {**norms, **weights}


def drawn(seed: int, d: int, heads: int) -> dict[str, Any]:
    """Parameters that make scores of size one and more."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in sorted(shapes(d, heads).items()):
        spread = 1.0 if len(shape) == 1 else 1.5 / shape[0] ** 0.5
        found[name] = rng.normal(0, spread, shape) + (1.0 if name.endswith("norm.weight") else 0.0)
    return found


def _normed(x: Any, weights: dict[str, Any], name: str) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _turned(x: Any, places: Any, theta: float) -> Any:
    """Rotary positions by complex numbers: the last axis is turned, the one before it are the places."""
    half = x.shape[-1] // 2
    angles = places[:, None] * theta ** (-np.arange(half) / (2 * half))
    # The tables are float32, after double() too.
    turns = np.cos(angles).astype(np.float32) + 1j * np.sin(angles).astype(np.float32).astype(np.float64)
    turned = (x[..., :half] + 1j * x[..., half:]) * turns
    return np.concatenate([turned.real, turned.imag], axis=-1)


def attention(weights: dict[str, Any], x: Any, heads: int, cache: Any, past: int, theta: float = 1e4) -> Any:
    """Output and new cache."""
    batch, length, d = x.shape
    dh, rope, kv_dim = d // heads, d // heads // 2, 2 * d // 3
    q = (_normed(x @ weights["W_dq"], weights, "q_layernorm") @ weights["W_uq"]).reshape(batch, length, heads, dh)
    raw = x @ weights["W_dkv"]
    raw = raw if cache is None else np.concatenate([cache, raw], axis=1)
    total = raw.shape[1]
    kv = _normed(raw[..., :kv_dim], weights, "kv_layernorm") @ weights["W_ukv"]
    kv = kv.reshape(batch, total, heads, rope + dh)
    shared = _turned(raw[..., kv_dim:], np.arange(total), theta)
    out = np.zeros((batch, length, heads, dh))
    for head in range(heads):
        turned = _turned(q[:, :, head, rope:], past + np.arange(length), theta)
        scores = q[:, :, head, :rope] @ kv[:, :, head, :rope].transpose(0, 2, 1) + turned @ shared.transpose(0, 2, 1)
        hidden = np.arange(total)[None] > past + np.arange(length)[:, None]
        scores = np.where(hidden, -np.inf, scores / dh**0.5)
        share = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[:, :, head] = share / share.sum(axis=-1, keepdims=True) @ kv[:, :, head, rope:]
    return out.reshape(batch, length, d) @ weights["W_o"].T, raw
