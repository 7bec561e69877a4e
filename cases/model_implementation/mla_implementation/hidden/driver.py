"""Fills the agent's layer with the judge's weights inside the subject: arrays go in, arrays come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

Arrays = dict[str, Any]


def _layer(sizes: Arrays, weights: Arrays, mode: str = "eval") -> Any:
    from mla import MLA

    layer = MLA(**sizes).double()
    # Of float64, as the angles of the judge's are.
    layer.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return layer.train(mode == "train")


def _settings(layer: Any) -> list[Any]:
    """What no call may change, in torch and in the layer."""
    kept = [[name, value.requires_grad] for name, value in layer.state_dict(keep_vars=True).items()]
    random, tiny = torch.random.get_rng_state().tolist(), torch.full((1,), 1e-310, dtype=torch.float64)
    speed = [torch.get_float32_matmul_precision(), torch.get_num_threads(), torch.backends.cuda.flash_sdp_enabled()]
    return [torch.get_default_dtype(), torch.is_grad_enabled(), random, layer.training, kept, speed, bool(tiny * 1 > 0)]


def called(sizes: Arrays, weights: Arrays, calls: list[Arrays]) -> list[Any]:
    """Output and cache of each call of one layer; a call may take the cache of an earlier one by its number.

    Of a longer cache it takes the first positions. After all calls, caches and inputs are what they are then. Every
    other x is not contiguous; a call that is "scaled" comes after all parameters were multiplied by that number, and
    one with a "theta" after the tables became those of it.
    """
    from utils import rope_tables

    layer, given, made = _layer(sizes, weights), [], []
    for number, call in enumerate(calls):
        layer.train(call.get("training", False))
        x = torch.from_numpy(np.array(call["x"], order="FC"[number % 2]))
        x = x.to(getattr(torch, call.get("dtype", "float64")))
        layer = layer.to(x.dtype)
        for value in layer.parameters() if "scaled" in call else ():
            value.data = value.data * call["scaled"]
        if "theta" in call:
            cos, sin = rope_tables(layer.dh, layer.cos_cached.shape[2], call["theta"])
            layer.cos_cached.copy_(cos)
            layer.sin_cached.copy_(sin)
        cache = None if call.get("cache") is None else made[call["cache"]][1]
        if cache is not None and cache.shape[1] > call["past"]:
            cache = cache[:, : call["past"]]
        with torch.set_grad_enabled(call.get("gradients", True)):
            before = _settings(layer)
            if call.get("plain"):
                out, new = layer(x)
            elif call.get("positional"):
                out, new = layer(x, cache, call["past"])
            else:
                out, new = layer(past_length=call["past"], kv_cache=cache, x=x)
            assert _settings(layer) == before, "a call changed settings of torch or of the layer"
        given.append(x)
        made.append((out, new))
    kinds = [str(out.dtype) for out, _ in made]
    return [[x, out.detach(), new.detach(), kind] for x, (out, new), kind in zip(given, made, kinds, strict=True)]


def slopes(
    sizes: Arrays, weights: Arrays, before: Any, x: Any, ups: list[Any], along: Arrays, training: bool
) -> dict[str, float]:
    """Gradients of sum(ups[0] * output) + sum(ups[1] * new cache), each times the direction that is given for it.

    The cache is made of `before`, without gradients, after a call in inference mode. What has no direction needs no
    gradient.
    """
    layer = _layer(sizes, weights, "train" if training else "eval")
    for name, value in layer.named_parameters():
        value.requires_grad_(name in along)
    with torch.inference_mode():
        layer(torch.from_numpy(before))
    with torch.no_grad():
        _, cache = layer(torch.from_numpy(before))
    entries = {"x": torch.from_numpy(x).requires_grad_("x" in along), "cache": cache.requires_grad_("cache" in along)}
    out, new = layer(entries["x"], kv_cache=cache, past_length=cache.shape[1])
    ((out * torch.from_numpy(ups[0])).sum() + (new * torch.from_numpy(ups[1])).sum()).backward()
    found = {**dict(layer.named_parameters()), **entries}
    return {
        name: 0.0 if found[name].grad is None else float((found[name].grad * torch.from_numpy(value)).sum())
        for name, value in along.items()
    }
