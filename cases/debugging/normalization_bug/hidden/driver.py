"""Calls the agent's transforms, network and training inside the subject: arrays go in, arrays come out."""

from __future__ import annotations

import contextlib
import inspect
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file


def transformed(which: str, pictures: list[Any], seeds: list[int]) -> list[Any]:
    """Each picture after a transform of train.py with a generator of its own seed, and the picture as it is then.

    They come in two arrays that are used again, one of them not contiguous; and what is got is changed by who has it.
    """
    import train

    transform = {"train": train.train_transform, "val": train.val_transform}[which]()
    found, places = [], [np.empty((28, 28), np.uint8), np.empty((28, 56), np.uint8)[:, ::2]]
    for number, (picture, seed) in enumerate(zip(pictures, seeds, strict=True)):
        place = places[number % 2]
        place[:] = picture
        result = transform(place, np.random.default_rng(seed))
        found.append([np.array(result), str(getattr(result, "dtype", type(result))), place.copy()])
        if isinstance(result, np.ndarray) and result.flags.writeable:
            result[:] = 9
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


def starters(epochs: int, source: str, batches: int, data: str) -> dict[str, Any]:
    """Metrics of the starter's train.py and weights of the network that it returns; the agent's is not imported."""
    names: dict[str, Any] = {"__name__": "starter"}
    exec(compile(source, "train.py", "exec"), names)
    with tempfile.TemporaryDirectory() as out:
        state = dict(names["run_training"](epochs, batches, data, out).state_dict())
        return {"metrics": (Path(out) / "train_metrics.json").read_text(), "state": state}


def trained(epochs: int, batches: int, files: list[str], positional: bool, pictures: Any) -> dict[str, Any]:
    """Metrics, seconds, saved weights, and weights and output of the network that is returned, for the last file.

    Each is in its turn the file of one name, and for the others one step is made before. There is no folder for
    temporary files: all is written into `out`.
    """
    import train

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        tempfile.tempdir = str(Path(folder, "none"))
        # The current folder is neither that of train.py, nor that of the results.
        Path("results").mkdir()
        kind, base = (Path, "") if positional else (str, folder)
        data, out = kind(Path(base, "digits.npz")), kind(Path(base, "results"))
        for file in files:
            shutil.copy(file, data)
            if file != files[-1]:
                train.run_training(epochs=1, batches=1, data=data, out=out)
        torch.manual_seed(epochs + batches)  # what training starts from does not depend on where the generator stands
        start = time.monotonic()
        if positional:  # and paths that are no text, from the current folder
            model = train.run_training(epochs, batches, data, out)
        else:
            model = train.run_training(epochs=epochs, batches=batches, data=data, out=out)
        seconds = time.monotonic() - start
        metrics = (Path(out) / "train_metrics.json").read_text()
        saved = load_file(Path(out) / "best_model.safetensors")
    trainable = all(value.requires_grad for value in model.parameters())
    with torch.no_grad():
        seen = model(torch.from_numpy(pictures))
    state = dict(model.state_dict())
    return {
        "metrics": metrics, "seconds": seconds, "saved": saved, "state": state, "out": seen, "trainable": trainable
    }  # fmt: skip
