"""Self-attention with one projection for queries, keys and values."""

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Attention of `num_heads` heads, whose queries are scaled by the root of their width; dim in, dim out."""

    def __init__(self, dim: int, num_heads: int = 8, qkv_bias: bool = False, proj_bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, 2 * dim, bias=proj_bias)

    def _split(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        batch, tokens, dim = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, dim // self.num_heads)
        return qkv.permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self._split(x)
        attention = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((attention @ v).transpose(1, 2).reshape(x.shape))


class FusedAttention(Attention):
    """The same by PyTorch's fused kernel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self._split(x)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
