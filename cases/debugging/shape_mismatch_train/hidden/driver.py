"""Runs the agent's train.py inside the subject. It knows no expected value: arrays go in, arrays come out.

All that comes out is the word of the agent's process. What it is worth is measured in check.py.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules.module import register_module_forward_hook


def _seeded(seed: int) -> None:
    for start in (torch.manual_seed, random.seed, np.random.seed):
        start(seed % 2**32)


def transformed(which: str, images: list[Any], seed: int, alike: int = 0) -> dict[str, Any]:
    """The images after one of the two transforms. alike: so many images after each other meet the same draws."""
    import train

    found: list[torch.Tensor] = []
    for number, image in enumerate(images):
        if number % (alike or len(images)) == 0:
            _seeded(seed + number)  # a transform may draw when it is made
            transform = {"train": train.train_transform, "val": train.val_transform}[which]()
        if alike:
            _seeded(seed + number // alike)
        found.append(transform(image))
    return {"images": found, "kinds": sorted({str(getattr(it, "dtype", type(it))) for it in found})}


def _run(epochs: int, batches: int, data: str) -> tuple[nn.Module, dict[str, Any]]:
    """A training into a folder of its own: the model, and the files it left. Its paths are no text."""
    import train

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        model: nn.Module = train.run_training(epochs=epochs, batches=batches, data=Path(data), out=out)
        metrics = (out / "train_metrics.json").read_text()
        saved = load_file(out / "best_model.safetensors")
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


def _row(module: nn.Module) -> torch.Tensor:
    """All that is trained, in one row; weights in the order channels_last have no such view."""
    return torch.cat([it.detach().flatten() for it in module.parameters()])[None]


class _Stage:
    """A folder of its own for one training, and the batches that passed through a network there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passes: list[list[int]] = []
        self.entries: list[torch.Tensor] = []
        self.logits: list[torch.Tensor] = []
        self.params: list[torch.Tensor] = []
        self.slopes: list[dict[str, torch.Tensor]] = []
        self.validated: list[torch.Tensor] = []
        self.began = time.monotonic()

    def watch(self, module: nn.Module) -> None:
        """Keeps what is trained before each step, and its gradients as they come out of backward()."""
        if not self.slopes:
            for name, parameter in module.named_parameters():
                parameter.register_post_accumulate_grad_hook(partial(self._met, name))
        self.params.append(_row(module))
        self.slopes.append({})

    def _met(self, name: str, parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            self.slopes[-1][name] = parameter.grad.detach().clone().flatten()

    def gradients(self, module: nn.Module) -> list[torch.Tensor]:
        """Of each step; none where a program works them out without backward()."""
        names = [name for name, _ in module.named_parameters()]
        whole = all(set(names) <= met.keys() for met in self.slopes)
        return [torch.cat([met[name] for name in names])[None] for met in self.slopes] if whole else []


_stages: list[_Stage] = []


def _note(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
    if type(module).__name__ == "ColourNet" and _stages:
        training = module.training and torch.is_grad_enabled()
        _stages[-1].passes.append([len(inputs[0]), int(training)])
        if training:
            _stages[-1].entries.append(inputs[0][:, 0].detach().clone())
            _stages[-1].logits.append(output.detach().clone())
            _stages[-1].watch(module)
        else:
            _stages[-1].validated.append(output.detach().clone())


def staged(arrays: dict[str, Any], data: str, out: str) -> None:
    """Make an empty folder the current one, with a file of `arrays` at `data` and the folder `out` in it.

    Trainings of one process have one path for it.
    """
    if not _stages:
        register_module_forward_hook(_note)
    folder = Path(tempfile.mkdtemp())
    if _stages:  # the same place again; what a training has left there is put aside
        place = _stages[-1].folder
        _stages[-1].folder, folder = place.rename(folder), place
        folder.mkdir()
    _stages.append(_Stage(folder))
    os.chdir(_stages[-1].folder)
    for folder in (Path(data).parent, Path(out)):
        folder.mkdir(parents=True, exist_ok=True)
    if len(_stages) > 1:
        _trained_before(Path(out))
    np.savez(data, **arrays)


def _trained_before(out: Path) -> None:
    """Files of another training lie in `out`, one that was right about every image: they must count for nothing."""
    numbers = {"train_loss": 0.001, "train_acc": 100.0, "val_loss": 0.002, "val_acc": 100.0, "epoch_time": 1.0}
    metrics = {"metrics_history": [{"epoch": 1, **numbers}], "best_val_acc": 100.0}
    (out / "train_metrics.json").write_text(json.dumps(metrics))
    for saved in _stages[0].folder.rglob("best_model.safetensors"):
        shutil.copy(saved, out)


def left(model: Any, arrays: dict[str, Any], data: str, out: str) -> dict[str, Any]:
    """What a training has returned and written, and the batches that passed through the network; in their order."""
    stage, now = _stages.pop(0), time.monotonic()
    saved = load_file(stage.folder / out / "best_model.safetensors")
    metrics = (stage.folder / out / "train_metrics.json").read_text()
    files = sorted(str(it.relative_to(stage.folder)) for it in stage.folder.rglob("*") if it.is_file())
    kept = {name: getattr(stage, name) for name in ("entries", "logits", "params", "validated")}
    kept["slopes"] = stage.gradients(model)
    kept["params"].append(_row(model))
    met = {name: torch.cat(tensors) if tensors else None for name, tensors in kept.items()}
    found = {"metrics": metrics, "saved": saved, "state": dict(model.state_dict()), "files": files}
    return {**found, **met, "passes": stage.passes, "seconds": now - stage.began}
