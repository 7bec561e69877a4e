"""Calls the agent's transforms, network and training inside the subject: arrays go in, arrays come out."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file


def transformed(which: str, pictures: list[Any], seeds: list[int]) -> list[Any]:
    """Each picture after a transform of train.py with a generator of its own seed, and the picture as it is then."""
    import train

    transform = {"train": train.train_transform, "val": train.val_transform}[which]()
    found = []
    for picture, seed in zip(pictures, seeds, strict=True):
        result = transform(picture, np.random.default_rng(seed))
        found.append([np.asarray(result), str(getattr(result, "dtype", type(result))), picture])
    return found


def defaults() -> dict[str, str]:
    """What run_training() takes where nothing is given."""
    import train

    return {name: str(kind.default) for name, kind in inspect.signature(train.run_training).parameters.items()}


def built(state: dict[str, Any], pictures: Any) -> dict[str, Any]:
    """Names of build_model()'s state, and its output in evaluation mode with the given weights."""
    import train

    model = train.build_model().eval()
    names = list(model.state_dict())
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})
    with torch.no_grad():
        return {"names": names, "out": model(torch.from_numpy(pictures))}


def trained(epochs: int, batches: int, data: str, positional: bool, pictures: Any) -> dict[str, Any]:
    """Metrics, saved weights, and weights and output of the network that is returned."""
    import train

    with tempfile.TemporaryDirectory() as out:
        if positional:
            model = train.run_training(epochs, batches, data, out).eval()
        else:
            model = train.run_training(epochs=epochs, batches=batches, data=data, out=out).eval()
        metrics = (Path(out) / "train_metrics.json").read_text()
        saved = load_file(Path(out) / "best_model.safetensors")
    with torch.no_grad():
        seen = model(torch.from_numpy(pictures))
    return {"metrics": metrics, "saved": saved, "state": dict(model.state_dict()), "out": seen}
