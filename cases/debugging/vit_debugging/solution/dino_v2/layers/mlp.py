"""The feed-forward network of a block."""

import torch
from torch import nn


class Mlp(nn.Module):
    """in_features to hidden_features, GELU, and to out_features."""

    def __init__(
        self, in_features: int, hidden_features: int | None = None, out_features: int | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        hidden_features = hidden_features or in_features
        out_features = out_features or in_features
        self.fc1 = nn.Linear(in_features, hidden_features, bias=bias)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden_features, out_features, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(x)))
