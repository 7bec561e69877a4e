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

MEAN, STD, BATCH = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761), 250
FILES, FEW = 5, 50


def elsewhere(pictures):
    """Logits and tensors in a copy of the workspace that has other numbers in data/train.npz and models/."""
    copy = Path(tempfile.mkdtemp())
    weights = Path("models/backbone/weights.safetensors")
    for path in Path().rglob("*"):
        if path.is_file() and path not in (weights, Path("data/train.npz")):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            # A link would lead a module that resolves its own path back here.
            shutil.copyfile(path, copy / path) if path.suffix == ".py" else (copy / path).symlink_to(path.resolve())
    (copy / "data").mkdir(exist_ok=True)
    with np.load("data/train.npz") as train:
        np.savez(copy / "data" / "train.npz", images=255 - train["images"], labels=99 - train["labels"])
    save_file({name: part[::-1].copy() for name, part in load_file(weights).items()}, copy / weights)
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    model = get_best_model()
    with torch.no_grad():
        return {"logits": model(normalised(pictures))["logits"].float().numpy(), "tensors": shown(model)}


def get_best_model():
    return import_module("utils").get_best_model()


def shown(model):
    """The shape and a digest of each tensor."""
    return {name: [list(part.shape), digest(part)] for name, part in model.state_dict().items()}


def answers(pictures, checked):
    """Logits for uint8 pictures, for the first batch once more, and what the model and the checkpoints show.

    checked: so many of the pictures, from the first on, are the validation pictures.
    """
    torch.set_num_threads(1)
    model = get_best_model()
    if not isinstance(model, torch.nn.Module):
        return {"kind": type(model).__name__}
    given = normalised(pictures)
    training = any(part.training for part in model.modules())
    with torch.no_grad():
        logits = torch.cat([model(part)["logits"] for part in given.split(BATCH)]).float().numpy()
        again = model(given[:BATCH])["logits"].float().numpy()
        tensors = shown(model)
    paths = [path for path in sorted(Path("checkpoints").iterdir()) if path.suffix in (".pt", ".ckpt")][:FILES]
    earlier, spread = {path.name: names(path, given[:checked]) for path in paths}, spread_without_weights(given[:FEW])
    return {
        "logits": logits,
        "again": again,
        "tensors": tensors,
        "training": training,
        "earlier": earlier,
        "spread": spread,
    }


def alone(pictures):
    """Logits for uint8 pictures, each a batch of its own, in a process that meets no other ones."""
    torch.set_num_threads(1)
    model = get_best_model()
    with torch.no_grad():
        return torch.cat([model(part)["logits"] for part in normalised(pictures).split(1)]).float().numpy()


def normalised(pictures):
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (MEAN, STD))
    return (torch.from_numpy(np.array(pictures)).float() / 255 - mean) / std


def digest(part):
    return hashlib.sha256(np.ascontiguousarray(part.float().numpy()).tobytes()).hexdigest()


def names(path, pictures):
    """What the model says with the tensors of another checkpoint; nothing if it cannot take them."""
    model = get_best_model()
    try:
        model.load_state_dict(torch.load(path, weights_only=True)["model_state_dict"])
    except Exception:
        return None
    with torch.no_grad():
        return torch.cat([model(part)["logits"] for part in pictures.split(BATCH)]).argmax(1).numpy()


def spread_without_weights(pictures):
    """How far the classes' logits lie apart when each tensor is even: not at all, unless others are hidden."""
    model = get_best_model()
    with torch.inference_mode():
        for part in model.state_dict().values():
            if part.is_floating_point():
                part.fill_(part.shape[0] / part.numel() if part.ndim > 1 else 1.0)
        logits = model(pictures)["logits"].double()
        return float((logits.amax(1) - logits.amin(1)).max() / logits.abs().max().clamp(min=1))
