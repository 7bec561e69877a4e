"""Trains a small network on grey digits. `python run_training.py` runs it for two short epochs."""

import json
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from network import SmallNet
from transforms import (
    Compose,
    Normalize,
    RandomBrightness,
    RandomResizedCrop,
    RandomRotation,
    Repeat,
    Resize,
    ToFloat,
)

CLASSES = 10
BATCH = 32
MEAN, STD = (0.1307,), (0.3081,)


def train_transform() -> Compose:
    """What a training picture goes through: a little different every time."""
    return Compose([
        ToFloat(),
        RandomRotation(15),
        RandomResizedCrop(32, scale=(0.8, 1.0)),
        RandomBrightness(0.2),
        Normalize(MEAN, STD),
        Repeat(3),
    ])


def val_transform() -> Compose:
    """What a validation picture goes through: always the same."""
    return Compose([
        ToFloat(),
        Resize(32),
        Repeat(3),
    ])


class Digits:
    """One split ("train" or "val") of the grey pictures in an npz file, in batches."""

    def __init__(self, path: str | Path, split: str, transform: Compose, rng: np.random.Generator) -> None:
        with np.load(path) as arrays:
            self.images, self.labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
        self.transform, self.rng = transform, rng

    def batch(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        pictures = np.stack([self.transform(self.images[row], self.rng) for row in rows])
        return torch.from_numpy(pictures), torch.from_numpy(self.labels[rows].astype(np.int64))

    def drawn(self, batches: int) -> list[np.ndarray]:
        """Rows of so many batches, drawn with replacement."""
        return list(self.rng.integers(0, len(self.labels), (batches, BATCH)))

    def all(self) -> list[np.ndarray]:
        """Rows of batches in which each picture occurs once."""
        return np.array_split(np.arange(len(self.labels)), range(BATCH, len(self.labels), BATCH))


def build_model() -> nn.Module:
    return SmallNet(CLASSES)


def run_epoch(
    model: nn.Module, digits: Digits, rows: list[np.ndarray], optimizer: torch.optim.Optimizer | None = None
) -> tuple[float, float]:
    """One pass, with training if there is an optimizer; returns mean loss and accuracy in per cent."""
    model.train(optimizer is not None)
    total, right, seen = 0.0, 0, 0
    with torch.set_grad_enabled(optimizer is not None):
        for pictures, labels in map(digits.batch, rows):
            logits = model(pictures)
            loss = nn.functional.cross_entropy(logits, labels)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(labels)
            right += int((logits.argmax(1) == labels).sum())
            seen += len(labels)
    return total / seen, 100 * right / seen


def run_training(
    epochs: int = 2, batches: int = 60, data: str | Path = "data/digits.npz", out: str | Path = "."
) -> nn.Module:
    """Train, write train_metrics.json and the best weights into `out`, and return the model of the last epoch."""
    torch.manual_seed(42)
    rng = np.random.default_rng(42)
    train_set = Digits(data, "train", train_transform(), rng)
    val_set = Digits(data, "val", val_transform(), rng)
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    history, best = [], -1.0
    for epoch in range(1, epochs + 1):
        start = time.time()
        train_loss, train_acc = run_epoch(model, train_set, train_set.drawn(batches), optimizer)
        val_loss, val_acc = run_epoch(model, val_set, val_set.all())
        if val_acc > best:
            best = val_acc
            save_file(model.state_dict(), Path(out) / "best_model.safetensors")
        history.append({
            "epoch": epoch,
            "train_loss": train_loss,
            "train_acc": train_acc,
            "val_loss": val_loss,
            "val_acc": val_acc,
            "epoch_time": time.time() - start,
        })
    metrics = {"metrics_history": history, "best_val_acc": best}
    (Path(out) / "train_metrics.json").write_text(json.dumps(metrics, indent=2))
    return model
