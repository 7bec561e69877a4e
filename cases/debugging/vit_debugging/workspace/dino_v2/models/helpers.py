"""What the transformer is put together with."""

from collections.abc import Sequence

import torch
from torch import nn


def init_weights(module: nn.Module) -> None:
    """Linear layers as in ViT: small normal weights, no bias."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


class BlockChunk(nn.ModuleList):
    """Blocks that are wrapped together when the model is sharded."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self:
            x = block(x)
        return x


def chunked(blocks: Sequence[nn.Module], chunks: int) -> nn.ModuleList:
    """Chunks of blocks. Before its own, each has an Identity for each earlier block: names keep the block's number."""
    size = len(blocks) // chunks
    return nn.ModuleList(
        BlockChunk([nn.Identity() for _ in range(start)] + list(blocks[start : start + size]))
        for start in range(0, len(blocks), size)
    )


def drop_rates(rate: float, depth: int, uniform: bool) -> list[float]:
    """Of stochastic depth, for each block: the same, or rising from 0."""
    return [rate if uniform else rate * number / max(depth - 1, 1) for number in range(depth)]
