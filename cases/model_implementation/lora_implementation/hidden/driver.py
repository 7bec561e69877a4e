"""Handles the agent's layer inside the subject. It knows no expected value: arrays go in, arrays come out.

What comes out is the word of the agent's process: check.py believes numbers that it can work out again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

Arrays = dict[str, Any]
KEYS = {"weight": "linear.weight", "bias": "linear.bias", "a": "lora_A", "b": "lora_B"}


def _layer(sizes: Arrays, arrays: Arrays | None = None, dtype: torch.dtype | None = None) -> Any:
    from lora import LoraLinear

    layer = LoraLinear(**sizes) if dtype is None else LoraLinear(**sizes, dtype=dtype)
    parameters = dict(layer.named_parameters())
    with torch.no_grad():
        for short, value in (arrays or {}).items():
            parameters[KEYS[short]].copy_(torch.from_numpy(np.array(value)))
    return layer


def _values(layer: Any) -> Arrays:
    return {name: value.detach().clone() for name, value in layer.named_parameters()}


def describe(sizes: Arrays) -> Arrays:
    """State and flags of a fresh layer."""
    layer = _layer(sizes)
    return {
        "state": {name: value.detach().clone() for name, value in layer.state_dict().items()},
        "trainable": {name: bool(value.requires_grad) for name, value in layer.named_parameters()},
        "base_is_linear": type(layer.linear) is nn.Linear,
        "buffers": [name for name, _ in layer.named_buffers()],
        "attributes": {name: getattr(layer, name) for name in ("in_features", "out_features", "rank", "alpha")},
    }


def defaults(sizes: Arrays) -> list[str]:
    """Where a layer's parameters are, and of which dtype, when torch's own defaults are others."""
    torch.set_default_dtype(torch.float64)
    with torch.device("meta"):
        layer = _layer(sizes)
    torch.set_default_dtype(torch.float32)
    return sorted({f"{value.device} {value.dtype}" for value in layer.parameters()})


def fresh(sizes: Arrays, x: Any, seed: int) -> list[Arrays]:
    """Initial values of two layers made one after the other, and what they compute."""
    torch.manual_seed(seed)
    layers = [_layer(sizes), _layer(sizes)]
    return [{**_values(layer), "out": layer(torch.from_numpy(x))} for layer in layers]


def many(sizes: Arrays, count: int, seed: int) -> torch.Tensor:
    """The initial A of so many layers."""
    torch.manual_seed(seed)
    return torch.stack([_layer(sizes).lora_A.detach() for _ in range(count)])


def forward(sizes: Arrays, arrays: Arrays, x: Any) -> torch.Tensor:
    """The output with the given parameters."""
    out: torch.Tensor = _layer(sizes, arrays)(torch.from_numpy(x))
    return out


def merge(sizes: Arrays, arrays: Arrays, x: Any) -> Arrays:
    """The merged layer, and the layer it came from before and after the merged one is wiped; what each passes back."""
    layer = _layer(sizes, arrays)
    entries = [torch.from_numpy(x).requires_grad_() for _ in "ab"]
    layer(entries[0]).sum().backward()  # which is no business of the merged layer
    plain = layer.merged()
    merged = {
        "weight": plain.weight.detach().clone(),
        "bias": None if plain.bias is None else plain.bias.detach().clone(),
    }
    out = plain(entries[1])
    out.sum().backward()
    back = [
        {"x": entry.grad, **{name: value.grad for name, value in it.named_parameters()}}
        for it, entry in zip((layer, plain), entries, strict=True)
    ]
    modes = [layer.training]
    with torch.no_grad():
        other = layer.eval().requires_grad_(False).merged()
    modes.append(layer.training)
    is_plain = all(type(it) is nn.Linear and all(p.requires_grad for p in it.parameters()) for it in (plain, other))
    with torch.no_grad():
        for value in plain.parameters():
            value.zero_()
    out, after = out.detach(), layer(torch.from_numpy(x))
    return {**merged, "out": out, "is_plain": is_plain, "modes": modes, "after": after, "back": back}


def reload(sizes: Arrays, arrays: Arrays, x: Any) -> torch.Tensor:
    """The output of a second layer that got the first one's state through a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        save_file({name: value.contiguous() for name, value in _layer(sizes, arrays).state_dict().items()}, path)
        other = _layer(sizes)
        other.load_state_dict(load_file(path), strict=True)
    out: torch.Tensor = other(torch.from_numpy(x))
    return out


def typed(sizes: Arrays, arrays: Arrays, x: Any, dtype: str) -> Arrays:
    """Values and kinds of the parameters, the output and the merged weight under a dtype."""
    kind: torch.dtype = getattr(torch, dtype)
    layer = _layer(sizes, arrays, kind)
    out, plain = layer(torch.from_numpy(x).to(kind)), layer.merged()
    merged = plain.weight
    kinds = {name: str(value.dtype) for name, value in layer.named_parameters()}
    return {
        "kinds": {**kinds, "output": str(out.dtype), "merged": str(merged.dtype), "its bias": str(plain.bias.dtype)},
        "state": {name: value.double() for name, value in layer.state_dict().items()},
        "out": out.double(),
        "merged": merged.double(),
    }


def on_meta(sizes: Arrays) -> list[Arrays]:
    """Where the parameters, the output and the merged layer are: of a layer made on the meta device and one moved."""
    told = []
    for layer in (_layer({**sizes, "device": "meta"}), _layer(sizes).to("meta").eval()):
        with torch.set_grad_enabled(layer.training):
            out = layer(torch.empty(5, sizes["in_features"], device="meta"))
        plain = layer.merged()
        found = {"output": out, "merged weight": plain.weight, "merged bias": plain.bias}
        found |= dict(layer.named_parameters())
        told.append({name: [str(value.device), *value.shape] for name, value in found.items()})
    return told


def seen(layer: Any, arrays: Arrays, x: Any, upstream: Any) -> Arrays:
    """What a layer that the judge's probe has made computes with the given parameters, and passes back."""
    parameters = dict(layer.named_parameters())
    with torch.no_grad():
        for short, value in arrays.items():
            parameters[KEYS[short]].copy_(torch.from_numpy(np.array(value)))
    # What goes in and what comes back from above need not be contiguous.
    laid = np.array(x, order="F" if layer.training else "C")
    entry = torch.from_numpy(laid).requires_grad_(torch.is_grad_enabled())
    out, gradients = layer(entry), None
    if torch.is_grad_enabled():
        out.backward(torch.from_numpy(np.asfortranarray(upstream)))
        gradients = {name: value.grad for name, value in layer.named_parameters()} | {"x": entry.grad}
    if not np.array_equal(laid, x):
        raise RuntimeError("forward changes its input")
    attributes = {name: getattr(layer, name) for name in ("in_features", "out_features", "rank", "alpha")}
    plain = layer.merged()
    merged = plain.weight.detach().clone()
    with torch.no_grad():
        for value in plain.parameters():
            value.zero_()
    later = _after_changes(layer, torch.from_numpy(np.asfortranarray(x)))
    wide = layer.double()(torch.from_numpy(x).double()).detach()
    wider = layer.merged().weight.detach()
    return {
        "out": out.detach(),
        "merged": merged,
        "state": list(layer.state_dict()),
        "attributes": attributes,
        "gradients": gradients,
        "later": later,
        "double": [wide, wider],
    }


def _after_changes(layer: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """The output for a tensor that is not contiguous: as it is, and after each doubling of a parameter.

    Of B these are in place, past autograd, by another tensor, by loading; then A, the base weight and its bias follow.
    """
    before = (x.shape, x.stride(), x.requires_grad)
    outputs = [layer(x).detach()]
    with torch.no_grad():
        layer.lora_B.mul_(2)
    outputs.append(layer(x).detach())
    layer.lora_B.data.mul_(2)
    outputs.append(layer(x).detach())
    layer.lora_B.data = layer.lora_B.data * 2
    outputs.append(layer(x).detach())
    state = layer.state_dict()
    layer.load_state_dict({**state, "lora_B": state["lora_B"] * 2}, assign=True)
    outputs.append(layer(x).detach())
    for value in (layer.lora_A, layer.linear.weight, layer.linear.bias):
        if value is not None:
            value.data.mul_(2)
        outputs.append(layer(x).detach())
    if (x.shape, x.stride(), x.requires_grad) != before:
        raise RuntimeError("forward changes the shape of its input, or makes it require gradients")
    return outputs


def trained(sizes: Arrays, arrays: Arrays, x: Any, y: Any, optimizer: str, steps: int, rate: float) -> Arrays:
    """The state after so many steps over all parameters, each on all of x and y."""
    layer = _layer(sizes, arrays)
    layer.merged()  # which must not change what is trained
    entries, targets = torch.from_numpy(x), torch.from_numpy(y)
    kinds = {"Descent": torch.optim.SGD, "Adam": torch.optim.Adam}
    moves: Any = kinds[optimizer](layer.parameters(), lr=rate)
    for _ in range(steps):
        moves.zero_grad()
        loss: Any = nn.functional.mse_loss(layer(entries), targets)
        loss.backward()
        moves.step()
    return {name: value.detach().clone() for name, value in layer.state_dict().items()}
