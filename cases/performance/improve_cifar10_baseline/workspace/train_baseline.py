"""The training run behind checkpoints/baseline.safetensors: plain Adam, first on the pictures as they
are, then on mirrored and shifted ones.

    python train_baseline.py --epochs 1 --start checkpoints/baseline.safetensors --out checkpoints/trial.safetensors
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from model import SmallCNN, prepare
from safetensors.torch import load_file, save_file
from torch import nn

BATCH, SEED = 64, 42
RATE, LAST_RATE, LAST_EPOCHS = 1e-3, 1e-4, 3
PLAIN, VARIED, SHIFT = 44, 50, 3


def load(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads data/train.npz or data/val.npz: uint8 pictures N x 3 x 24 x 24 and their classes."""
    with np.load(f"data/{name}.npz") as file:
        return torch.from_numpy(file["images"]), torch.from_numpy(file["labels"])


def start_weights(model: SmallCNN) -> None:
    """He initialisation: without batch normalisation the default one starts very slowly."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
            nn.init.zeros_(module.bias)


@torch.no_grad()
def accuracy(model: SmallCNN, pictures: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of pictures whose highest score is at the right class."""
    model.eval()
    right = sum(int((model(prepare(p)).argmax(1) == y).sum()) for p, y in zip(pictures.split(500), labels.split(500)))
    model.train()
    return right / len(labels)


def vary(pictures: torch.Tensor) -> torch.Tensor:
    """Half of the pictures mirrored, and all of them shifted by up to three pixels."""
    mirrored = torch.rand(len(pictures)) < 0.5
    pictures[mirrored] = pictures[mirrored].flip(3)
    padded = nn.functional.pad(pictures, (SHIFT,) * 4, mode="replicate")
    top, left = (int(torch.randint(0, 2 * SHIFT + 1, ())) for _ in range(2))
    return padded[:, :, top : top + 24, left : left + 24]


def train(model: SmallCNN, epochs: int, plain: int = 0) -> None:
    """One pass an epoch over all training pictures in random order; in the first `plain` epochs as they are."""
    pictures, labels = load("train")
    val_pictures, val_labels = load("val")
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for epoch in range(epochs):
        # A constant rate leaves the weights jumping about; the last epochs let them settle.
        optimiser.param_groups[0]["lr"] = LAST_RATE if epoch >= epochs - LAST_EPOCHS else RATE
        for batch in torch.randperm(len(labels)).split(BATCH):
            entries = prepare(pictures[batch])
            loss = nn.functional.cross_entropy(model(entries if epoch < plain else vary(entries)), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        print(f"epoch {epoch}: validation accuracy {accuracy(model, val_pictures, val_labels):.4f}", flush=True)


def main() -> None:
    """Trains, then writes the weights and the validation accuracy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=PLAIN + VARIED)
    parser.add_argument("--start", type=Path, help="go on from these weights instead of fresh ones")
    parser.add_argument("--out", type=Path, default=Path("checkpoints/trial.safetensors"))
    options = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    model = SmallCNN()
    if options.start:
        model.load_state_dict(load_file(options.start))
    else:
        start_weights(model)
    train(model, options.epochs, plain=0 if options.start else PLAIN)
    save_file(model.state_dict(), options.out)
    Path("metrics.json").write_text(json.dumps({"validation_accuracy": accuracy(model, *load("val"))}))


if __name__ == "__main__":
    main()
