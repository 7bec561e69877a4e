"""Location vectors for pictures of any size."""

import torch
from torch.nn import functional as F


def interpolated(pos_embed: torch.Tensor, tokens: int, grid: tuple[int, int]) -> torch.Tensor:
    """The location vectors (1, 1 + rows * columns, D) of a picture with that grid of (rows, columns) patches.

    pos_embed: (1, 1 + N, D), the class token's vector and those of a square grid of N patches, row by row.
    tokens: how many tokens the picture has in a plain ViT, the class token among them.
    """
    learned = pos_embed.shape[1] - 1
    if tokens == learned + 1 and grid[0] == grid[1]:
        return pos_embed
    side = round(learned**0.5)
    table = pos_embed[:, 1:].unflatten(1, (side, side)).permute(0, 3, 1, 2)
    table = F.interpolate(table, size=grid, mode="bicubic", align_corners=False)
    return torch.cat([pos_embed[:, :1], table.flatten(2).transpose(1, 2)], dim=1)
