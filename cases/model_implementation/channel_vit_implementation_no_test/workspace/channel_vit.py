"""A vision transformer in which every channel of a patch is a token of its own."""

from typing import Any

import torch
from torch import nn

from vit import VisionTransformer


class PatchEmbedPerChannel(nn.Module):
    """Cuts pictures (B, C, H, W) into patches of single channels: (B, C * patches, embed_dim)."""

    def __init__(self, img_size: int = 224, patch_size: int = 16, in_chans: int = 3, embed_dim: int = 768) -> None:
        super().__init__()
        raise NotImplementedError  # TODO

    def forward(self, x: torch.Tensor, current_channel_indices: torch.Tensor | None = None) -> torch.Tensor:
        """The tokens with their channels' vectors, without locations."""
        raise NotImplementedError  # TODO


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
        raise NotImplementedError  # TODO

    def forward(self, x: torch.Tensor, current_channel_indices: torch.Tensor | None = None) -> torch.Tensor:
        """All tokens after the last block, normalised.

        x: (B, C, H, W), whose C channels are some of the in_chans that the model knows.
        current_channel_indices: (B, C), which ones. A model for red, green and blue (in_chans is 3) may get pictures
        of red and blue alone: then x is (B, 2, H, W), and each row of the indices is [0, 2]. The tokens of x[:, 1]
        get the vector of channel 2, which is blue.
        """
        x = self.prepare_tokens(x, current_channel_indices)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
