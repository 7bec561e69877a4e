"""A feed-forward network with a gate, by Shazeer (2020)."""

import torch
from torch import nn
from torch.nn import functional as F


class SwiGLUFFN(nn.Module):
    """One layer makes both halves of 2 x hidden_features; the SiLU of the first gates the second."""

    def __init__(
        self, in_features: int, hidden_features: int | None = None, out_features: int | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        hidden_features = hidden_features or in_features
        out_features = out_features or in_features
        self.w12 = nn.Linear(in_features, 2 * hidden_features, bias=bias)
        self.w3 = nn.Linear(2 * hidden_features, out_features, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(gate) * value)


class SwiGLUFFNRounded(SwiGLUFFN):
    """Two thirds of hidden_features, rounded up to a multiple of 8, so that it is about as large as an Mlp."""

    def __init__(
        self, in_features: int, hidden_features: int | None = None, out_features: int | None = None, bias: bool = True
    ) -> None:
        hidden = (int((hidden_features or in_features) * 2 / 3) + 7) // 8 * 8
        super().__init__(in_features, hidden, out_features, bias)
