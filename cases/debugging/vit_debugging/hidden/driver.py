"""Fills the agent's model with the judge's weights inside the subject: arrays go in, arrays come out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import torch

Arrays = dict[str, Any]


def _model(sizes: Arrays, weights: Arrays) -> Any:
    from dino_v2 import DinoVisionTransformer

    model = DinoVisionTransformer(**sizes).double()
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return model


def shapes_of(maker: str, given: list[Any], sizes: Arrays) -> list[Any]:
    """Shapes of all parameters of what the package's `maker` makes, and the numbers of heads of its parts."""
    import dino_v2
    from dino_v2 import layers

    model = getattr(dino_v2 if hasattr(dino_v2, maker) else layers, maker)(*given, **sizes)
    heads = {part.num_heads for part in model.modules() if hasattr(part, "num_heads")}
    return [{name: list(part.shape) for name, part in model.named_parameters() if part.requires_grad}, sorted(heads)]


def _flat(found: Any) -> list[Any]:
    """The tensors of a result, in order; a dictionary's by their names."""
    if isinstance(found, torch.Tensor):
        return [found.detach()]
    if isinstance(found, dict):
        found = [found[name] for name in sorted(found) if found[name] is not None]
    return [part for one in found for part in _flat(one)]


def _given(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, list):
        return [_given(one, dtype) for one in value]
    return None if value is None else torch.from_numpy(np.array(value)).to(dtype)


def called(sizes: Arrays, weights: Arrays, calls: list[Arrays]) -> list[Any]:
    """x after all calls, masks after them, the tensors of the result and their dtype, for each call of one model.

    A call's factor multiplies all weights before it, as if they had been trained in between; before a call with
    "refused", a picture that cannot be cut is sent in with that patch size, and its error is let go.
    """
    model, entries, made = _model(sizes, weights), [], []
    for call in calls:
        model.train(call.get("training", False))
        with torch.no_grad():
            for part in model.parameters():
                part.mul_(call.get("factor", 1.0))
        dtype = getattr(torch, call.get("dtype", "float64"))
        model = model.to(dtype)
        x, masks = _given(call["x"], dtype), _given(call.get("masks"), torch.bool)
        more, method = dict(call.get("more", {})), getattr(model, call.get("method", "forward"))
        with torch.set_grad_enabled(call.get("gradients", True)):
            if "refused" in call:
                with suppress(Exception):
                    model(x[:, :, 1:], patch_size=call["refused"])
            if call.get("positional"):
                given = [] if call.get("method") == "get_intermediate_layers" else [masks]
                found = method(x, *given, *more.values())
            elif masks is None:
                found = method(x, **more)
            else:
                found = method(x, masks=masks, **more)
        entries.append([x, masks])
        made.append(_flat(found))
    return [[x, masks, found, str(found[-1].dtype)] for (x, masks), found in zip(entries, made, strict=True)]


def embedded(sizes: Arrays, weight: Any, bias: Any, x: Any) -> list[Any]:
    """Tokens of an embedding by itself, and its numbers of rows, columns and patches."""
    from dino_v2.layers import PatchEmbed

    pairs = {name: tuple(value) if isinstance(value, list) else value for name, value in sizes.items()}
    part = PatchEmbed(**pairs).double()
    part.load_state_dict({"proj.weight": torch.from_numpy(weight), "proj.bias": torch.from_numpy(bias)})
    return [part(torch.from_numpy(x)).detach(), [*part.patches_resolution, part.num_patches]]


def dropped(sizes: Arrays, weights: Arrays, x: Any, seed: int) -> Any:
    """The sequence after the blocks in training mode."""
    torch.manual_seed(seed)
    with torch.no_grad():
        return _model(sizes, weights).train()(torch.from_numpy(x), is_training=True)["x_prenorm"]


def slopes(sizes: Arrays, weights: Arrays, call: Arrays, ups: list[Any], along: Arrays) -> dict[str, float]:
    """Gradients of the sum of ups times the sequence, and times intermediate tokens, each times its direction.

    The masks are the sequence's. What has no direction needs no gradient.
    """
    model = _model(sizes, weights).train(call["training"])
    x = _given(call["x"], torch.float64).requires_grad_("x" in along)
    out = model(x, _given(call["masks"], torch.bool), patch_size=call["patch"], is_training=True)["x_prenorm"]
    (inner,) = model.get_intermediate_layers(x, patch_size=call["patch"])
    outs = zip((model.norm(out), inner), ups, strict=True)
    sum((one * torch.from_numpy(up)).sum() for one, up in outs).backward()
    found = {**dict(model.named_parameters()), "x": x}
    return {
        name: 0.0 if found[name].grad is None else float((found[name].grad * torch.from_numpy(value)).sum())
        for name, value in along.items()
    }
