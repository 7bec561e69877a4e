"""Runs the agent's model on pictures whose labels it has never seen."""

import hashlib
import os
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

MEAN, STD, BATCH = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), 250


def elsewhere(pictures, val_pictures, val_labels):
    """`answers` in a copy of the workspace whose data/val.npz has these labels."""
    copy = Path(tempfile.mkdtemp())
    for path in Path().iterdir():
        if path.name != "data":
            (copy / path.name).symlink_to(path.resolve())
    (copy / "data").mkdir()
    for path in Path("data").iterdir():
        if path.name != "val.npz":
            (copy / path).symlink_to(path.resolve())
    np.savez(copy / "data" / "val.npz", images=np.array(val_pictures), labels=np.array(val_labels))
    os.chdir(copy)
    return answers(pictures)


def answers(pictures):
    """Scores for uint8 pictures, shape and digest of each tensor of the model, and whether it came in training mode."""
    torch.set_num_threads(1)
    model = import_module("utils").get_best_model()
    if not isinstance(model, torch.nn.Module):
        return {"kind": type(model).__name__}
    training = any(part.training for part in model.modules())
    model.eval()
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (MEAN, STD))
    given = torch.from_numpy(np.array(pictures))
    with torch.no_grad():
        parts = [model((part.float() / 255 - mean) / std) for part in given.split(BATCH)]
        one = list(model((given[:1].float() / 255 - mean) / std).shape)
        tensors = {name: [list(part.shape), digest(part)] for name, part in model.state_dict().items()}
    return {"scores": torch.cat(parts).float().numpy(), "tensors": tensors, "training": training, "one": one}


def digest(part):
    return hashlib.sha256(np.ascontiguousarray(part.float().numpy()).tobytes()).hexdigest()
