"""A vision transformer in which every channel of a patch is a token of its own."""

from typing import Any

import torch
from torch import nn

from positions import interpolated
from vit import VisionTransformer


class PatchEmbedPerChannel(nn.Module):
    """Cuts pictures (B, C, H, W) into patches of single channels: (B, C * patches, embed_dim)."""

    def __init__(self, img_size: int = 224, patch_size: int = 16, in_chans: int = 3, embed_dim: int = 768) -> None:
        super().__init__()
        self.patch_size, self.in_chans = patch_size, in_chans
        self.num_patches = in_chans * (img_size // patch_size) ** 2
        self.proj = nn.Conv2d(1, embed_dim, kernel_size=patch_size, stride=patch_size)
        self.channel_embed = nn.Parameter(0.02 * torch.randn(in_chans, embed_dim))

    def forward(self, x: torch.Tensor, current_channel_indices: torch.Tensor | None = None) -> torch.Tensor:
        """The tokens with their channels' vectors, without locations."""
        batch, channels = x.shape[:2]
        if current_channel_indices is None:
            current_channel_indices = torch.arange(channels, device=x.device).expand(batch, channels)
        tokens = self.proj(x.flatten(0, 1).unsqueeze(1)).flatten(2).transpose(1, 2)
        tokens = tokens.unflatten(0, (batch, channels))
        return (tokens + self.channel_embed[current_channel_indices].unsqueeze(2)).flatten(1, 2)


class ChannelViT(VisionTransformer):
    """Takes the arguments of VisionTransformer."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        in_chans = settings.get("in_chans", 3)
        self.patch_embed = PatchEmbedPerChannel(
            img_size=settings.get("img_size", [224])[0],
            patch_size=settings.get("patch_size", 16),
            in_chans=in_chans,
            embed_dim=self.embed_dim,
        )
        self.cls_token = nn.Parameter(torch.zeros(1, 1, self.embed_dim))
        self.pos_embed = nn.Parameter(
            torch.zeros(1, self.patch_embed.num_patches // in_chans + 1, self.embed_dim)
        )
        self.pos_drop = nn.Dropout(settings.get("drop_rate", 0.0))

    def prepare_tokens(self, x: torch.Tensor, current_channel_indices: torch.Tensor | None = None) -> torch.Tensor:
        """The class token and the tokens of all channels, each with its location: (B, 1 + C * patches, embed_dim)."""
        batch, channels, height, width = x.shape
        grid = (height // self.patch_embed.patch_size, width // self.patch_embed.patch_size)
        places = interpolated(self.pos_embed, 1 + grid[0] * grid[1], grid)
        tokens = self.patch_embed(x, current_channel_indices) + places[:, 1:].repeat(1, channels, 1)
        start = (self.cls_token + places[:, :1]).expand(batch, -1, -1)
        return self.pos_drop(torch.cat([start, tokens], dim=1))

    def forward(self, x: torch.Tensor, current_channel_indices: torch.Tensor | None = None) -> torch.Tensor:
        """All tokens after the last block, normalised. current_channel_indices: (B, C), whole numbers below in_chans."""
        x = self.prepare_tokens(x, current_channel_indices)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
