"""Blocks of the transformer: attention with a cache, feed-forward, norms that the condition scales and shifts."""

import torch
from torch import nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    """Attention of many heads. With caching on, each call also sees the keys and values of the calls before."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.caching = False
        self.cached: tuple[torch.Tensor, torch.Tensor] | None = None

    def kv_caching(self, enable: bool) -> None:
        """Switch the cache on or off; either way it is empty afterwards."""
        self.caching, self.cached = enable, None

    def forward(self, x: torch.Tensor, attn_bias: torch.Tensor | None) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        if self.caching:
            if self.cached is not None:
                k, v = torch.cat([self.cached[0], k], dim=2), torch.cat([self.cached[1], v], dim=2)
            self.cached = (k, v)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_bias)
        return self.proj(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(embed_dim, 4 * embed_dim), nn.GELU(), nn.Linear(4 * embed_dim, embed_dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class SharedAdaLin(nn.Sequential):
    """From the class vectors (B, C) what all blocks share: gates, scales and shifts, (B, 1, 6, C)."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__(nn.SiLU(), nn.Linear(embed_dim, 6 * embed_dim))

    def forward(self, cond: torch.Tensor) -> torch.Tensor:
        return super().forward(cond).view(len(cond), 1, 6, -1)


class AdaLNBlock(nn.Module):
    """One block; `cond` is what SharedAdaLin gives."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.attn = SelfAttention(embed_dim, num_heads)
        self.ffn = FeedForward(embed_dim)
        self.norm = nn.LayerNorm(embed_dim, elementwise_affine=False)
        self.ada_gss = nn.Parameter(torch.randn(1, 1, 6, embed_dim) / embed_dim**0.5)

    def forward(self, x: torch.Tensor, cond: torch.Tensor, attn_bias: torch.Tensor | None) -> torch.Tensor:
        gate1, gate2, scale1, scale2, shift1, shift2 = (self.ada_gss + cond).unbind(2)
        x = x + gate1 * self.attn(self.norm(x) * (1 + scale1) + shift1, attn_bias)
        return x + gate2 * self.ffn(self.norm(x) * (1 + scale2) + shift2)


class AdaLNBeforeHead(nn.Module):
    """The norm before the head; `cond` are the class vectors (B, C) themselves."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(embed_dim, elementwise_affine=False)
        self.ada_lin = nn.Sequential(nn.SiLU(), nn.Linear(embed_dim, 2 * embed_dim))

    def forward(self, x: torch.Tensor, cond: torch.Tensor) -> torch.Tensor:
        scale, shift = self.ada_lin(cond).unsqueeze(1).chunk(2, dim=-1)
        return self.norm(x) * (1 + scale) + shift
