"""Stochastic depth."""

import torch
from torch import nn


class DropPath(nn.Module):
    """In training, a sample loses the branch with probability `rate`; what is kept is scaled up."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.rate == 0.0 or not self.training:
            return x
        kept = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(1 - self.rate)
        return x * kept / (1 - self.rate)
