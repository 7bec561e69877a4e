"""Runs the agent's model on pictures whose labels it has never seen."""

import hashlib
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

MEAN, STD, BATCH = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), 250


def elsewhere(pictures, val_pictures, val_labels):
    """`answers` in a copy of the workspace whose data/val.npz has these labels, with other numbers elsewhere."""
    copy = Path(tempfile.mkdtemp())
    weights = Path("models/backbone/weights.safetensors")
    for path in Path().rglob("*"):
        if path.is_file() and path not in (weights, Path("data/train.npz"), Path("data/val.npz")):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            # A link would lead a module that resolves its own path back here.
            shutil.copyfile(path, copy / path) if path.suffix == ".py" else (copy / path).symlink_to(path.resolve())
    (copy / "data").mkdir(exist_ok=True)
    with np.load("data/train.npz") as train:
        # How often a class is there is a number in data, too.
        np.savez(copy / "data" / "train.npz", images=255 - train["images"], labels=9 - train["labels"])
    save_file({name: part[::-1].copy() for name, part in load_file(weights).items()}, copy / weights)
    np.savez(copy / "data" / "val.npz", images=np.array(val_pictures), labels=np.array(val_labels))
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    return answers(pictures)


def answers(pictures):
    """Scores for uint8 pictures, for the first batch once more, and what the model shows of itself."""
    torch.set_num_threads(1)
    model = import_module("utils").get_best_model()
    if not isinstance(model, torch.nn.Module):
        return {"kind": type(model).__name__}
    training = any(part.training for part in model.modules())
    model.eval()
    with torch.no_grad():
        parts = [model(part) for part in batches(pictures, BATCH)]
        one = list(model(next(batches(pictures, 1))).shape)
        again = model(next(batches(pictures, BATCH))).float().numpy()
        tensors = {name: [list(part.shape), digest(part)] for name, part in model.state_dict().items()}
    scores = torch.cat(parts).float().numpy()
    return {"scores": scores, "again": again, "tensors": tensors, "training": training, "one": one}


def alone(pictures):
    """Scores for uint8 pictures, each a batch of its own, in a process that meets no other ones."""
    torch.set_num_threads(1)
    model = import_module("utils").get_best_model().eval()
    with torch.no_grad():
        return torch.cat([model(part) for part in batches(pictures, 1)]).float().numpy()


def batches(pictures, size):
    """Normalised pictures, so many at a time."""
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (MEAN, STD))
    return ((part.float() / 255 - mean) / std for part in torch.from_numpy(np.array(pictures)).split(size))


def digest(part):
    return hashlib.sha256(np.ascontiguousarray(part.float().numpy()).tobytes()).hexdigest()
