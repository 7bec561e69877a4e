"""Multi-head latent attention (MLA): keys and values come out of one thin latent, which is all that is cached."""

import torch
from torch import nn
from torch.nn import functional as F

from utils import apply_rope, rope_tables


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(0.01 * torch.randn(*shape))


class RopelessMLA(nn.Module):
    """Latent attention without positions. Its cache holds the latents AFTER their norm."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads, self.dh = n_heads, d_model // n_heads
        q_proj_dim, kv_proj_dim = d_model // 2, 2 * d_model // 3
        self.W_dq, self.W_uq = _weight(d_model, q_proj_dim), _weight(q_proj_dim, d_model)
        self.q_layernorm = nn.LayerNorm(q_proj_dim)
        self.W_dkv, self.W_ukv = _weight(d_model, kv_proj_dim), _weight(kv_proj_dim, 2 * d_model)
        self.kv_layernorm = nn.LayerNorm(kv_proj_dim)
        self.W_o = _weight(d_model, d_model)

    def forward(
        self, x: torch.Tensor, kv_cache: torch.Tensor | None = None, past_length: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        q = (self.q_layernorm(x @ self.W_dq) @ self.W_uq).unflatten(2, (self.n_heads, self.dh)).transpose(1, 2)
        latent = self.kv_layernorm(x @ self.W_dkv)
        if kv_cache is not None:
            latent = torch.cat([kv_cache, latent], dim=1)
        k, v = (latent @ self.W_ukv).unflatten(2, (self.n_heads, 2 * self.dh)).transpose(1, 2).chunk(2, dim=-1)
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(past_length)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.transpose(1, 2).flatten(2) @ self.W_o.T, latent


class MLA(nn.Module):
    """Latent attention with positions: half of each head's queries and keys is turned, and that of keys is shared."""

    def __init__(self, d_model: int, n_heads: int, max_len: int = 1024, rope_theta: float = 10000.0) -> None:
        super().__init__()
        self.d_model, self.n_heads, self.dh = d_model, n_heads, d_model // n_heads
        self.q_proj_dim, self.kv_proj_dim = d_model // 2, 2 * d_model // 3
        self.qk_nope_dim = self.qk_rope_dim = self.dh // 2
        self.W_dq, self.W_uq = _weight(d_model, self.q_proj_dim), _weight(self.q_proj_dim, d_model)
        self.q_layernorm = nn.LayerNorm(self.q_proj_dim)
        self.W_dkv = _weight(d_model, self.kv_proj_dim + self.qk_rope_dim)
        self.W_ukv = _weight(self.kv_proj_dim, d_model + n_heads * self.qk_nope_dim)
        self.kv_layernorm = nn.LayerNorm(self.kv_proj_dim)
        self.W_o = _weight(d_model, d_model)
        cos, sin = rope_tables(self.dh, max_len, rope_theta)
        self.register_buffer("cos_cached", cos, persistent=False)
        self.register_buffer("sin_cached", sin, persistent=False)

    def forward(
        self, x: torch.Tensor, kv_cache: torch.Tensor | None = None, past_length: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Output (B, S, d_model) and the cache of all positions so far, (B, past_length + S, kv_proj_dim + rope)."""
        q = (self.q_layernorm(x @ self.W_dq) @ self.W_uq).unflatten(2, (self.n_heads, self.dh)).transpose(1, 2)
        cache = x @ self.W_dkv
        if kv_cache is not None:
            cache = torch.cat([kv_cache, cache], dim=1)
        end = cache.shape[1]
        latent, k_rope = cache.split([self.kv_proj_dim, self.qk_rope_dim], dim=-1)
        kv = (self.kv_layernorm(latent) @ self.W_ukv).unflatten(2, (self.n_heads, -1)).transpose(1, 2)
        k_nope, v = kv.split([self.qk_nope_dim, self.dh], dim=-1)
        q_nope, q_rope = q.split([self.qk_nope_dim, self.qk_rope_dim], dim=-1)
        here = slice(past_length, past_length + x.shape[1])
        cos, sin = (it[..., : self.qk_rope_dim // 2].repeat(1, 1, 1, 2) for it in (self.cos_cached, self.sin_cached))
        q_rope = apply_rope(q_rope, cos[:, :, here], sin[:, :, here])
        k_rope = apply_rope(k_rope.unsqueeze(1), cos[:, :, :end], sin[:, :, :end])
        q = torch.cat([q_nope, q_rope], dim=-1)
        k = torch.cat([k_nope, k_rope.expand(-1, self.n_heads, -1, -1)], dim=-1)
        mask = torch.ones(x.shape[1], end, dtype=torch.bool, device=x.device).tril(past_length)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.transpose(1, 2).flatten(2) @ self.W_o.T, cache
