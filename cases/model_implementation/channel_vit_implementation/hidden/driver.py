"""Fills the agent's model with the judge's weights inside the subject: arrays go in, arrays come out."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch

Arrays = dict[str, Any]


def _model(sizes: Arrays, weights: Arrays) -> Any:
    """Parameters of the embedding are found by their shapes, since their names are free."""
    from channel_vit import ChannelViT

    model = ChannelViT(**sizes).double()
    found = dict(model.named_parameters())
    free = {name for name in found if name.startswith("patch_embed.")}
    with torch.no_grad():
        for name, value in weights.items():
            if name.startswith("patch_embed."):
                name = next(one for one in sorted(free) if found[one].shape == value.shape)
                free.remove(name)
            found[name].copy_(torch.from_numpy(np.array(value)))
    return model


def sizes_of(sizes: Arrays | None, seed: int) -> list[Any]:
    """num_patches, and names, shapes and content of the embedding's parameters; of the defaults without sizes."""
    torch.manual_seed(seed)
    if sizes is None:
        from channel_vit import PatchEmbedPerChannel

        embed, others = PatchEmbedPerChannel(), {}
    else:
        from channel_vit import ChannelViT

        model = ChannelViT(**sizes)
        embed = model.patch_embed
        others = {name: list(part.shape) for name, part in model.named_parameters() if "patch_embed" not in name}
    trained = [part.detach().numpy() for part in embed.parameters() if part.requires_grad]
    return [embed.num_patches, sorted(trained, key=lambda part: part.size), others]


def embedding(embed: Any) -> list[Any]:
    """num_patches, and the shapes of the trained parameters."""
    return [embed.num_patches, sorted(list(part.shape) for part in embed.parameters() if part.requires_grad)]


def called(sizes: Arrays, weights: Arrays, calls: list[Arrays]) -> list[Any]:
    """The result of each call of one model; after all calls, pictures and indices are what they are then.

    Every other x is not contiguous. A call that is "copied" is made of a copy of the model, whose original is wiped.
    """
    model, made, given = _model(sizes, weights), [], []
    for count, call in enumerate(calls):
        training, dtype = call.get("training", False), getattr(torch, call.get("dtype", "float64"))
        # Only where it changes: what is kept between calls must not be dropped by train() or to() alone.
        if model.training != training:
            model.train(training)
        if model.cls_token.dtype != dtype:
            model = model.to(dtype)
        if call.get("copied"):
            old, model = model, deepcopy(model)
            for value in old.parameters():
                value.data.zero_()
        x = torch.from_numpy(np.array(call["x"], order="CF"[count % 2])).to(dtype)
        indices = None if call.get("indices") is None else torch.tensor(call["indices"])
        function = model
        for part in call.get("what", "").split("."):
            function = getattr(function, part) if part else function
        if call.get("moved"):
            model.pos_embed.data.mul_(2)  # which no counter of changes tells
        with torch.set_grad_enabled(call.get("gradients", True)):
            if call.get("how") == "name":
                found = function(current_channel_indices=indices, x=x)
            elif call.get("how") == "plain":
                found = function(x, *call.get("more", []))
            else:
                found = function(x, indices)
        made.append(found)
        given.append([x, indices, model.patch_embed.num_patches])
    plain = [[part.detach() for part in found] if isinstance(found, list) else found.detach() for found in made]
    kinds = [str(found[0].dtype) for found in plain]
    marked = [[x.detach(), indices, count, x.requires_grad] for x, indices, count in given]
    return [[*them, found, kind] for them, found, kind in zip(marked, plain, kinds, strict=True)]


def slopes(sizes: Arrays, weights: Arrays, x: Any, indices: Any, up: Any, training: bool, inputs: bool) -> Arrays:
    """Gradients of sum(up * prepare_tokens(x, indices)) by the judge's names; x needs one if `inputs`."""
    model = _model(sizes, weights).train(training)
    entry = torch.from_numpy(x).requires_grad_(inputs)
    tokens = model.prepare_tokens(entry, None if indices is None else torch.tensor(indices))
    (tokens * torch.from_numpy(up)).sum().backward()
    found = {"x": entry, "cls_token": model.cls_token, "pos_embed": model.pos_embed}
    for name in ("weight", "bias", "table"):
        wanted = weights[f"patch_embed.{name}"].shape
        found[f"patch_embed.{name}"] = next(part for part in model.patch_embed.parameters() if part.shape == wanted)
    return {name: torch.zeros_like(part) if part.grad is None else part.grad for name, part in found.items()}


def slopes_through(
    sizes: Arrays, entries: Arrays, indices: Any, ups: list[Any], along: Arrays, training: bool
) -> dict[str, float]:
    """Gradients of the sum of ups times output, last attention and last layer, each times its direction.

    What has no direction needs no gradient; the inherited methods get the first channels.
    """
    weights = {name: value for name, value in entries.items() if name != "x"}
    model = _model(sizes, weights).train(training)
    x = torch.from_numpy(entries["x"]).requires_grad_("x" in along)
    outs = [model(x, torch.tensor(indices)), model.get_last_selfattention(x), *model.get_intermediate_layers(x)]
    sum((out * torch.from_numpy(up)).sum() for out, up in zip(outs, ups, strict=True)).backward()
    found = {"x": x, **dict(model.named_parameters())}
    for name in along:
        if name.startswith("patch_embed."):
            found[name] = next(it for it in model.patch_embed.parameters() if it.shape == along[name].shape)
    return {
        name: 0.0 if found[name].grad is None else float((found[name].grad * torch.from_numpy(value)).sum())
        for name, value in along.items()
    }
