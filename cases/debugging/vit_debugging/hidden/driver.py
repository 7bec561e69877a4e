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
    """Shapes of all parameters of what the package's `maker` makes, the heads of its parts, and of its linear
    layers the largest bias and the spreads of weights.

    The large models are made without memory. Nothing is told of one that cannot be: that is not promised.
    """
    import dino_v2
    from dino_v2 import layers

    make = getattr(dino_v2 if hasattr(dino_v2, maker) else layers, maker)
    if maker in ("vit_large", "vit_giant2"):
        try:
            with torch.device("meta"):
                model = make(*given, **sizes)
        except (RuntimeError, NotImplementedError):
            return [None, [], None]
        start = None
    else:
        model = make(*given, **sizes)
        linear = [part for part in model.modules() if isinstance(part, torch.nn.Linear)]
        biases = [float(part.bias.abs().max()) for part in linear if part.bias is not None]
        start = [max([0.0, *biases]), [float(part.weight.std()) for part in linear]]
    heads = {part.num_heads for part in model.modules() if hasattr(part, "num_heads")}
    shapes = {name: list(part.shape) for name, part in model.named_parameters() if part.requires_grad}
    return [shapes, sorted(heads), start]


def _flat(found: Any) -> list[Any]:
    """The tensors of a result, in order; a dictionary's by their names."""
    if isinstance(found, torch.Tensor):
        return [found.detach()]
    if isinstance(found, dict):
        found = [found[name] for name in sorted(found) if found[name] is not None]
    return [part for one in found for part in _flat(one)]


def _given(value: Any, dtype: torch.dtype, strided: bool = False) -> Any:
    if isinstance(value, list):
        return [_given(one, dtype, strided) for one in value]
    if value is None:
        return None
    tensor = torch.from_numpy(np.array(value)).to(dtype)
    return tensor.mT.contiguous().mT if strided else tensor


def _refuse(model: Any, x: torch.Tensor, kind: str, method: str, size: int) -> None:
    """Make a call that ends in an error, and let it go: in the embedding, behind it, or amidst the blocks or after."""

    def stopped(*_: Any) -> None:
        raise ArithmeticError

    parts = [part for name, part in model.named_modules() if name.split(".")[-1] == kind]
    hooks = [part.register_forward_pre_hook(stopped) for part in parts]
    x = {"cut": x[:, :, 1:], "channels": x[:, :1]}.get(kind, x)
    more = (
        {"masks": torch.ones(1, 7, dtype=torch.bool)} if kind == "masks" and method != "get_intermediate_layers" else {}
    )
    with suppress(Exception):
        getattr(model, method)(x, patch_size=size, **more)
    for hook in hooks:
        hook.remove()


def called(sizes: Arrays, weights: Arrays, calls: list[Arrays]) -> list[Any]:
    """x after all calls, masks after them, the tensors of the result and what it is, for each mode of each call.

    A mode is whether the model trains, and whether there are gradients: in the former, inputs are not contiguous.
    A call's factor multiplies all weights before it, as an average over training does. The mode is set where it
    changes only: setting it may empty what was kept.
    """
    model, entries, made = _model(sizes, weights), [], []
    for call, (training, gradients) in ((one, mode) for one in calls for mode in one["modes"]):
        if model.training != training:
            model.train(training)
        for part in model.parameters():
            part.data.mul_(call.get("factor", 1.0) if [training, gradients] == call["modes"][0] else 1.0)
        dtype = getattr(torch, call.get("dtype", "float64"))
        model, model.head = model.to(dtype), torch.nn.Softsign() if call.get("head") else torch.nn.Identity()
        x, masks = _given(call["x"], dtype, training), _given(call.get("masks"), torch.bool, training)
        more, method = dict(call.get("more", {})), getattr(model, call.get("method", "forward"))
        if training and isinstance(more.get("n"), list):
            more["n"] = tuple(more["n"])
        state = torch.get_rng_state()
        with torch.set_grad_enabled(gradients):
            if "refused" in call:
                _refuse(model, x, *call["refused"])
            if call.get("positional"):
                given = [] if call.get("method") == "get_intermediate_layers" else [masks]
                found = method(x, *given, *more.values())
            elif masks is None:
                found = method(x, **more)
            else:
                found = method(x, masks=masks, **more)
        entries.append([x, masks])
        names = [sorted(one) for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
        drawn = not training and not torch.equal(state, torch.get_rng_state())
        kinds = [isinstance(found, list), names, sorted({str(part.dtype) for part in _flat(found)}), drawn]
        made.append([_flat(found), *kinds])
    return [[*entry, *one] for entry, one in zip(entries, made, strict=True)]


def alone(parts: list[list[Any]]) -> list[list[Any]]:
    """What each part gives by itself, and an embedding's kernels of other sizes, rows, columns and patches."""
    from dino_v2 import layers

    told = []
    for maker, weights, x, given in parts:
        part = getattr(layers, maker)(*[tuple(one) if isinstance(one, list) else one for one in given]).double()
        part.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        numbers = [*part.patches_resolution, part.num_patches] if maker == "PatchEmbed" else []
        kernels = [part.kernel(size) for size in ((2, 4), (3, 7), (6, 5))] if maker == "PatchEmbed" else []
        told.append([_flat([part(torch.from_numpy(x)), *kernels]), numbers])
    return told


def dropped(sizes: Arrays, weights: Arrays, x: Any, seed: int) -> Any:
    """The sequence after the blocks in training mode."""
    torch.manual_seed(seed)
    with torch.no_grad():
        return _model(sizes, weights).train()(torch.from_numpy(x), is_training=True)["x_prenorm"]


def slopes(sizes: Arrays, weights: Arrays, call: Arrays, ups: list[Any], along: Arrays) -> dict[str, float]:
    """Gradients of the sum of ups times every output, also through a list, each times its direction.

    The masks are the sequence's. What has no direction needs no gradient.
    """
    model = _model(sizes, weights).train(call["training"])
    x = _given(call["x"], torch.float64).requires_grad_("x" in along)
    masks, more = _given(call["masks"], torch.bool), {"patch_size": call["patch"]}
    (told,) = model([x], [masks], is_training=True, **more)
    parts = [told["x_norm_clstoken"].unsqueeze(1), told["x_norm_regtokens"], told["x_norm_patchtokens"]]
    ((inner, first),) = model.get_intermediate_layers(x, return_class_token=True, **more)
    outs = (torch.cat(parts, dim=1), model.norm(told["x_prenorm"]), inner, first, model(x, **more))
    sum((one * torch.from_numpy(up)).sum() for one, up in zip(outs, ups, strict=True)).backward()
    found = {**dict(model.named_parameters()), "x": x}
    return {
        name: 0.0 if found[name].grad is None else float((found[name].grad * torch.from_numpy(value)).sum())
        for name, value in along.items()
    }
