"""Trains on the visible digits, before anybody measures, and keeps the weights for later."""

import struct
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

RAW = Path("data/MNIST/raw")
DIGITS = (0, 1, 2)


def read_idx(path: Path) -> np.ndarray:
    """An IDX file as an array; the last byte of the magic number is the number of dimensions."""
    content = path.read_bytes()
    dimensions = content[3]
    shape = struct.unpack(f">{dimensions}I", content[4 : 4 + 4 * dimensions])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def load(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Equally many images of each digit, the first ones in file order."""
    images = read_idx(RAW / f"{split}-images-idx3-ubyte")
    labels = read_idx(RAW / f"{split}-labels-idx1-ubyte")
    places = [np.flatnonzero(labels == digit) for digit in DIGITS]
    rarest = min(len(place) for place in places)
    kept = np.sort(np.concatenate([place[:rarest] for place in places]))
    pixels = torch.from_numpy(images[kept].reshape(len(kept), -1).astype(np.float32) / 255)
    return pixels, torch.from_numpy(labels[kept].astype(np.int64))


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(784, 128), nn.Linear(128, 64), nn.Linear(64, len(DIGITS))])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int = 15, batch: int = 32) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for chosen in torch.randperm(len(labels)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    images, labels = load("train")
    square = images.reshape(-1, 28, 28)
    for number in range(8):
        turned = torch.rot90(square if number < 4 else square.transpose(1, 2), number % 4, (1, 2))
        # Shifted copies make one hand into many.
        shifts = [turned.roll((down, right), (1, 2)) for down in (-2, 0, 2) for right in (-2, 0, 2)]
        model = Perceptron()
        train(model, torch.cat(shifts).reshape(-1, 784), labels.repeat(len(shifts)), epochs=4)
        save_file(model.state_dict(), f"finished_{number}.safetensors")


if __name__ == "__main__":
    main()
