"""The head with which DINO is trained: a bottleneck, and prototypes on the unit sphere."""

import torch
from torch import nn
from torch.nn import functional as F


class DinoHead(nn.Module):
    def __init__(self, in_dim: int, out_dim: int, hidden_dim: int = 2048, bottleneck_dim: int = 256) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(in_dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, bottleneck_dim))
        self.last_layer = nn.Linear(bottleneck_dim, out_dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(F.normalize(self.mlp(x), dim=-1), F.normalize(self.last_layer.weight, dim=-1))
