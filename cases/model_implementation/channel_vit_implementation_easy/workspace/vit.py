"""A plain vision transformer in the manner of DINO's: one token for a patch, all channels together."""

from collections.abc import Sequence

import torch
from torch import nn

from layers import Block
from positions import interpolated


class PatchEmbed(nn.Module):
    """Cuts pictures (B, in_chans, H, W) into patches, each of which becomes a token: (B, patches, embed_dim)."""

    def __init__(self, img_size: int = 224, patch_size: int = 16, in_chans: int = 3, embed_dim: int = 768) -> None:
        super().__init__()
        self.img_size, self.patch_size = img_size, patch_size
        self.num_patches = (img_size // patch_size) ** 2
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(x).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    def __init__(
        self,
        img_size: Sequence[int] = (224,),
        patch_size: int = 16,
        in_chans: int = 3,
        embed_dim: int = 768,
        depth: int = 12,
        num_heads: int = 12,
        mlp_ratio: float = 4.0,
        qkv_bias: bool = False,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.patch_embed = PatchEmbed(img_size[0], patch_size, in_chans, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.patch_embed.num_patches + 1, embed_dim))
        self.pos_drop = nn.Dropout(drop_rate)
        rates = torch.linspace(0, drop_path_rate, depth).tolist()
        self.blocks = nn.ModuleList(
            Block(embed_dim, num_heads, mlp_ratio, qkv_bias, drop_rate, rate) for rate in rates
        )
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def prepare_tokens(self, x: torch.Tensor) -> torch.Tensor:
        """The class token and the patches' tokens, each with its location: (B, 1 + patches, embed_dim)."""
        grid = (x.shape[2] // self.patch_embed.patch_size, x.shape[3] // self.patch_embed.patch_size)
        x = self.patch_embed(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        return self.pos_drop(x + interpolated(self.pos_embed, x.shape[1], grid))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All tokens after the last block, normalised."""
        x = self.prepare_tokens(x)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def get_last_selfattention(self, x: torch.Tensor) -> torch.Tensor:
        """The attention of the last block: (B, heads, tokens, tokens)."""
        x = self.prepare_tokens(x)
        for block in self.blocks[:-1]:
            x = block(x)
        return self.blocks[-1](x, return_attention=True)

    def get_intermediate_layers(self, x: torch.Tensor, n: int = 1) -> list[torch.Tensor]:
        """The normalised tokens after each of the last n blocks."""
        x, found = self.prepare_tokens(x), []
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number >= len(self.blocks) - n:
                found.append(self.norm(x))
        return found
