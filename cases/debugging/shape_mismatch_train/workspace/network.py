"""A small colour network in the manner of MobileNetV2: cheap depthwise convolutions between narrow layers."""

import torch
from torch import nn


def _convolution(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch norm and ReLU6. The batch norm brings its own bias."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """Widen, filter every channel on its own, narrow again; add the input where the shapes allow it."""

    def __init__(self, inside: int, outside: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = inside * expand
        self.skip = stride == 1 and inside == outside
        self.layers = nn.Sequential(
            _convolution(inside, wide, 1),
            _convolution(wide, wide, 3, stride, groups=wide),
            nn.Conv2d(wide, outside, 1, bias=False),
            nn.BatchNorm2d(outside),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layers(x)
        return x + out if self.skip else out


class ColourNet(nn.Module):
    """Takes colour images (n, 3, height, width), returns one logit a class."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            _convolution(3, 16, 3, stride=2),
            InvertedResidual(16, 24, stride=2, expand=2),
            InvertedResidual(24, 24, stride=1, expand=2),
            InvertedResidual(24, 40, stride=2, expand=2),
            _convolution(40, 96, 1),
        )
        self.classifier = nn.Linear(96, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean(dim=(2, 3)))
