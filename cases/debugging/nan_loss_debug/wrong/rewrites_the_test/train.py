"""Fits a straight line to points by gradient descent: `python train.py`."""

from collections.abc import Callable

import torch
from torch import nn

EPOCHS = 20
LEARNING_RATE = 0.01

Callback = Callable[[int, float, nn.Module], None]


class Line(nn.Module):
    """y = weight * x + bias."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def make_data(points: int = 50, seed: int = 42) -> tuple[torch.Tensor, torch.Tensor]:
    """Points along y = 2 x + 1 for x from 0 to 1000, with noise."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.linspace(0, 1000, points).unsqueeze(1)
    y = 2 * x + 1 + 20 * torch.randn(x.shape, generator=generator)
    return x, y


def train(
    x: torch.Tensor, y: torch.Tensor, epochs: int = EPOCHS, callback: Callback | None = None
) -> tuple[list[float], nn.Module]:
    """Full-batch gradient descent; returns the loss of every epoch and the fitted model."""
    torch.manual_seed(42)
    model = Line()
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for epoch in range(epochs):
        loss = criterion(model(x), y)
        losses.append(loss.item())
        # The callback sees the model that has exactly this loss, so it comes before the step.
        if callback is not None:
            callback(epoch, loss.item(), model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses, model


if __name__ == "__main__":
    train(*make_data(), callback=lambda epoch, loss, model: print(f"epoch {epoch + 1:2d}: loss {loss:.6g}"))
