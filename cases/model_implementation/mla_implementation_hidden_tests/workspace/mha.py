"""Plain and rotary multi-head attention with a cache of keys and values; for comparison, and complete."""

import torch
from torch import nn
from torch.nn import functional as F

from utils import apply_rope, rope_tables

Cache = tuple[torch.Tensor, torch.Tensor]


class MHA(nn.Module):
    """Causal attention. The cache holds keys and values of all positions before."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads, self.dh = n_heads, d_model // n_heads
        self.qkv = nn.Parameter(0.01 * torch.randn(3 * d_model, d_model))
        self.wo = nn.Parameter(0.01 * torch.randn(d_model, d_model))

    def _turned(self, q: torch.Tensor, k: torch.Tensor, past_length: int) -> Cache:
        return q, k

    def forward(
        self, x: torch.Tensor, kv_cache: Cache | None = None, past_length: int = 0
    ) -> tuple[torch.Tensor, Cache]:
        q, k, v = F.linear(x, self.qkv).unflatten(2, (3, self.n_heads, self.dh)).permute(2, 0, 3, 1, 4)
        q, k = self._turned(q, k, past_length)
        if kv_cache is not None:
            k, v = torch.cat([kv_cache[0], k], dim=2), torch.cat([kv_cache[1], v], dim=2)
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(past_length)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return F.linear(out.transpose(1, 2).flatten(2), self.wo), (k, v)


class RopeMHA(MHA):
    """The same with rotary positions on whole queries and keys."""

    def __init__(self, d_model: int, n_heads: int, max_len: int = 1024) -> None:
        super().__init__(d_model, n_heads)
        cos, sin = rope_tables(self.dh, max_len)
        self.register_buffer("cos_cached", cos, persistent=False)
        self.register_buffer("sin_cached", sin, persistent=False)

    def _turned(self, q: torch.Tensor, k: torch.Tensor, past_length: int) -> Cache:
        end = past_length + q.shape[2]
        cos, sin = (it[:, :, past_length:end].repeat(1, 1, 1, 2) for it in (self.cos_cached, self.sin_cached))
        return apply_rope(q, cos, sin), apply_rope(k, cos, sin)
