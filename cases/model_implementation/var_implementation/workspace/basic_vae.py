"""The two halves of the picture autoencoder; a feature stands for 4 x 4 pixels."""

import torch
from torch import nn


class Encoder(nn.Module):
    """Pictures (B, 3, 4 p, 4 p) to features (B, z, p, p)."""

    def __init__(self, channels: int, z_channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, channels, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(channels, z_channels, 3, stride=2, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Decoder(nn.Module):
    """Features (B, z, p, p) to pictures (B, 3, 4 p, 4 p)."""

    def __init__(self, channels: int, z_channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Upsample(scale_factor=2),
            nn.Conv2d(z_channels, channels, 3, padding=1),
            nn.SiLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(channels, 3, 3, padding=1),
        )

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.layers(z)
