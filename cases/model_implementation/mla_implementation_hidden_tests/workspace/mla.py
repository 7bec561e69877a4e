"""Multi-head latent attention (MLA): keys and values come out of one thin latent, which is all that is cached."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: F401

from utils import apply_rope, rope_tables  # noqa: F401


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(0.01 * torch.randn(*shape))


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
        # TODO
        raise NotImplementedError("MLA.forward")
