"""A small vision model: patches, two layers on each patch, their mean, a hidden layer, the classes."""

import torch
from torch import nn


class TinyVision(nn.Module):
    """Pictures of N x 3 x 32 x 32, prepared as the hub says; gives N x num_labels scores."""

    def __init__(self, num_labels: int = 8) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 64, 4, 4)
        self.mix = nn.Conv2d(64, 128, 1)
        self.hidden = nn.Linear(128, 128)
        self.head = nn.Linear(128, num_labels)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        patches = torch.relu(self.mix(torch.relu(self.embed(pictures))))
        return self.head(torch.relu(self.hidden(patches.mean(dim=(2, 3)))))
