"""A small network for colour pictures."""

import torch
from torch import nn


def _layer(inside: int, outside: int) -> list[nn.Module]:
    """Halve the picture; the batch norm brings its own bias."""
    convolution = nn.Conv2d(inside, outside, 3, stride=2, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outside), nn.ReLU()]


class SmallNet(nn.Module):
    """Takes pictures (n, 3, 32, 32), returns one logit a class."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(*_layer(3, 12), *_layer(12, 24), *_layer(24, 32))
        self.classifier = nn.Linear(32 * 16, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).flatten(1))
