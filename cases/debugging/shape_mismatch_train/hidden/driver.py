"""Runs the agent's train.py inside the subject. It knows no expected value: arrays go in, arrays come out.

All that comes out is the word of the agent's process. What it is worth is measured in check.py.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook


def transformed(which: str, images: list[Any], seed: int) -> list[torch.Tensor]:
    """The images after one of the two transforms."""
    import train

    torch.manual_seed(seed)
    transform = {"train": train.train_transform, "val": train.val_transform}[which]()
    return [transform(image) for image in images]


def _run(epochs: int, batches: int, data: str) -> tuple[nn.Module, dict[str, Any]]:
    """A training into a folder of its own: the model, and the files it left."""
    import train

    with tempfile.TemporaryDirectory() as out:
        model: nn.Module = train.run_training(epochs=epochs, batches=batches, data=data, out=out)
        metrics = (Path(out) / "train_metrics.json").read_text()
        saved = load_file(Path(out) / "best_model.safetensors")
    return model, {"metrics": metrics, "saved": saved}


def trained(epochs: int, batches: int, data: str) -> dict[str, Any]:
    """Train, and hand out the weights that came back: what they are worth is measured elsewhere."""
    model, found = _run(epochs, batches, data)
    return {**found, "state": dict(model.state_dict())}


def rewired(data: str, state: dict[str, Any], images: Any) -> dict[str, Any]:
    """Train shortly, then put given weights into the network that came back and look at colour images."""
    model, _ = _run(1, 1, data)
    own = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()}, strict=True)
    model.eval()
    with torch.no_grad():
        return {"state": own, "out": model(torch.from_numpy(images))}


def built(state: dict[str, Any], images: Any) -> dict[str, Any]:
    """The state of what build_model() makes, and what it computes with given weights."""
    import train

    model = train.build_model()
    own = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()}, strict=True)
    model.eval()
    with torch.no_grad():
        return {"state": own, "out": model(torch.from_numpy(images))}


_passes: list[list[int]] = []
_first: list[torch.Tensor] = []


def _note(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    if type(module).__name__ == "ColourNet":
        training = module.training and torch.is_grad_enabled()
        _passes.append([len(inputs[0]), int(training)])
        if training and not _first:
            _first.append(inputs[0].detach().clone())


def staged(digits: str, data: str, out: str) -> None:
    """Make an empty folder the current one, with the digits at `data` and the folder `out` in it."""
    os.chdir(tempfile.mkdtemp())
    for folder in (Path(data).parent, Path(out)):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(digits, data)
    register_module_forward_pre_hook(_note)


def left(model: Any, digits: str, data: str, out: str) -> dict[str, Any]:
    """What a training has returned and written, and the batches that passed through the network."""
    saved = load_file(Path(out) / "best_model.safetensors")
    metrics = (Path(out) / "train_metrics.json").read_text()
    found = {"metrics": metrics, "saved": saved, "state": dict(model.state_dict())}
    return {**found, "passes": _passes, "first": _first[0] if _first else None}
