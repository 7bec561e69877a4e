"""The parts of which a transformer's block is made."""

import torch
from torch import nn
from torch.nn import functional as F


class DropPath(nn.Module):
    """Stochastic depth: in training, each sample loses its whole branch with probability `rate`."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.rate == 0:
            return x
        kept = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) >= self.rate
        return x * kept / (1 - self.rate)


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int, drop: float = 0.0) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.fc2(self.drop(F.gelu(self.fc1(x)))))


class Attention(nn.Module):
    """Gives what was attended to, and the attention of each head."""

    def __init__(self, dim: int, num_heads: int, qkv_bias: bool = False, drop: float = 0.0) -> None:
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=qkv_bias), nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = self.qkv(x).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        attention = (self.scale * q @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.drop(self.proj((attention @ v).transpose(1, 2).flatten(2))), attention


class Block(nn.Module):
    def __init__(
        self,
        dim: int,
        num_heads: int,
        mlp_ratio: float = 4.0,
        qkv_bias: bool = False,
        drop: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, num_heads, qkv_bias, drop)
        self.mlp = Mlp(dim, int(mlp_ratio * dim), drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: torch.Tensor, return_attention: bool = False) -> torch.Tensor:
        attended, attention = self.attn(self.norm1(x))
        if return_attention:
            return attention
        x = x + self.drop_path(attended)
        return x + self.drop_path(self.mlp(self.norm2(x)))
